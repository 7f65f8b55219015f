"""AdamW that also steps on a proxy, and the choice of how."""

from __future__ import annotations

import copy
import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from proxyprox._util.files import atomic_output, locked
from proxyprox._util.validation import Words, fraction, message, one_of, positive, whole
from proxyprox.advice.choice import Choice
from proxyprox.inner.base import NonFiniteError
from proxyprox.torch import checks
from proxyprox.torch.base import ProxyOptimizer
from proxyprox.torch.distributed import (
    copy_into,
    full_value,
    kept_gradients,
    parameters_of,
    set_gradients,
)
from proxyprox.torch.inner import copy_tensors
from proxyprox.torch.policy import PROBE
from proxyprox.torch.proxy import as_proxy, clear, gradients

NUMBERS = ("rises", "peak", "last_lr")


class ProxyStepWarning(UserWarning):
    """Steps on the proxy raise the loss that they are to lower."""


@dataclass(frozen=True)
class Way:
    """How many proxy steps follow a target step, and what their gradients are.

    ``steps_at`` takes the learning rate as a share of the largest so far. ``scale`` multiplies the
    target's gradient, ``theta`` the estimate of ∇L − ∇L̂ that is added to the proxy's.
    """

    steps_at: Callable[[float], int]
    scale: float = 1.0
    theta: float = 0.0

    def target_share(self, share: float) -> float:
        """Return the weight of L beside L̂ in what an outer step descends."""
        steps = self.steps_at(share)
        return (self.scale + self.theta * steps) / (self.scale + steps)


def make_way(name: str, steps: int, scale: float, theta: float) -> Way:
    """Return one of the ways by its name."""
    ways = {
        "mixed": Way(lambda share: steps, scale=scale),
        "corrected": Way(lambda share: steps, scale=scale, theta=theta),
        "fine-tuned": Way(lambda share: round(steps * max(0.0, 2 * share - 1))),
        "target alone": Way(lambda share: 0),
    }
    return ways[one_of("way", name, ways)]


# The ways, and what each of them means for the answer.
WAYS = {
    "mixed": (
        "The weights are drawn towards the proxy's minimum, by its share of the gradients, however "
        "many steps are taken."
    ),
    "corrected": (
        "Each proxy step is corrected by a share of ∇L − ∇L̂; the rest of the difference stays as a "
        "bias towards the proxy, however many steps are taken."
    ),
    "fine-tuned": (
        "Proxy steps become fewer as the learning rate falls, and end at half of the largest: what "
        "the proxy has taught is where the rest, on the target alone, begins."
    ),
    "target alone": "The proxy is not used, so it biases nothing.",
}


def choose_way(
    train: Callable[[str], Any],
    ways: Sequence[str] = tuple(WAYS),
    *,
    path: str | os.PathLike[str] | None = None,
) -> Choice:
    """Train in each way and return the one that held-out rows of the target prefer.

    Parameters
    ----------
    train : callable
        ``train(way)`` trains a new network with ``ProxyAdamW(..., way=way)`` and returns the loss
        of each held-out row (or batch; a single number has no standard error): a tensor, an array
        or a list. If labels are scarce and gradients are not, let it train in full; where target
        gradients are scarce, with the same schedule in a small part of the steps.
    ways : sequence of str
        What to try: "mixed", "corrected", "fine-tuned" and "target alone", or some of them.
    path : path-like, optional
        JSON file in which finished ways are kept at once; a second call trains the others only. Two
        processes cannot use one file at a time: under ``torchrun`` each rank has its own. Take
        another file for other data or settings, which it does not know.

    Returns
    -------
    Choice
        The way of least mean loss, and how far behind the others are.

    Examples
    --------
    >>> choice = choose_way(lambda way: [0.3, 0.5] if way == "mixed" else [0.6, 0.6],
    ...                     ["mixed", "target alone"])
    >>> choice.way, choice.losses
    ('mixed', {'mixed': 0.4, 'target alone': 0.6})
    >>> print(choice)  # doctest: +ELLIPSIS
    Mixed: held-out loss 0.4; target alone +0.2 ± 0.1.
    The weights are drawn towards...
    """
    for way in ways:
        one_of("ways", way, WAYS)
    if not ways:
        raise ValueError(message("ways", ways, "one or more", f"Leave it out for {tuple(WAYS)}."))
    # Another process that trains the same ways would only repeat them.
    with nullcontext() if path is None else locked(path):
        known = train_ways(train, ways, path)
    if len({len(known[way]) for way in ways}) > 1:
        counts = {way: len(known[way]) for way in ways}
        raise ValueError(message("numbers of held-out losses", counts, "equal, of the same rows"))
    losses = {way: float(np.mean(known[way])) for way in ways}
    chosen = min(losses, key=losses.__getitem__)
    if not math.isfinite(losses[chosen]):
        got, remedy = Words("no finite loss in any way"), "Lower the learning rate."
        raise ValueError(message("train", got, "a network that has not diverged", remedy))
    errors = {way: standard_error(np.subtract(known[way], known[chosen])) for way in ways}
    return Choice(chosen, math.nan, losses, errors, WAYS[chosen])


