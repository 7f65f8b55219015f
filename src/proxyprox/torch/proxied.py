"""Any torch optimiser, which then also steps on a proxy."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from proxyprox._util.validation import Words, message, whole
from proxyprox.inner.base import NonFiniteError
from proxyprox.torch import checks
from proxyprox.torch.base import ProxyOptimizer, unwrap_optimizer
from proxyprox.torch.checks import PROBE
from proxyprox.torch.distributed import (
    copy_into,
    full_value,
    kept_gradients,
    parameters_of,
    set_gradients,
)
from proxyprox.torch.inner import copy_tensors
from proxyprox.torch.proxy import Tensors, as_proxy, clear, gradients
from proxyprox.torch.ways import Way, as_way


class ProxyStepWarning(UserWarning):
    """Steps on the proxy raise the loss that they are to lower."""


class Proxied(ProxyOptimizer):
    r"""An optimiser that steps on the target with ``.grad``, and on a proxy in between.

    ``.grad`` holds ``g_k``, a gradient of the expensive loss, from an ordinary
    ``loss.backward()``. The ``way`` says when proxy steps are taken, and at what learning rate:

    ==============  ===========================================================================
    "late"          all proxy steps first, at a constant rate; then the target, while the rate
                    falls. The default if ``target_steps`` is known
    "weighted"      the same, but the target's gradients count twice, and one proxy step in eight
                    stays between them
    "growing"       target steps become more and more frequent
    "interleaved"   as many proxy steps after every target step. The default otherwise
    "joint"         the same, and the target's step also has the gradient of a proxy batch
    "fine-tuned"    all proxy steps first, the rate falling; then the target with a rate that starts
                    anew
    "corrected"     interleaved, and every proxy step is corrected by a share of the mean of ∇L − ∇L̂
    "target alone"  no proxy steps
    ==============  ===========================================================================

    :func:`default_way` returns one for data that you describe, :class:`Way` makes others, and
    :func:`choose_way` compares them.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        Any that steps on ``.grad``: AdamW, SGD, Adafactor, Muon, …. Use the wrapper in its place.
    proxy : Proxy, callable, or a list of them
        The cheap loss: ``Proxy(loader, loss)``, or a function without arguments. Batches are drawn
        from several as often as their gradients agree with the target's.
    way : Way or str, optional
        See the table.
    target_steps : int, optional
        How many target steps the run has. Without it every step is like the others.
    proxy_steps : int, optional
        Proxy steps for each target step, on the average; by default the way's own.
    model : torch.nn.Module, optional
        The network, or its DistributedDataParallel: BatchNorm's running statistics then see the
        target's batches only.
    proxy_mode : {"frozen", "no_dropout", "eval", "train"}
        Of ``model`` in proxy passes, as in :class:`ProxyProx`.
    probe : bool
        Refuse weights that are not finite, and ranks that differ, at every step; look now and then
        whether proxy steps lower the loss that they step on; and check the proxy at the first step.

    Attributes
    ----------
    ledger : Ledger
        Target gradients, gradients of the proxy's batches, and seconds (as the host sees them).

    Notes
    -----
    With ``target_steps`` the learning rate follows the way: ``lr`` is its largest value. If a
    scheduler of torch is made for this optimiser, the rate is the scheduler's alone.

    Proxy steps that come before the first target step are taken by :meth:`pretrain`. The first
    ``step()`` takes them otherwise, after its own step, since its gradient is there already, or
    before it calls a closure.

    Memory beyond the optimiser's: w_k, a gradient of the proxy and, if corrected, the mean.

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
    >>> adamw = torch.optim.AdamW(model.parameters(), lr=0.1)
    >>> optimizer = Proxied(adamw, proxy=cheap, target_steps=40, model=model)
    >>> while optimizer.pretrain(100):
    ...     pass  # save a checkpoint
    >>> for _ in range(40):
    ...     optimizer.zero_grad()
    ...     loss(rows[4]).backward()
    ...     optimizer.step()
    >>> bool(loss(rows[3]) < 0.02), optimizer.ledger.target_gradients
    (True, 40)
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        *,
        proxy: Any,
        way: Way | str | None = None,
        target_steps: int | None = None,
        proxy_steps: int | None = None,
        model: Any | None = None,
        proxy_mode: str = "frozen",
        probe: bool = True,
    ) -> None:
        refused = (ProxyOptimizer, torch.optim.LBFGS, torch.optim.SparseAdam)
        if not isinstance(optimizer, torch.optim.Optimizer) or isinstance(optimizer, refused):
            allowed = "a torch optimiser that steps on dense gradients in .grad"
            remedy = "Pass one with its parameters: torch.optim.AdamW(model.parameters(), lr=...)."
            raise TypeError(message("optimizer", optimizer, allowed, remedy))
        several = isinstance(proxy, (list, tuple))
        found: Any = SeveralProxies(proxy) if several else as_proxy(proxy)
        default = "interleaved" if target_steps is None else "late"
        self.way = as_way(default if way is None else way, proxy_steps)
        if target_steps is None and self.way.needs_total:
            remedy = "Pass target_steps=..., the number of target steps of the whole run."
            raise ValueError(message("target_steps", None, "a number for this way", remedy))
        self.target_steps = None if target_steps is None else whole("target_steps", target_steps)
        self._optimizer, self._warned = optimizer, False
        # Of the step in progress, 1 after its step on the target.
        self._between, self._taken = 0, 0
        self._rises, self._scale, self._first, self._is_sum = list[float](), 0.0, 0.0, False
        self._residual: Any = math.nan
        self._displacement: Any = math.nan
        groups, defaults = optimizer.param_groups, optimizer.defaults
        super().__init__(groups, defaults, found, model, proxy_mode, probe)
        self.state.update(optimizer.state)

    # -- the step ---------------------------------------------------------------------------

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def pretrain(self, steps: int | None = None) -> int:
        """Take proxy steps that come before the first target step; return how many are left.

        Parameters
        ----------
        steps : int, optional
            At most this many, to save a checkpoint in between; by default all of them.
        """
        if (own := unwrap_optimizer(self)) is not self:  # Lightning's wrapper inherits this method
            return int(own.pretrain(steps))
        begun = time.perf_counter()
        params = [p for p in parameters_of(self) if p.requires_grad]
        left = 0 if self._k else self.way.planned(0, self.target_steps) - self._taken
        number = left if steps is None else min(left, whole("steps", steps))
        if number > 0:
            with self._undone_if_failing(params):
                for done in range(0, number, PROBE.look_every):
                    self._step_on_proxy(params, min(PROBE.look_every, number - done), None)
            self.ledger.seconds += time.perf_counter() - begun
        return max(0, left - number)

    def advance(self, begun: float) -> None:
        """Take one step on the target with the gradients in ``.grad``, and those on the proxy."""
        params = [p for p in parameters_of(self) if p.grad is not None]
        if not params:
            return
        checks.check_dense(params)
        if self._k == self.target_steps:
            found = f"step {self._k + 1} of target_steps={self.target_steps}"
            checks.warn(f"{found}: the learning rate has fallen to 0.", UserWarning)
        with self._undone_if_failing(params) as target:
            self._take_step(params, target)
        self.pay(begun)
        self._between = 0

    def _take_step(self, params: list[Any], target: Sequence[Any]) -> None:
        way, before, self._between = self.way, float(self._residual), 0
        due = way.planned(self._k + 1, self.target_steps) - self._taken
        correction = None
        if due > 0 and way.theta:
            correction = self._update_correction(params, target)
        if due > 0 and hasattr(self._proxy, "compare") and self._k % PROBE.look_every == 0:
            self._proxy.compare(params, target)
            self.ledger.proxy_sampled_gradients += len(self._proxy.proxies)
        self._descend(params, self._join(params, target, joint=way.joint and due > 0))
        self._between = 1
        due = way.planned(self._k + 1, self.target_steps) - self._taken
        if due > 0:
            self._step_on_proxy(params, due, correction)
        if self._probe and self._k == 0 and self._taken:
            # The last gradient before this step, or the first after it. Many steps on a sum may
            # have made its gradient short.
            late = math.isfinite(before) and not self._is_sum
            checks.compare_lengths(before if late else float(self._first), checks.length(target))

    @contextmanager
    def _undone_if_failing(self, params: list[Any]) -> Iterator[list[Any]]:
        """Leave the parameters as they were if anything in the block fails; yield ``.grad``."""
        before, taken = copy_tensors(params), self._taken
        with kept_gradients(params) as target:
            try:
                with checks.watched_passes(self, params, self._k + taken, self._probe):
                    yield target
                if self._probe:
                    source = [g for g in target if g is not None]
                    steps = self._taken - taken
                    checks.check_end(self._proxy, params, source, self._k, steps)
                torch._foreach_sub_(before, params)
                self._displacement = checks.total_norm(before)
            except BaseException as error:
                copy_into(params, before)
                self._taken = taken
                for p in params if isinstance(error, NonFiniteError) else []:
                    self.state[p].clear()  # what is not finite may be in it
                raise

    def _join(self, params: list[Any], target: Sequence[Any], *, joint: bool) -> Sequence[Any]:
        """Return the weighted gradient of the target, with that of a proxy batch if joint."""
        weight = self.way.weight
        if joint:
            self._compute_proxy_gradient(params, self._proxy.sample())
            self._taken += 1
            torch._foreach_add_(gradients(params), target, alpha=weight)
            return gradients(params)
        if weight == 1:
            return target
        clear(params)  # what the correction has left there makes room
        return list(torch._foreach_mul(target, weight))

    def _update_correction(self, params: list[Any], target: Sequence[Any]) -> list[Any]:
        """Return m_k: the old estimate and the newest difference, on one batch of the proxy."""
        self._compute_proxy_gradient(params, self._proxy.sample())
        cheap, share = gradients(params), self.way.averaging
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
        """Take the optimiser's step with some gradients, or those in ``.grad``."""
        if found is not None:
            set_gradients(params, found)
        # Loading a state replaces these.
        self._optimizer.param_groups, self._optimizer.state = self.param_groups, self.state
        rates = [group["lr"] for group in self.param_groups]
        try:
            for group in self.param_groups:
                group["lr"] = self._rate(group)
            self._optimizer.step()
        finally:
            for group, rate in zip(self.param_groups, rates, strict=True):
                group["lr"] = rate

    def _rate(self, group: Mapping[str, Any]) -> Any:
        """Return a group's learning rate: the way's, or that of a scheduler if there is one."""
        if "initial_lr" in group:
            early = self._k == 0 and self._taken < self.way.planned(0, self.target_steps)
            return group["initial_lr"] if early else group["lr"]
        if self.target_steps is None:
            return group["lr"]
        step = self._k + self._between + self._taken
        return group["lr"] * self.way.rate(step, self.target_steps)

    def _step_on_proxy(self, params: list[Any], steps: int, correction: Any) -> None:
        theta, looks, batch = self.way.theta, self._probe and self._k % PROBE.look_every == 0, None
        for t in range(steps):
            drawn = self._proxy.sample()
            value = self._compute_proxy_gradient(params, drawn)
            if self._taken == 0:
                checks.check_dependence(params)
            if self._probe and self._taken == 0:
                checks.check_loss(value)
                self._first = checks.total_norm(gradients(params))
                self._is_sum = checks.is_sum(self._proxy, drawn)
            if t == 0 and looks:
                batch, before = drawn, float(value)
                linear = inner_product(correction, params)
            if t == steps - 1:
                self._residual = checks.total_norm([p.grad for p in params if p.grad is not None])
            if correction is not None:
                torch._foreach_add_(gradients(params), correction, alpha=theta)
            self._descend(params)
            self._taken += 1
        for p, m in zip(params, correction or (), strict=correction is not None):
            # Only now: optimisers take a parameter with any state for one that they have seen.
            self.state[p]["correction"] = m
        if looks:
            linear = inner_product(correction, params) - linear
            with checks.preserve_random_state():
                rise = float(self._proxy.loss(batch)) - before + theta * linear
            # Near its minimum a loss is small, and single batches rise and fall by much of it.
            self._scale = self._scale or abs(before)
            self._judge_proxy_steps(rise / max(abs(before), 0.1 * self._scale, 1e-30))

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
        for p in every if self.way.theta else []:
            self.state[p]["correction"] = torch.zeros_like(p)

    def _judge_proxy_steps(self, rise: float) -> None:
        """Warn once if steps on batches raise their loss, on the mean of a few looks."""
        # Steps that overshoot go up and down in turn: single looks say little.
        self._rises = [*self._rises, rise][-PROBE.looks :]
        recent = float(np.mean(self._rises))
        if len(self._rises) >= PROBE.looks and recent > PROBE.rise and not self._warned:
            self._warned = True
            lr = max(float(group["lr"]) for group in self.param_groups)
            checks.warn(
                f"proxy steps are too long: they raised the proxy loss that they step on by "
                f"{recent:.0%}, the mean of {PROBE.looks} looks. Use a smaller lr (now {lr:.3g}).",
                ProxyStepWarning,
            )

    # -- looking and saving -----------------------------------------------------------------

    def newest(self) -> dict[str, float]:
        """Return the newest step's numbers; this waits for the device."""
        return {
            "theta": self.way.target_share,
            "displacement": float(self._displacement),
            "residual": float(self._residual),
            "lr": max(float(self._rate(group)) for group in self.param_groups),
        }

    def own_state(self) -> dict[str, Any]:
        """Return what only this optimiser saves beside tensors and options."""
        saved = {"taken": self._taken, "rises": list(self._rises), "scale": self._scale}
        return {"way": repr(self.way), "target_steps": self.target_steps, **saved}

    def check_extra(self, extra: Mapping[str, Any]) -> None:
        """Warn of another way, or another number of target steps."""
        for name, own in (("way", repr(self.way)), ("target_steps", self.target_steps)):
            if extra[name] != own:
                found = f"{name}={own}, but this state was saved with {extra[name]}"
                checks.warn(f"{found}. The run uses the new one.", UserWarning)

    def load_own(self, extra: Mapping[str, Any]) -> None:
        """Take back what only this optimiser saves."""
        self._taken, self._rises = int(extra["taken"]), list(extra["rises"])
        self._scale = float(extra["scale"])


