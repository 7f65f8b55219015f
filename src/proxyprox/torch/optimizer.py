"""ProxyProx as a ``torch.optim.Optimizer``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from proxyprox._util.validation import flag, message
from proxyprox.corrections import Correction, Plain
from proxyprox.result import StepRecord
from proxyprox.torch import checks
from proxyprox.torch.base import ProxyOptimizer
from proxyprox.torch.distributed import parameters_of
from proxyprox.torch.inner import ImplicitStep, OuterStep, as_stepper
from proxyprox.torch.proxy import as_proxy
from proxyprox.torch.step import keeps_estimate, make_blocks, take_step

PLAIN, IMPLICIT = Plain(), ImplicitStep()


class ProxyProx(ProxyOptimizer):
    r"""Proximal-point steps on a cheap proxy, corrected by the gradients in ``.grad``.

    .. math:: w_{k+1} \approx \arg\min_w\; \hat L(w) + \theta\langle m_k, w - w_k\rangle
              + \frac{1}{2\eta}\|w - w_k\|^2, \qquad m_k \text{ an estimate of }
              \nabla L(w_k) - \nabla\hat L(w_k)

    ``.grad`` holds ``g_k``, a stochastic gradient of the expensive loss, from an ordinary
    ``loss.backward()``; the optimiser evaluates the proxy itself.

    Parameters
    ----------
    params : iterable
        Parameters, or groups of them; a group may have its own ``lr``, ``weight_decay`` and
        ``decoupled_weight_decay``.
    lr : float or one-element tensor
        η, so that every scheduler works (``OneCycleLR`` with ``cycle_momentum=False``). 0 leaves
        a group where it is; ``math.inf`` drops the proximal term (AuxMom as published).
    proxy : callable or Proxy
        ``proxy()`` returns the whole proxy loss; :class:`Proxy` takes batches and a loss.
    correction : Correction
        ``Plain()`` is the paper's, ``EMA(a)`` AuxMom, ``Mean()`` the running mean.
    correction_weight : float
        θ. Below 1 the subproblem leans towards the proxy: the fixed point is no longer a
        stationary point of L but one of ``θ L + (1 − θ) L̂``. That is a bias, and it does not
        vanish with η; it may pay in short runs, as the noise of the correction shrinks by θ.
    inner : ImplicitStep or callable
        How inner steps are taken. A callable makes a torch optimiser (of lr at most η/2) from
        parameters: ``functools.partial(torch.optim.AdamW, lr=0.003, weight_decay=0)``.
    stop : int or callable
        After how many steps an inner solve ends: a number, or a function of the outer step.
    weight_decay : float
        λ. Coupled, λ w_k is added to g_k as in ``torch.optim.SGD``.
    decoupled_weight_decay : bool
        Subtract ``η λ w_k`` after the inner solve instead, as AdamW does.
    model : torch.nn.Module, optional
        The network, or its DistributedDataParallel, so that its BatchNorm and Dropout can be
        switched during proxy passes; without it they are not, and running statistics see the
        proxy's data.
    proxy_mode : {"frozen", "no_dropout", "eval", "train"}
        During proxy passes of ``model``: batch statistics, with running ones left untouched; the
        same without Dropout; evaluation mode; or nothing switched.
    measure_residual : bool
        Measure ``‖∇φ_k(w_{k+1})‖`` with the whole proxy after every step, for :attr:`record`.
    probe : bool
        Refuse weights that are not finite, and ranks that differ, at every step. At the first,
        warn if two evaluations of the proxy differ, if its gradient is far longer than the
        target's, or BatchNorm needs care.

    Attributes
    ----------
    ledger : Ledger
        Target gradients, full and sampled proxy gradients, and seconds so far (as the host sees
        them: work queued on a GPU is not waited for).
    record : StepRecord or None
        The last step's numbers; the residual is NaN unless it was measured.

    Notes
    -----
    Memory beyond parameters and gradients: w_k, m_k and one gradient of the proxy, three copies
    in all, and what a torch inner optimiser keeps. No second network. Clipping clips ``g_k``, and
    ``.grad`` stays as it was.

    References
    ----------
    Woodworth, Mishchenko and Bach, "Two Losses Are Better Than One", ICML 2023.

    Examples
    --------
    >>> import torch
    >>> w = torch.nn.Parameter(torch.tensor([3.0, -2.0], dtype=torch.float64))
    >>> a, b = torch.tensor([1.0, 30.0]), torch.tensor([1.1, 29.0])
    >>> optimizer = ProxyProx([w], lr=1.0, proxy=lambda: (b * w**2).sum() / 2,
    ...                       inner=ImplicitStep(0.03), stop=50)
    >>> for _ in range(30):
    ...     optimizer.zero_grad()
    ...     ((a * (w - 1) ** 2).sum() / 2).backward()
    ...     optimizer.step()
    >>> [round(x, 3) for x in w.tolist()], optimizer.ledger.target_gradients
    ([1.0, 1.0], 30)
    """

    def __init__(
        self,
        params: Any,
        lr: Any,
        *,
        proxy: Any,
        correction: Correction = PLAIN,
        correction_weight: float = 1.0,
        inner: Any = IMPLICIT,
        stop: int | Callable[[int], int] = 20,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        model: Any | None = None,
        proxy_mode: str = "frozen",
        measure_residual: bool = False,
        probe: bool = True,
    ) -> None:
        self.correction = correction
        self.correction_weight = correction_weight
        self.stop = stop
        self.measure_residual = flag("measure_residual", measure_residual)
        self.record: StepRecord | None = None
        defaults = {"lr": lr, "weight_decay": weight_decay}
        defaults["decoupled_weight_decay"] = decoupled_weight_decay
        checks.check_group(defaults)
        listed = checks.listed_params(params)
        super().__init__(listed, defaults, as_proxy(proxy), model, proxy_mode, probe)
        checks.check_settings(self)
        checks.number_of_steps(stop, 0)
        self.correction_weight = float(correction_weight)
        self._keeps = keeps_estimate(correction)
        self._stepper = as_stepper(inner)
        self._stepper.begin(0, self.param_groups)

    def advance(self, begun: float) -> None:
        """Take one outer step with the gradients in ``.grad``."""
        blocks = make_blocks(self)
        if not blocks:
            return
        steps = checks.number_of_steps(self.stop, self._k)
        outer = OuterStep(self, self._k, steps, self._stepper, self._keeps, self._probe)
        residual, moved = take_step(blocks, outer)
        self.pay(begun)
        ledger, eta = self.ledger, max(block.eta for block in blocks)
        paid = ledger.target_gradients, ledger.proxy_gradients, ledger.seconds
        self.record = StepRecord(outer.k, eta, residual, math.nan, None, steps, moved, *paid)

    def newest(self) -> dict[str, float]:
        """Return the newest step's numbers."""
        step = self.record
        return {
            "theta": self.correction_weight,
            "displacement": math.nan if step is None else step.displacement,
            "residual": math.nan if step is None else step.residual,
            "lr": float(self.param_groups[0]["lr"]),
        }

    # -- groups -------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters; its estimate of ∇L − ∇L̂ starts at the next step.

        Parameters
        ----------
        param_group : dict
            ``params``, and options that differ from the optimiser's.
        """
        checks.check_group({**self.defaults, **param_group})
        super().add_param_group(param_group)

    # -- saving -----------------------------------------------------------------------------

    def own_state(self) -> dict[str, Any]:
        """Return what only this optimiser saves beside tensors and options."""
        return {"correction": repr(self.correction)}

    def check_extra(self, extra: Mapping[str, Any]) -> None:
        """Refuse another kind of correction."""
        if extra["correction"].partition("(")[0] != repr(self.correction).partition("(")[0]:
            allowed = f"{extra['correction']}, as it was saved with: its estimate is of that kind"
            remedy = "Or start another optimiser without the state."
            raise ValueError(message("correction", self.correction, allowed, remedy))

    def fill_state(self) -> None:
        """Fill the state with zeros, which the next step drops, in the place of what will be."""
        self._placeholders = True
        for p in parameters_of(self) if self._keeps else []:
            self.state[p]["estimate"] = torch.zeros_like(p)

    def __getstate__(self) -> dict[str, Any]:
        # Optimizer's own keeps three entries only; hooks are left out as it does.
        own = {k: v for k, v in self.__dict__.items() if "hooks" not in k and k != "step"}
        return {**own, **super().__getstate__()}
