"""Gradients of loss and proxy together: what the savings on L cost in computation."""

from __future__ import annotations

from dataclasses import dataclass

from proxyprox._checks import nonnegative, positive
from proxyprox.theory._checks import smoothness_and_convexity


@dataclass(frozen=True)
class Work:
    """Gradient counts of ProxyProx and of SGD at one accuracy, constants ignored.

    Parameters
    ----------
    target_gradients : float
        K, the stochastic gradients of L that ProxyProx uses.
    inner_steps : float
        T, the SGD steps on the proxy in each of its iterations.
    proxy_gradients : float
        T·K, the stochastic gradients of the proxy in all.
    sgd_gradients : float
        S, the stochastic gradients of L that SGD uses without a proxy.

    Examples
    --------
    >>> Work(target_gradients=2.0, inner_steps=5.0, proxy_gradients=10.0, sgd_gradients=6.0)
    Work(target_gradients=2.0, inner_steps=5.0, proxy_gradients=10.0, sgd_gradients=6.0)
    """

    target_gradients: float
    inner_steps: float
    proxy_gradients: float
    sgd_gradients: float


def total_work(
    *,
    epsilon: float,
    H: float,
    mu: float,
    delta: float,
    sigma: float,
    rho: float | None = None,
) -> Work:
    r"""Compare the gradients of L and of the proxy with those of SGD, L strongly convex.

    Constants and logarithms aside, with :math:`G^2 = \mu\varepsilon` and
    :math:`\eta = 1/(\mu K)`,

    .. math::

        K = \frac\delta\mu + \frac{\sigma^2}{\mu\varepsilon}, \qquad
        T = \frac{H}{\mu K} + \frac{H\rho^2}{\mu^2K\varepsilon}, \qquad
        S = \frac H\mu + \frac{\sigma^2}{\mu\varepsilon}.

    The paper, which takes ρ = σ, prints :math:`K/(\mu K)` for the first term of T; its product
    :math:`TK = H/\mu + H\sigma^2/(\mu^2\varepsilon)` shows that H is meant. K and T are
    floored at 1 here, since neither can be less than one step.

    ProxyProx uses fewer gradients of L whenever δ < H, and more gradient computations in all.

    Parameters
    ----------
    epsilon : float
        Wanted accuracy ε > 0.
    H : float
        Smoothness H ≥ μ of loss and proxy.
    mu : float
        Strong convexity μ > 0 of the loss L.
    delta : float
        Similarity constant δ of loss and proxy.
    sigma : float
        Noise level of the loss's stochastic gradients.
    rho : float, optional
        Noise level of the proxy's stochastic gradients; ``sigma`` if not given.

    Returns
    -------
    Work
        The counts K, T, T·K and S.

    Raises
    ------
    ValueError
        If an argument is out of its range, or ``H`` is below ``mu``.

    Examples
    --------
    >>> total_work(epsilon=1.0, H=100.0, mu=1.0, delta=3.0, sigma=1.0)
    Work(target_gradients=4.0, inner_steps=50.0, proxy_gradients=200.0, sgd_gradients=101.0)

    References
    ----------
    Woodworth, Mishchenko, Bach, "Two Losses Are Better Than One", ICML 2023: the section
    comparing with direct optimisation.
    """
    epsilon = positive("epsilon", epsilon)
    H, mu = smoothness_and_convexity(H, mu)
    delta = nonnegative("delta", delta)
    sigma = nonnegative("sigma", sigma)
    rho = sigma if rho is None else nonnegative("rho", rho)

    noise = sigma * sigma / mu / epsilon
    K = max(1.0, delta / mu + noise)
    T = max(1.0, H / mu / K * (1 + rho * rho / mu / epsilon))
    return Work(
        target_gradients=K, inner_steps=T, proxy_gradients=T * K, sgd_gradients=H / mu + noise
    )
