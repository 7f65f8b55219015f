"""A network's private rows without Opacus: per-sample gradients by ``torch.func``.

``Private`` takes any object with ``dim``, ``zeros()`` and ``clipped_sum(w, clip=, metric=)``. This
one has the rows of a network, and puts releases into ``.grad``, for any optimiser. Noise comes from
the operating system, a row with NaN or an unknown label counts as absent, and a release is charged
before it is drawn. On digits it was no better than DP-SGD (docs/private_networks.md).

    python examples/private_rows_of_networks.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.func import functional_call, grad, vmap

from proxyprox._util import validation as check
from proxyprox._util.validation import Words, message, whole
from proxyprox.private.mechanism import Private, unit_rows
from proxyprox.torch.proxy import proxy_mode

Array = np.ndarray[Any, Any]


class NetworkRows:
    """The loss of a network on private rows, of which ``Private`` releases clipped sums.

    A row whose gradient is not finite, or whose label is none of the classes, counts as absent.
    Gradients are those of evaluation mode: rows must not meet in BatchNorm.

    Parameters
    ----------
    model : torch.nn.Module
        The network; its parameters that require gradients are trained.
    loss : callable
        ``loss(outputs, labels)`` of a batch, such as ``torch.nn.functional.cross_entropy``.
    inputs, labels : tensor
        Private rows, along the first dimension.
    classes : int, optional
        Labels are 0 to classes − 1; left out where they are no classes.
    block : int
        Rows whose gradients are held at a time.
    """

    def __init__(
        self,
        model: Any,
        loss: Callable[[Any, Any], Any],
        inputs: Any,
        labels: Any,
        *,
        classes: int | None = None,
        block: int = 256,
    ) -> None:
        check.instance("model", model, torch.nn.Module, "a torch.nn.Module")
        if not callable(loss):
            raise TypeError(message("loss", loss, "callable as loss(outputs, labels)"))
        for name, given in (("inputs", inputs), ("labels", labels)):
            if not isinstance(given, torch.Tensor) or not given.ndim:
                # What it holds must not be shown.
                got = Words(f"a {type(given).__name__}")
                raise TypeError(message(name, got, "a tensor with one row for each sample"))
        if len(inputs) != len(labels):
            raise ValueError(message("labels", Words("another number"), "one for each row"))
        self._model, self._loss, self._inputs = model, loss, inputs
        self._block = whole("block", block)
        self._params = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self._known = torch.ones(len(labels), dtype=torch.bool, device=labels.device)
        if classes is not None:
            self._known = (labels >= 0) & (labels < whole("classes", classes, 2))
        self._labels = torch.where(self._known, labels, 0) if classes is not None else labels
        self.dim = sum(p.numel() for p in self._params.values())
        if not self.dim:
            got = Words("one without parameters that require gradients")
            raise ValueError(message("model", got, "a network to train"))
        # What is wrong with the network or the loss shows on rows of zeros, and may raise.
        zeros = (given.new_zeros((1, *given.shape[1:])) for given in (inputs, self._labels))
        self._gradients(self.point(), *zeros)

    def zeros(self) -> Array:
        """Return the zero vector of parameters."""
        return np.zeros(self.dim)

    def point(self) -> Array:
        """Return the network's parameters as one vector."""
        parts = [p.detach().reshape(-1) for p in self._params.values()]
        return np.asarray(torch.cat(parts).double().cpu())

    def row_gradients(self, w: Any, rows: Any) -> Array:
        """Return the gradients of some rows, one in each row of a matrix: not private.

        Parameters
        ----------
        w : array
            The parameters as one vector.
        rows : slice or array of int
            Which rows.
        """
        return self._gradients(w, self._inputs[rows], self._labels[rows])

    def _gradients(self, w: Any, inputs: Any, labels: Any) -> Array:
        like = next(iter(self._params.values()))
        parts = torch.as_tensor(np.asarray(w), dtype=like.dtype, device=like.device).split(
            [p.numel() for p in self._params.values()]
        )
        point = {
            n: part.view_as(p) for part, (n, p) in zip(parts, self._params.items(), strict=True)
        }

        def loss(params: Any, one: Any, label: Any) -> Any:
            outputs = functional_call(self._model, params, (one[None],))
            return self._loss(outputs, label[None])

        with proxy_mode(self._model, "eval"):
            found = vmap(grad(loss), in_dims=(None, 0, 0))(point, inputs, labels)
        each = torch.cat([g.flatten(1) for g in found.values()], dim=1)
        return np.asarray(each.double().cpu())

    def clipped_sum(self, w: Any, *, clip: float, metric: Any = None) -> Array:
        """Return ``Σ clip(M g_i)`` over the rows: not private before noise is added.

        Parameters
        ----------
        w : array
            The parameters as one vector.
        clip : float
            The largest norm of a row's whitened gradient.
        metric : object, optional
            Its coordinates; Euclidean by default.
        """
        check.positive("clip", clip)
        chosen, total = np.flatnonzero(self._known.cpu().numpy()), np.zeros(self.dim)
        for start in range(0, len(chosen), self._block):
            each = self._quiet_gradients(w, chosen[start : start + self._block])
            with np.errstate(all="ignore"):
                units, lengths = unit_rows(each if metric is None else metric.whiten(each))
            total += np.minimum(lengths, clip) @ units
        return total

    def _quiet_gradients(self, w: Any, rows: Array) -> Array:
        """Return gradients of some rows, NaN for those at which the network raises."""
        try:
            return self.row_gradients(w, rows)
        except (RuntimeError, ValueError, IndexError):
            # An index that an embedding does not have, say: the others count as before.
            if len(rows) == 1:
                return np.full((1, self.dim), np.nan)
            return np.vstack([self._quiet_gradients(w, rows[i : i + 1]) for i in range(len(rows))])

    def set_gradients(self, target: Private) -> None:
        """Set ``.grad`` to the next release at the network's parameters, for any optimiser.

        Parameters
        ----------
        target : Private
            The mechanism that was made with these rows.
        """
        released = torch.as_tensor(target.gradient(self.point()))
        parts = released.split([p.numel() for p in self._params.values()])
        for p, part in zip(self._params.values(), parts, strict=True):
            p.grad = part.view_as(p).to(p)


def main() -> None:
    """Train a linear network with three releases."""
    X, y = torch.randn(500, 3), torch.arange(500) % 2
    model = torch.nn.Linear(3, 2)
    rows = NetworkRows(model, torch.nn.functional.cross_entropy, X, y, classes=2)
    target = Private(rows, epsilon=1.0, delta=1e-5, releases=3, n_nominal=500, clip=1.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        rows.set_gradients(target)
        optimizer.step()
    print(target.spent)  # noqa: T201


if __name__ == "__main__":
    main()