def train_ways(
    train: Callable[[str], Any], ways: Sequence[str], path: str | os.PathLike[str] | None
) -> dict[str, list[float]]:
    """Return the held-out losses of each way; those that the file has are not trained again."""
    known: dict[str, list[float]] = {}
    if path is not None and os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            try:
                known = dict(json.load(file))
            except (ValueError, TypeError) as error:
                remedy = "Choose another path, or remove the file."
                raise ValueError(message("path", path, "a file of choose_way", remedy)) from error
    for way in ways:
        if way not in known:
            returned = train(way)
            if isinstance(returned, torch.Tensor):
                returned = returned.detach().cpu().double()
            name = f"what train({way!r}) returns"
            allowed = "the losses of held-out rows, in one row"
            try:
                found = np.atleast_1d(np.asarray(returned, dtype=float))
            except (TypeError, ValueError) as error:
                raise TypeError(message(name, returned, allowed)) from error
            if found.ndim != 1 or not found.size:
                raise ValueError(message(name, Words(f"an array of shape {found.shape}"), allowed))
            # A run that diverged is worse than every other.
            known[way] = np.where(np.isfinite(found), found, math.inf).tolist()
            if path is not None:
                with atomic_output(path) as output:
                    output.write(json.dumps(known).encode())
    return known


def standard_error(gaps: Any) -> float:
    """Return the standard error of a mean of numbers; NaN if it is not known."""
    known = len(gaps) > 1 and np.isfinite(gaps).all()
    return float(gaps.std(ddof=1) / math.sqrt(len(gaps))) if known else math.nan


