"""What both optimisers are: a proxy and a network, metrics, and a state that is saved whole."""

from __future__ import annotations

import base64
import io
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.optim import Optimizer

from proxyprox._util.validation import flag, message, offers
from proxyprox.result import Ledger
from proxyprox.torch.checks import check_model
from proxyprox.torch.distributed import full_value, parameters_of
from proxyprox.torch.proxy import Proxy

# The key of what a state dict holds beyond torch's own entries.
EXTRA = "proxyprox"
PAID = ("target_gradients", "proxy_gradients", "proxy_sampled_gradients", "seconds")


def pack(tree: Any) -> str:
    """Return numbers, text and tensors as one text.

    ``torch.distributed.checkpoint`` keeps what it knows: tensors by parameter, and the options of
    groups, as they are. A text passes through it whole, whatever a new optimiser has in its place.
    """
    file = io.BytesIO()
    torch.save(tree, file)
    text = base64.b85encode(file.getvalue()).decode()
    unpack(text)  # what cannot be read back is refused now
    return text


def unpack(text: str) -> Any:
    """Return what :func:`pack` was given; nothing in it is executed."""
    return torch.load(io.BytesIO(base64.b85decode(text)), weights_only=True)


class ProxyOptimizer(Optimizer):  # type: ignore[misc]
    """An optimiser that evaluates a proxy; abstract.

    It saves more than tensors, in a text of its first group. ``own_state()`` returns that,
    ``load_own(extra)`` takes it back, ``check_extra(extra)`` refuses or warns before anything is
    changed, and ``fill_state()`` puts zeros where steps will put tensors. ``advance(begun)``
    takes a step with the gradients in ``.grad``, if there are any, and pays for it. ``newest()``
    returns the newest step's numbers for a log.
    """

    _placeholders = False
    _k = 0

    def __init__(
        self,
        params: Any,
        defaults: dict[str, Any],
        proxy: Proxy,
        model: Any | None,
        proxy_mode: str,
        probe: bool,
    ) -> None:
        self._proxy: Any = proxy
        self.model, self.proxy_mode = model, proxy_mode
        self.ledger, self._probe = Ledger(), flag("probe", probe)
        super().__init__(params, {**defaults, EXTRA: ""})
        check_model(self)

    @property
    def proxy(self) -> Proxy:
        """The proxy in use."""
        return self._proxy  # type: ignore[no-any-return]

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step with the gradients in ``.grad``.

        Parameters
        ----------
        closure : callable, optional
            Clears the gradients, computes the loss, calls ``backward`` and returns the loss.

        Returns
        -------
        loss : tensor or None
            What the closure returned.
        """
        if self.is_trial_step(closure):
            return None
        if closure is not None and hasattr(self, "pretrain"):
            self.pretrain()
        begun = time.perf_counter()
        with torch.enable_grad():
            loss = None if closure is None else closure()
        self.advance(begun)
        return loss

    def pay(self, begun: float) -> None:
        """Enter a step on one gradient of the target that began at a time."""
        self._k += 1
        self.ledger.target_gradients += 1
        self.ledger.seconds += time.perf_counter() - begun

    def metrics(self) -> dict[str, float]:
        """Return the newest step's numbers, and what was paid so far; this waits for the device.

        Returns
        -------
        metrics : dict of str to float
            ``theta``, the weight of the target beside the proxy; ``displacement``, how far the step
            went; ``residual``, the norm of the last gradient that it followed, of the subproblem in
            ``ProxyProx``; NaN if they were not measured. ``lr``, ``target_gradients``,
            ``proxy_gradients``, ``proxy_sampled_gradients``, ``seconds``.
        """
        return {**self.newest(), **{name: float(getattr(self.ledger, name)) for name in PAID}}

    # -- saving -----------------------------------------------------------------------------

    def load_own(self, extra: Mapping[str, Any]) -> None:
        """Take back what only one optimiser saves."""

    def is_trial_step(self, closure: Any) -> bool:
        """Fill the state in a step that is for that only; forget it in the first real one."""
        if is_trial(self, closure):
            self.fill_state()
            return True
        if self._placeholders:
            self.state.clear()
            self._placeholders = False
        return False

    def extra_state(self) -> dict[str, Any]:
        """Return what is saved beside tensors and options."""
        return {
            **self.own_state(),
            "k": self._k,
            "placeholders": self._placeholders,
            "ledger": self.ledger.as_dict(),
            "proxy": self._proxy.state_dict(),
        }

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the rest of a run depends on, as numbers, text and tensors.

        The parameters, the loaders' global random state and the scheduler are saved by their own
        means, as with every torch optimiser. Tensors are in ``state``, by parameter, and the rest
        is an option of the first group: ``torch.distributed.checkpoint`` keeps nothing else.
        """
        extra = self.extra_state()
        saved: dict[str, Any] = super().state_dict()
        saved["param_groups"][0][EXTRA] = pack(extra)
        return saved

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Resume, bit for bit, from a saved state; warn of other settings than it was saved with.

        ``ProxyProx`` refuses another kind of correction, as its estimate means something else.

        Parameters
        ----------
        state_dict : mapping
            What :meth:`state_dict` returned.
        """
        groups = state_dict.get("param_groups") or [{}]
        extra = unpack(groups[0][EXTRA]) if groups[0].get(EXTRA) else {}
        if extra.keys() != self.extra_state().keys():
            got, remedy = sorted(map(str, state_dict)), "It was saved by another optimiser."
            raise ValueError(message("keys of state_dict", got, f"with {EXTRA!r}", remedy))
        self.check_extra(extra)
        super().load_state_dict(state_dict)
        for group in self.param_groups:
            group[EXTRA] = ""
        self._k, self._placeholders = int(extra["k"]), bool(extra["placeholders"])
        self.ledger = Ledger(**extra["ledger"])
        self._proxy.load_state_dict(extra["proxy"])
        self.load_own(extra)


def is_trial(optimizer: Any, closure: Any) -> bool:
    """Tell a step by which ``torch.distributed.checkpoint`` makes a new optimiser fill its state.

    Its learning rates and gradients are all 0, and nothing is known yet.
    """
    rates = [float(group["lr"]) for group in optimizer.param_groups]
    if closure is not None or optimizer.state or any(rates):
        return False
    found = [p.grad for p in parameters_of(optimizer) if p.grad is not None]
    nonzero = [full_value((gradient != 0).sum()) for gradient in found]
    return bool(found) and not any(bool(count) for count in nonzero)


# -- loggers --------------------------------------------------------------------------------------


def unwrap_optimizer(optimizer: Any) -> Any:
    """Return what is behind the wrappers of Lightning, Fabric and Accelerate."""
    # Some of them pass for its class, but with the attributes of the moment they were made.
    while hasattr(optimizer, "optimizer"):
        optimizer = optimizer.optimizer
    return optimizer


def read_metrics(optimizer: Any, prefix: str = "proxyprox") -> dict[str, float]:
    """Return ``optimizer.metrics()`` as loggers want it.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        One of this package, itself or in the wrapper of Lightning, Fabric or Accelerate.
    prefix : str
        Put before every name, with a slash.

    Returns
    -------
    metrics : dict of str to float
        θ, the displacement, the residual, the learning rate and what was paid, by names such as
        ``"proxyprox/theta"``. What was not measured is left out.

    Examples
    --------
    >>> import torch
    >>> from proxyprox.torch import ProxyProx
    >>> w = torch.nn.Parameter(torch.ones(2))
    >>> optimizer = ProxyProx([w], lr=0.1, proxy=lambda: w.square().sum(), measure_residual=True)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> metrics = read_metrics(optimizer)
    >>> metrics["proxyprox/target_gradients"], metrics["proxyprox/residual"] > 0
    (1.0, True)
    """
    found = unwrap_optimizer(optimizer)
    if not offers(found, "metrics"):
        allowed = "an optimiser of proxyprox.torch, or one wrapped"
        raise TypeError(message("optimizer", type(found).__name__, allowed))
    values = found.metrics().items()
    return {f"{prefix}/{name}": value for name, value in values if not math.isnan(value)}
