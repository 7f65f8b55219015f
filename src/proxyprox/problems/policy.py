"""The thresholds of proxies that a run fits to its target."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SeveralPolicy:
    """What the weights of several proxies are fitted by.

    benchmarks/several_proxies.py set it on mushrooms and generated tables
    (docs/results/several_proxies).

    Attributes
    ----------
    ridge : float
        The price of a squared weight, in units of the median proxy's squared secants.
    share : float
        A proxy that explains a smaller share of the secants gets the weight 0: a stiff useless one
        costs tens of rounds even at a hundredth.
    fade : float
        What an exact secant counts one round later, and one of a batch at the next one.
    explained : tuple of float
        The least share of the secants that weights above zero explain, and those that are worth a
        look at the combination's minimum.
    alike : float
        The least share of the target's first gradient that proxies of the same slope explain.
    """

    ridge: float = 0.1
    share: float = 0.1
    fade: tuple[float, float] = (0.8, 0.97)
    explained: tuple[float, float] = (0.3, 0.5)
    alike: float = 0.8


@dataclass(frozen=True)
class ParametricPolicy:
    """What the parameters of a proxy are fitted by; benchmarks/several_proxies.py set it.

    Attributes
    ----------
    answers : int
        The target's last answers that are fitted to.
    moved, leap : float
        The relative changes of a parameter for which the proxy is made anew, and for which its new
        minimum is worth a look.
    singular, blind : float
        A direction of relative singular value below the first was not seen; a parameter of which
        more than the second lies in such directions is undetermined.
    broken : float
        The misfit of a model that is not finite.
    """

    answers: int = 6
    moved: float = 1e-3
    leap: float = 0.05
    singular: float = 1e-6
    blind: float = 1e-3
    broken: float = 1e6
