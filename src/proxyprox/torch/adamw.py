"""AdamW that also steps on a proxy, in the way that held-out rows of the target prefer."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch.optim import Optimizer

from proxyprox._util.validation import fraction, message, one_of, whole
from proxyprox.inner.base import NonFiniteError
from proxyprox.result import Ledger
from proxyprox.torch import checks
from proxyprox.torch.inner import copy_tensors
from proxyprox.torch.proxy import MODES, as_proxy, gradients, proxy_mode

# The key of what a state dict holds beyond torch's own entries.
EXTRA = "proxyprox"
# Held-out batches of a comparison, and the standard errors that make a difference clear.
HELD_OUT_BATCHES, ERRORS = 8, 2.0
# Outer steps between two looks at the proxy steps; looks in a row, and rise, that are too much.
LOOK_EVERY, LOOKS, RISE = 50, 3, 0.25
# Stands for a held-out loss that is not finite.
HUGE_LOSS = 1e30
# When a comparison begins.
NOW, AT_PEAK = "now", "when lr no longer rises"
NUMBERS = ("k", "raised", "peak", "last_lr", "due")


class ProxyStepWarning(UserWarning):
    """Steps on the proxy raise the loss that they are to lower."""


@dataclass(frozen=True)
class Way:
    """How many proxy steps follow a target step, and what is added to their gradients.

    Attributes
    ----------
    name : str
        "corrected", "mixed" or "target alone".
    steps : int
        Proxy steps after each step on the target.
    weight : float
        θ, the weight of the estimate of ∇L − ∇L̂ in a proxy step.
    falls : bool
        Whether the number of proxy steps falls with the learning rate.
    """

    name: str
    steps: int
    weight: float = 0.0
    falls: bool = False

    def steps_at(self, share: float) -> int:
        """Return the proxy steps at a share of the largest learning rate so far."""
        return round(self.steps * share) if self.falls else self.steps

    def target_weight(self, share: float) -> float:
        """Return the weight of L beside L̂ in what an outer step descends."""
        steps = self.steps_at(share)
        return (1 + self.weight * steps) / (1 + steps)


MEANING = {
    "target alone": "The proxy is not used, so it biases nothing.",
    "mixed": (
        "The weights are drawn towards the proxy's minimum as long as proxy steps are taken; their "
        "number falls with the learning rate, so a schedule that ends at 0 ends on the target "
        "alone (pretraining and fine-tuning without a border between them)."
    ),
    "corrected": (
        "Each proxy step is corrected by a share of ∇L − ∇L̂; the rest of the difference stays as a "
        "bias towards the proxy."
    ),
}


@dataclass(frozen=True)
class Choice:
    """Which way the held-out rows preferred, and by how much.

    Attributes
    ----------
    way : str
        "corrected", "mixed" or "target alone".
    step : int
        Outer steps before the comparison ended.
    losses : dict
        Mean held-out loss of each way.
    gaps : dict
        Each other way's held-out loss minus the chosen one's, and the standard error over batches.
    """

    way: str
    step: int = 0
    losses: dict[str, float] = field(default_factory=dict)
    gaps: dict[str, tuple[float, float]] = field(default_factory=dict)

    def __str__(self) -> str:
        if not self.gaps:
            return f"{self.way}: nothing was compared. {MEANING[self.way]}"
        others = [f"{name} {gap:+.3g} ± {error:.2g}" for name, (gap, error) in self.gaps.items()]
        return (
            f"{self.way}: held-out loss {self.losses[self.way]:.3g} after {self.step} steps; "
            f"{', '.join(others)}. {MEANING[self.way]}"
        )


@dataclass
class Contender:
    """A way, the network and optimiser state that it has come to, and its held-out losses."""

    way: Way
    values: list[Any]
    state: Any
    losses: list[float] = field(default_factory=list)


@dataclass
class Comparison:
    """Ways that take turns, from the same start.

    Each takes ``rounds`` steps of its own, then half as many on the target alone: labels of another
    kind shift what a network predicts, which a few steps undo, and is not what counts. Then their
    losses on the same held-out batches are compared.
    """

    contenders: list[Contender]
    rounds: int
    turns: int = 0

    @property
    def current(self) -> Contender:
        """The contender whose turn it is."""
        return self.contenders[self.turns % len(self.contenders)]

    @property
    def settling(self) -> bool:
        """Whether the steps on the target alone have begun."""
        return self.turns >= self.rounds * len(self.contenders)

    @property
    def over(self) -> bool:
        """Whether every contender has taken all its steps."""
        return self.turns >= (self.rounds + -(-self.rounds // 2)) * len(self.contenders)

    def choose(self, step: int) -> tuple[Contender, Choice]:
        """Return the preferred contender: "mixed", unless another is clearly better."""
        chosen = self.contenders[0]
        for other in self.contenders[1:]:
            gap, error = gap_between(other, chosen)
            if gap < -ERRORS * error:
                chosen = other
        losses = {c.way.name: float(np.mean(c.losses)) for c in self.contenders}
        others = [c for c in self.contenders if c is not chosen]
        gaps = {c.way.name: gap_between(c, chosen) for c in others}
        return chosen, Choice(chosen.way.name, step, losses, gaps)


def gap_between(one: Contender, other: Contender) -> tuple[float, float]:
    """Return the mean difference of two contenders' losses and its standard error."""
    gaps = np.subtract(one.losses, other.losses)
    return float(gaps.mean()), float(gaps.std(ddof=1) / math.sqrt(len(gaps)))