class ProxyAdamW(Proxied):
    """``Proxied(torch.optim.AdamW(params, lr, **adamw), proxy=proxy, ...)``.

    Parameters
    ----------
    params : iterable
        Parameters, or groups of them with their own ``lr``, ``weight_decay``, ….
    lr : float or one-element tensor
        AdamW's learning rate.
    proxy
        As in :class:`Proxied`.
    **options
        ``way``, ``target_steps``, ``proxy_steps``, ``model``, ``proxy_mode`` and ``probe``, as in
        :class:`Proxied`; and those of ``torch.optim.AdamW``: ``betas``, ``weight_decay``, ….
    """

    def __init__(self, params: Any, lr: Any = 1e-3, *, proxy: Any, **options: Any) -> None:
        checks.check_lr(lr)
        groups = [dict(g) if isinstance(g, Mapping) else g for g in checks.listed_params(params)]
        own = [name for name in inspect.signature(Proxied).parameters if name in options]
        ours = {name: options.pop(name) for name in own}
        super().__init__(torch.optim.AdamW(groups, lr=lr, **options), proxy=proxy, **ours)


def inner_product(ones: Sequence[Any] | None, others: Sequence[Any]) -> float:
    """Return the inner product of two lists of tensors, 0 with None; this waits for the device."""
    pairs = [] if ones is None else zip(ones, others, strict=True)
    return float(full_value(sum((one * other).sum(dtype=torch.float64) for one, other in pairs)))