class ProxyAdamW(ProxyOptimizer):
    r"""AdamW with a proxy: after each step on the target, a few steps on cheap data.

    ``.grad`` holds ``g_k``, a gradient of the expensive loss, from an ordinary
    ``loss.backward()``. One AdamW step follows it; then come steps with

    .. math:: \nabla\hat L_B(w) + \theta\, m_k, \qquad
              m_k = (1-a)\,m_{k-1} + a\,(g_k - \nabla\hat L_{B_k}(w_k))

    on minibatches B of the proxy, with the same moments, learning rate and weight decay. The
    ``way`` says how many steps and which θ; :func:`choose_way` compares them.

    ==============  ===========================================================================
    "mixed"         the target's gradient counts ``target_weight`` times, θ = 0 (default)
    "corrected"     so, too, with θ > 0: where every target gradient is of new rows, and the proxy
                    is old or synthetic data that the target differs from
    "fine-tuned"    θ = 0 and fewer proxy steps as the learning rate falls, none below half of the
                    largest: where few right labels are used again and again
    "target alone"  no proxy steps: AdamW
    ==============  ===========================================================================

    Parameters
    ----------
    params : iterable
        Parameters, or groups of them with their own ``lr``, ``weight_decay``, ….
    lr : float or one-element tensor
        AdamW's learning rate; every scheduler works.
    proxy : Proxy or callable
        The cheap loss: ``Proxy(loader, loss)``, or a function without arguments.
    way : {"mixed", "corrected", "fine-tuned", "target alone"}
        See the table.
    proxy_steps : int
        Proxy steps after each step on the target.
    target_weight : float
        By what the target's gradient is multiplied, mixed or corrected. AdamW averages gradients
        over many steps, so that it is a weight beside the proxy's, not a longer step.
    correction_weight : float
        θ of the corrected way, in (0, 1].
    averaging : float
        a, in (0, 1]: the weight of the newest difference.
    model : torch.nn.Module, optional
        The network, or its DistributedDataParallel: BatchNorm's running statistics then see the
        target's batches only.
    proxy_mode : {"frozen", "no_dropout", "eval", "train"}
        Of ``model`` in proxy passes, as in :class:`ProxyProx`.
    probe : bool
        Refuse weights that are not finite, and ranks that differ, at every step; look now and then
        whether proxy steps lower the loss that they step on; and check the proxy at the first step.
    **adamw
        Options of ``torch.optim.AdamW``: ``betas``, ``eps``, ``weight_decay``, ``fused``, ….

    Attributes
    ----------
    ledger : Ledger
        Target gradients, gradients of the proxy's batches, and seconds (as the host sees them).

    Notes
    -----
    Memory beyond AdamW's: w_k, a gradient of the proxy and, if corrected, m_k.

    Examples
    --------
    >>> import torch
    >>> from torch.nn.functional import mse_loss
    >>> from proxyprox.torch import Proxy
    >>> _ = torch.manual_seed(0)
    >>> model = torch.nn.Linear(3, 1)
    >>> x = torch.randn(96, 3)
    >>> y = x.sum(1, keepdim=True)
    >>> def loss(batch):
    ...     return mse_loss(model(batch[0]), batch[1])
    >>> rows = [(x[i : i + 16], y[i : i + 16]) for i in range(0, 96, 16)]
    >>> cheap = Proxy([(a, b + 0.1) for a, b in rows[:2]], loss)
    >>> optimizer = ProxyAdamW(model.parameters(), lr=0.1, proxy=cheap, model=model)
    >>> scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)
    >>> for _ in range(40):
    ...     optimizer.zero_grad()
    ...     loss(rows[4]).backward()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> bool(loss(rows[3]) < 0.02), optimizer.ledger.target_gradients
    (True, 40)
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        *,
        proxy: Any,
        way: str = "mixed",
        proxy_steps: int = 8,
        target_weight: float = 3.0,
        correction_weight: float = 0.3,
        averaging: float = 0.2,
        model: Any | None = None,
        proxy_mode: str = "frozen",
        probe: bool = True,
        **adamw: Any,
    ) -> None:
        if proxy is None:
            raise TypeError(message("proxy", None, "a Proxy or a function", "Use torch's AdamW."))
        checks.check_lr(lr)
        params = checks.listed_params(params)
        steps = whole("proxy_steps", proxy_steps)
        scale, theta = positive("target_weight", target_weight), correction_weight
        if isinstance(way, Choice):
            raise TypeError(message("way", Words("a Choice"), "its name", "Pass choice.way."))
        self.way = way
        self._way = make_way(way, steps, scale, fraction("correction_weight", theta))
        self.averaging, self._warned = fraction("averaging", averaging), False
        self._rises: list[float] = []
        self._peak = self._last_lr = 0.0
        self._displacement: Any = math.nan
        self._residual: Any = math.nan
        groups = [dict(g) if isinstance(g, Mapping) else g for g in params]
        self._adamw = torch.optim.AdamW(groups, lr=lr, **adamw)
        groups, defaults = self._adamw.param_groups, self._adamw.defaults
        super().__init__(groups, defaults, as_proxy(proxy), model, proxy_mode, probe)

    # -- the step ---------------------------------------------------------------------------

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step on the target with the gradients in ``.grad``, and those on the proxy.

        Parameters
        ----------
        closure : callable, optional
            Clears the gradients, computes the loss, calls ``backward`` and returns the loss.

        Returns
        -------
        loss : tensor or None
            What the closure returned.
        """
        begun = time.perf_counter()
        if self.is_trial_step(closure):
            return None
        with torch.enable_grad():
            loss = None if closure is None else closure()
        params = [p for p in parameters_of(self) if p.grad is not None]
        if not params:
            return loss
        lr = max(float(group["lr"]) for group in self.param_groups)
        self._last_lr, self._peak = lr, max(lr, self._peak)
        self._take_step(params, lr / self._peak if self._peak > 0 else 1.0)
        self.pay(1, begun)
        return loss

    def _take_step(self, params: list[Any], share: float) -> None:
        """Move the parameters, or leave them as they were if anything fails."""
        before = copy_tensors(params)
        with kept_gradients(params) as target:
            try:
                with checks.watched_passes(self, params, self._k, self._probe):
                    steps, correction = self._way.steps_at(share), None
                    if steps and self._way.theta:
                        correction = self._update_correction(params, target)
                    self._descend(params, self._scale(params, target, correction is not None))
                    if steps:
                        self._step_on_proxy(params, steps, correction)
                if self._probe:
                    checks.check_end(self._proxy, params, target, self._k, steps)
                torch._foreach_sub_(before, params)
                self._displacement = checks.total_norm(before)
            except BaseException as error:
                copy_into(params, before)
                for p in params if isinstance(error, NonFiniteError) else []:
                    self.state[p].clear()  # what is not finite may be in it
                raise

    def _scale(self, params: list[Any], target: Sequence[Any], reuse: bool) -> Sequence[Any]:
        """Return the target's gradient as often as it counts; reuse the memory in ``.grad``."""
        scale = self._way.scale
        if scale == 1:
            return target
        if not reuse:
            return list(torch._foreach_mul(target, scale))
        scaled = gradients(params)
        copy_into(scaled, target)
        torch._foreach_mul_(scaled, scale)
        return scaled

    def _update_correction(self, params: list[Any], target: Sequence[Any]) -> list[Any]:
        """Return m_k: the old estimate and the newest difference, on one batch of the proxy."""
        self._compute_proxy_gradient(params, self._proxy.sample())
        cheap, share = gradients(params), self.averaging
        old = [i for i, p in enumerate(params) if "correction" in self.state[p]]
        kept = [self.state[params[i]]["correction"] for i in old]
        if kept:
            # In the memory of the old one: there is room for three copies of the network.
            torch._foreach_mul_(kept, 1 - share)
            torch._foreach_add_(kept, [target[i] for i in old], alpha=share)
            torch._foreach_add_(kept, [cheap[i] for i in old], alpha=-share)
        known = dict(zip(old, kept, strict=True))
        return [known[i] if i in known else target[i] - cheap[i] for i in range(len(params))]

    def _descend(self, params: list[Any], found: Sequence[Any] | None = None) -> None:
        """Take AdamW's step with some gradients, or those in ``.grad``."""
        if found is not None:
            set_gradients(params, found)
        # Loading a state replaces these.
        self._adamw.param_groups, self._adamw.state = self.param_groups, self.state
        self._adamw.step()

    def _step_on_proxy(self, params: list[Any], steps: int, correction: Any) -> None:
        theta, looks, batch = self._way.theta, self._probe and self._k % PROBE.look_every == 0, None
        for t in range(steps):
            drawn = self._proxy.sample()
            value = self._compute_proxy_gradient(params, drawn)
            if t == self._k == 0:
                checks.check_loss(value)
                checks.check_dependence(params)
            if t == 0 and looks:
                batch, before = drawn, float(value)
                linear = inner_product(correction, params)
            if correction is not None:
                torch._foreach_add_(gradients(params), correction, alpha=theta)
            self._descend(params)
        self._residual = checks.total_norm(gradients(params))
        for p, m in zip(params, correction or (), strict=correction is not None):
            # Only now: AdamW takes a parameter with any state for one that it has seen.
            self.state[p]["correction"] = m
        if looks:
            linear = inner_product(correction, params) - linear
            rise = float(self._proxy.loss(batch)) - before + theta * linear
            self._judge_proxy_steps(rise / max(abs(before), 1e-30))

    def _compute_proxy_gradient(self, params: list[Any], batch: Any) -> Any:
        self.ledger.proxy_sampled_gradients += 1
        value = self._proxy.partial(batch, params)
        own = {id(p) for p in params}
        # Backward passes of FSDP reach parameters without a target gradient, too.
        clear([p for p in parameters_of(self) if id(p) not in own])
        return value

    def fill_state(self) -> None:
        """Fill the state with zeros, which the next step drops, in the place of what will be."""
        self._placeholders = True
        every = parameters_of(self)
        self._descend(every, [p.grad for p in every])
        for p in every if self._way.theta else []:
            self.state[p]["correction"] = torch.zeros_like(p)

    def _judge_proxy_steps(self, rise: float) -> None:
        """Warn once if steps on batches raise their loss, on the mean of a few looks."""
        # Steps that overshoot go up and down in turn: single looks say little.
        self._rises.append(rise)
        recent = float(np.mean(self._rises[-PROBE.looks :]))
        if len(self._rises) >= PROBE.looks and recent > PROBE.rise and not self._warned:
            self._warned = True
            checks.warn(
                f"proxy steps are too long: they raised the proxy loss that they step on by "
                f"{recent:.0%}, the mean of {PROBE.looks} looks. Use a smaller lr (now "
                f"{self._last_lr:.3g}).",
                ProxyStepWarning,
            )
        del self._rises[: -PROBE.looks]

    # -- looking and saving -----------------------------------------------------------------

    def newest(self) -> dict[str, float]:
        """Return the newest step's numbers; this waits for the device."""
        share = self._last_lr / self._peak if self._peak > 0 else 1.0
        return {
            "theta": self._way.target_share(share),
            "displacement": float(self._displacement),
            "residual": float(self._residual),
            "lr": self._last_lr,
        }

    def own_state(self) -> dict[str, Any]:
        """Return what only this optimiser saves beside tensors and options."""
        return {
            "way": self.way, **{name: copy.copy(getattr(self, f"_{name}")) for name in NUMBERS}
        }  # fmt: skip

    def check_extra(self, extra: Mapping[str, Any]) -> None:
        """Warn of another way."""
        if extra["way"] != self.way:
            found = f"way={self.way!r}, but this state was saved with {extra['way']!r}"
            checks.warn(f"{found}. The run uses the new one.", UserWarning)

    def load_own(self, extra: Mapping[str, Any]) -> None:
        """Take back what only this optimiser saves."""
        for name in NUMBERS:
            setattr(self, f"_{name}", copy.copy(extra[name]))


def inner_product(ones: Sequence[Any] | None, others: Sequence[Any]) -> float:
    """Return the inner product of two lists of tensors, 0 with None; this waits for the device."""
    pairs = [] if ones is None else zip(ones, others, strict=True)
    return float(full_value(sum((one * other).sum(dtype=torch.float64) for one, other in pairs)))