class ProxyAdamW(Optimizer):  # type: ignore[misc]
    r"""AdamW with a proxy: after each step on the target, a few steps on cheap data.

    ``.grad`` holds ``g_k``, a gradient of the expensive loss, from an ordinary
    ``loss.backward()``. One AdamW step follows it; then come steps with

    .. math:: \nabla\hat L_B(w) + \theta\, m_k, \qquad
              m_k = (1-a)\,m_{k-1} + a\,(g_k - \nabla\hat L_{B_k}(w_k))

    on minibatches B of the proxy, with the same moments, learning rate and weight decay. Three ways
    are compared on held-out rows of the target: "corrected" (θ > 0), "mixed" (θ = 0, and fewer
    proxy steps as the learning rate falls) and "target alone" (no proxy step: AdamW).

    Parameters
    ----------
    params : iterable
        Parameters, or groups of them with their own ``lr``, ``weight_decay``, ….
    lr : float or one-element tensor
        AdamW's learning rate; every scheduler works.
    proxy : Proxy or callable
        The cheap loss: ``Proxy(loader, loss)``, or a function without arguments.
    held_out : Proxy, optional
        Rows of the target that are not trained on, as ``Proxy(loader, loss)``: only their loss is
        evaluated. Without them nothing is compared, and the way is "mixed".
    way : {"corrected", "mixed", "target alone"}, optional
        Take this way and compare nothing.
    proxy_steps : int
        Proxy steps after each step on the target.
    correction_weight : float
        θ of the corrected way, in (0, 1].
    averaging : float
        a, in (0, 1]: the weight of the newest difference.
    search : int
        Steps that each way takes in a comparison before half as many on the target alone. There is
        one comparison at the start and, where the learning rate rises first, one when it no longer
        does: ``9 * search`` outer steps in all, of which a third is kept.
    model : torch.nn.Module, optional
        The network: BatchNorm's running statistics then see the target's batches only.
    proxy_mode : {"frozen", "no_dropout", "eval", "train"}
        Of ``model`` in proxy passes, as in :class:`ProxyProx`.
    probe : bool
        Refuse weights that are not finite, at every step; look now and then whether proxy steps
        lower the loss that they step on; and check the proxy at the first step.
    **adamw
        Options of ``torch.optim.AdamW``: ``betas``, ``eps``, ``weight_decay``, ``fused``, ….

    Attributes
    ----------
    choice : Choice
        What was preferred and by how much; ``print(optimizer.choice)``.
    ledger : Ledger
        Target gradients, held-out losses (``target_values``), proxy gradients and seconds.

    Notes
    -----
    Memory beyond AdamW's: w_k, m_k and a gradient of the proxy; during a comparison also the
    weights and moments of every way. Between two steps of a comparison the parameters change to
    those of the next way, so averages of the weights should begin after it.

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
    >>> cheap = [(a, b + 0.1) for a, b in rows[:2]]
    >>> optimizer = ProxyAdamW(model.parameters(), lr=0.03, proxy=Proxy(cheap, loss),
    ...                        held_out=Proxy(rows[2:4], loss), model=model, search=5)
    >>> for _ in range(40):
    ...     optimizer.zero_grad()
    ...     loss(rows[4]).backward()
    ...     optimizer.step()
    >>> optimizer.choice.way in ("corrected", "mixed"), bool(loss(rows[3]) < 0.05)
    (True, True)
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        *,
        proxy: Any,
        held_out: Any | None = None,
        way: str | None = None,
        proxy_steps: int = 8,
        correction_weight: float = 0.3,
        averaging: float = 0.2,
        search: int = 10,
        model: Any | None = None,
        proxy_mode: str = "frozen",
        probe: bool = True,
        **adamw: Any,
    ) -> None:
        if proxy is None:
            raise TypeError(message("proxy", None, "a Proxy or a function", "Use torch's AdamW."))
        if isinstance(params, torch.Tensor):
            raise TypeError(message("params", params, "an iterable of tensors or of groups"))
        self.proxy: Any = as_proxy(proxy)
        self.held_out: Any = as_proxy(held_out)
        steps = whole("proxy_steps", proxy_steps)
        theta = fraction("correction_weight", correction_weight)
        # Without a clear difference the first is taken.
        self.ways = {
            "mixed": Way("mixed", steps, falls=True),
            "corrected": Way("corrected", steps, theta),
            "target alone": Way("target alone", 0),
        }
        self.averaging, self.search = fraction("averaging", averaging), whole("search", search)
        self.model, self.proxy_mode = model, one_of("proxy_mode", proxy_mode, MODES)
        self.way = self.ways["mixed" if way is None else one_of("way", way, self.ways)]
        self.choice, self.ledger, self._probe = Choice(self.way.name), Ledger(), probe
        compared = way is None and held_out is not None
        # Whether a comparison is to begin: at once, when lr has stopped rising, or not any more.
        self._due = NOW if compared else ""
        self._comparison: Comparison | None = None
        self._k = self._raised = 0
        self._peak = self._last_lr = 0.0
        self._displacement: Any = math.nan
        self._residual: Any = math.nan
        groups = [dict(g) if isinstance(g, Mapping) else g for g in params]
        self._adamw = torch.optim.AdamW(groups, lr=lr, **adamw)
        super().__init__(self._adamw.param_groups, self._adamw.defaults)
        checks.check_model(self)

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
        with torch.enable_grad():
            loss = None if closure is None else closure()
        params = [p for p in self._every_param() if p.grad is not None]
        if not params:
            return loss
        lr = max(float(group["lr"]) for group in self.param_groups)
        idle = self._comparison is None
        if idle and (self._due == NOW or (self._due == AT_PEAK and lr <= self._last_lr)):
            self._due = AT_PEAK if self._due == NOW else ""
            self._begin_comparison()
        if not idle and lr <= self._last_lr:
            self._due = ""  # the comparison under way has seen the largest learning rate
        self._last_lr, self._peak = lr, max(lr, self._peak)
        self._take_step(params, lr / self._peak if self._peak > 0 else 1.0)
        self._k += 1
        self.ledger.target_gradients += 1
        if self._comparison is not None:
            self._change_contender(self._comparison)
        self.ledger.seconds += time.perf_counter() - begun
        return loss

    def _take_step(self, params: list[Any], share: float) -> None:
        """Move the parameters, or leave them as they were if anything fails."""
        target, before = [p.grad for p in params], copy_tensors(params)
        first = self._probe and self._k == 0
        watch = checks.watch_statistics() if first and self.model is None else nullcontext()
        try:
            with proxy_mode(self.model, self.proxy_mode), watch:
                steps, correction = self.way.steps_at(share), None
                if steps and self.way.weight:
                    correction = self._update_correction(params, target)
                self._descend(params, target)
                if steps:
                    self._step_on_proxy(params, steps, correction)
            if self._probe:
                checks.check_weights(params, target, self._k)
            torch._foreach_sub_(before, params)
            self._displacement = torch.stack(torch._foreach_norm(before)).norm()
        except BaseException as error:
            torch._foreach_copy_(params, before)
            for p in params if isinstance(error, NonFiniteError) else []:
                self.state[p].clear()  # what is not finite may be in it
            raise
        finally:
            for p, g in zip(params, target, strict=True):
                p.grad = g

    def _update_correction(self, params: list[Any], target: Sequence[Any]) -> list[Any]:
        """Return m_k: the old estimate and the newest difference, on one batch of the proxy."""
        self._compute_proxy_gradient(params, self.proxy.sample())
        new = torch._foreach_sub(target, gradients(params))
        known = [self.state[p].get("correction") for p in params]
        kept = [(d, m) for d, m in zip(new, known, strict=True) if m is not None]
        if kept:
            torch._foreach_lerp_([d for d, _ in kept], [m for _, m in kept], 1 - self.averaging)
        return new

    def _descend(self, params: list[Any], found: Sequence[Any] | None = None) -> None:
        """Take AdamW's step with some gradients, or those in ``.grad``."""
        for p, g in zip(params, found or (), strict=found is not None):
            p.grad = g
        # Loading a state, or changing the way, replaces these.
        self._adamw.param_groups, self._adamw.state = self.param_groups, self.state
        self._adamw.step()

    def _step_on_proxy(self, params: list[Any], steps: int, correction: Any) -> None:
        weight, looks = self.way.weight, self._probe and self._k % LOOK_EVERY == 0
        start, batch = copy_tensors(params) if looks and weight else [], None
        for t in range(steps):
            drawn = self.proxy.sample()
            value = self._compute_proxy_gradient(params, drawn)
            if t == self._k == 0:
                checks.check_loss(value)
                checks.check_dependence(params)
            if t == 0 and looks:
                batch, before = drawn, float(value)
            if correction is not None:
                torch._foreach_add_(gradients(params), correction, alpha=weight)
            self._descend(params)
        self._residual = torch.stack(torch._foreach_norm(gradients(params))).norm()
        for p, m in zip(params, correction or (), strict=correction is not None):
            # Only now: AdamW takes a parameter with any state for one that it has seen.
            self.state[p]["correction"] = m
        if looks:
            away = torch._foreach_sub(params, start) if start else []
            slopes = [(m * d).sum() for m, d in zip(correction or (), away, strict=True)]
            rise = float(self.proxy.loss(batch)) - before + weight * float(sum(slopes))
            self._judge_proxy_steps(rise / max(abs(before), 1e-30))

    def _compute_proxy_gradient(self, params: list[Any], batch: Any) -> Any:
        self.ledger.proxy_sampled_gradients += 1
        return self.proxy.partial(batch, params)

    def _judge_proxy_steps(self, rise: float) -> None:
        """Warn once if steps on a batch have raised its own loss several times in a row."""
        self._raised = 0 if rise < RISE else self._raised + 1
        if self._raised == LOOKS:
            checks.warn(
                f"proxy steps are too long: {LOOKS} times in a row, {LOOK_EVERY} outer steps "
                f"apart, they raised the proxy loss that they step on, last by {rise:.0%}. Use a "
                f"smaller lr (now {self._last_lr:.3g}).",
                ProxyStepWarning,
            )

    # -- the comparison ---------------------------------------------------------------------

    def _begin_comparison(self) -> None:
        contenders = [
            Contender(way, copy_tensors(self._values()), copy_state(self.state))
            for way in self.ways.values()
        ]
        self._comparison = Comparison(contenders, self.search)
        self._show(contenders[0])

    def _every_param(self) -> list[Any]:
        return [p for group in self.param_groups for p in group["params"]]

    def _values(self) -> list[Any]:
        """Return all that a way changes besides the optimiser's state."""
        buffers = [] if self.model is None else list(self.model.buffers())
        return [*self._every_param(), *buffers]

    def _keep(self, contender: Contender) -> None:
        """Write the present network and state into a contender."""
        for kept, value in zip(contender.values, self._values(), strict=True):
            kept.copy_(value)
        contender.state = self.state

    def _show(self, contender: Contender) -> None:
        """Put a contender's network, state and way in place."""
        for value, kept in zip(self._values(), contender.values, strict=True):
            value.copy_(kept)
        self.state, self.way = contender.state, contender.way
        torch.clear_autocast_cache()

    def _change_contender(self, comparison: Comparison) -> None:
        """Let the next contender take the next step; after the last, choose one."""
        self._keep(comparison.current)
        comparison.turns += 1
        following = comparison.current
        if comparison.over:
            batches = [self.held_out.sample() for _ in range(HELD_OUT_BATCHES)]
            for contender in comparison.contenders:
                self._show(contender)
                with proxy_mode(self.model, "frozen" if self.model is None else "no_dropout"):
                    values = [float(self.held_out.loss(batch)) for batch in batches]
                contender.losses = [v if math.isfinite(v) else HUGE_LOSS for v in values]
                self.ledger.target_values += len(batches)
            following, self.choice = comparison.choose(self._k)
            self._comparison = None
        self._show(following)
        if self._comparison is not None and comparison.settling:
            self.way = self.ways["target alone"]

    # -- looking and saving -----------------------------------------------------------------

    def metrics(self) -> dict[str, float]:
        """Return numbers to log; this waits for the device.

        Returns
        -------
        dict
            ``theta``, the weight of the target beside the proxy in the last step (1: target
            alone); ``displacement``, how far the step went; ``residual``, the norm of the last
            gradient it followed; ``lr`` and what was paid.
        """
        share = self._last_lr / self._peak if self._peak > 0 else 1.0
        paid = ("target_gradients", "target_values", "proxy_sampled_gradients", "seconds")
        return {
            "theta": self.way.target_weight(share),
            "displacement": float(self._displacement),
            "residual": float(self._residual),
            "lr": self._last_lr,
            **{name: float(getattr(self.ledger, name)) for name in paid},
        }

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the rest of a run depends on, as numbers, text and tensors."""
        saved: dict[str, Any] = super().state_dict()
        numbers = {name: getattr(self, f"_{name}") for name in NUMBERS}
        comparison = self._comparison
        saved[EXTRA] = {
            **numbers,
            "way": self.way.name,
            "choice": asdict(self.choice),
            "ledger": self.ledger.as_dict(),
            "proxy": self.proxy.state_dict(),
            "held_out": {} if self.held_out is None else self.held_out.state_dict(),
            "turns": 0 if comparison is None else comparison.turns,
            "contenders": [] if comparison is None else self._pack(comparison.contenders),
        }
        return saved

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Resume, bit for bit, from a saved state.

        Parameters
        ----------
        state_dict : mapping
            What :meth:`state_dict` returned.
        """
        if EXTRA not in state_dict or "contenders" not in state_dict[EXTRA]:
            got, remedy = sorted(map(str, state_dict)), "It was saved by another optimiser."
            raise ValueError(message("keys of state_dict", got, f"with {EXTRA!r}", remedy))
        extra = state_dict[EXTRA]
        super().load_state_dict({k: v for k, v in state_dict.items() if k != EXTRA})
        for name in NUMBERS:
            setattr(self, f"_{name}", extra[name])
        self.way, self.choice = self.ways[extra["way"]], Choice(**extra["choice"])
        self.ledger = Ledger(**extra["ledger"])
        self.proxy.load_state_dict(extra["proxy"])
        if self.held_out is not None:
            self.held_out.load_state_dict(extra["held_out"])
        self._comparison = None
        if extra["contenders"]:
            contenders = self._unpack(extra["contenders"])
            self._comparison = Comparison(contenders, self.search, extra["turns"])
            self._comparison.current.state = self.state

    def _pack(self, contenders: Sequence[Contender]) -> list[dict[str, Any]]:
        """Return contenders as text, numbers and tensors; parameters by their number."""
        params = self._every_param()
        return [
            {
                "way": c.way.name,
                "values": c.values,
                "state": {i: dict(c.state[p]) for i, p in enumerate(params) if p in c.state},
            }
            for c in contenders
        ]

    def _unpack(self, saved: Sequence[Mapping[str, Any]]) -> list[Contender]:
        """Return contenders as they were packed."""
        params, values, found = self._every_param(), self._values(), []
        for item in saved:
            state: Any = defaultdict(dict)
            for i, entries in item["state"].items():
                # AdamW's own counts of steps stay where they were, as torch keeps them.
                state[params[int(i)]] = {
                    name: v.clone() if name == "step" else v.to(params[int(i)], copy=True)
                    for name, v in entries.items()
                }
            kept = [v.to(now, copy=True) for v, now in zip(item["values"], values, strict=True)]
            found.append(Contender(self.ways[item["way"]], kept, state))
        return found


def copy_state(state: Mapping[Any, Mapping[str, Any]]) -> Any:
    """Return a copy of an optimiser's state."""
    copied = {p: {name: v.clone() for name, v in entries.items()} for p, entries in state.items()}
    return defaultdict(dict, copied)