class SeveralProxies:
    """Proxies from which batches are drawn as often as their gradients agree with the target's.

    The weight of a proxy is the mean of the cosines between its gradients and the target's, or 0 if
    that is negative.
    """

    sampled = True

    def __init__(self, proxies: Sequence[Any]) -> None:
        self.proxies: list[Any] = [as_proxy(proxy) for proxy in proxies]
        if not self.proxies:
            raise ValueError(message("proxy", Words("an empty list"), "one proxy or more"))
        self.cosines, self.looks = [0.0] * len(proxies), 0
        self.drawn = [0] * len(proxies)

    @property
    def weights(self) -> list[float]:
        """The share of each proxy in the batches; equal if none agrees, or none was compared."""
        useful = [max(0.0, cosine) for cosine in self.cosines]
        total = sum(useful)
        return [u / total for u in useful] if total else [1 / len(useful)] * len(useful)

    def compare(self, params: Tensors, target: Tensors) -> None:
        """Enter the cosine between a gradient of the target and one of each proxy."""
        self.looks += 1
        size = checks.length(target)
        for i, proxy in enumerate(self.proxies):
            proxy.partial(proxy.sample(), params)
            found = gradients(params)
            cosine = inner_product(found, target) / max(size * checks.length(found), 1e-300)
            self.cosines[i] += (cosine - self.cosines[i]) / self.looks
        self.drawn = [0] * len(self.proxies)

    def sample(self) -> Any:
        """Draw a batch of the proxy that is furthest behind its share."""
        count, weights = sum(self.drawn) + 1, self.weights
        behind = [count * w - n for w, n in zip(weights, self.drawn, strict=True)]
        i = behind.index(max(behind))
        self.drawn[i] += 1
        return i, self.proxies[i].sample()

    def partial(self, batch: Any, params: Tensors) -> Any:
        """Set ``.grad`` to the gradient of a batch and return its loss."""
        return self.proxies[batch[0]].partial(batch[1], params)

    def loss(self, batch: Any) -> Any:
        """Return the loss of a batch, without gradient."""
        return self.proxies[batch[0]].loss(batch[1])

    def state_dict(self) -> dict[str, Any]:
        """Return weights and positions."""
        own = {"cosines": list(self.cosines), "looks": self.looks, "drawn": list(self.drawn)}
        return {**own, "proxies": [proxy.state_dict() for proxy in self.proxies]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back to saved weights and positions."""
        self.cosines, self.drawn = list(state["cosines"]), list(state["drawn"])
        self.looks = int(state["looks"])
        for proxy, saved in zip(self.proxies, state["proxies"], strict=True):
            proxy.load_state_dict(saved)
