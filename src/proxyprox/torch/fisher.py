"""An old network without its data: its Fisher information as the proxy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.nn.functional import cross_entropy, mse_loss

from proxyprox._util.validation import Words, instance, message, one_of, positive
from proxyprox.torch.proxy import FunctionProxy, proxy_mode


class FisherProxy(FunctionProxy):
    r"""How far a network is from an old one, in the metric of the old one's Fisher information.

    .. math:: \hat L(w) = \tfrac12 \sum_i (F_i + \lambda \bar F) (w_i - w^{old}_i)^2

    is the old task's loss to second order, without the old data: F is the diagonal of the Fisher
    information, a mean over a few of the old inputs, with labels drawn from the old network's own
    answers, and :math:`\bar F` is its mean. Elastic weight consolidation adds this to a new task's
    loss. Parameters that the old network lacks, or has in another shape, are free.

    Parameters
    ----------
    model : torch.nn.Module
        The network that is trained.
    old : torch.nn.Module
        The old one, with the same names of parameters. It is not changed.
    inputs : iterable of tensors
        Inputs of the old task, one row each, without the dimension of the batch: some 50 to 500.
        A label is drawn for each.
    task : {"classification", "regression"}
        What the old network's outputs are: scores of classes along dimension 1, or values with unit
        variance.
    weight : float
        By what it is multiplied: more keeps more of the old task, and learns less of the new.
    damping : float
        λ.

    Notes
    -----
    Use ``way="joint"``, which descends the sum of both losses. Ways that begin on the proxy do
    nothing there if training starts at the old network, and AdamW takes steps of about the same
    length in the others, whatever the weight.

    References
    ----------
    Kirkpatrick et al., "Overcoming catastrophic forgetting in neural networks", 2017.

    Examples
    --------
    >>> import torch
    >>> _ = torch.manual_seed(0)
    >>> old, model = torch.nn.Linear(2, 3), torch.nn.Linear(2, 3)
    >>> model.load_state_dict(old.state_dict())
    <All keys matched successfully>
    >>> proxy = FisherProxy(model, old, torch.randn(50, 2))
    >>> float(proxy.loss(None))
    0.0
    """

    def __init__(
        self,
        model: Any,
        old: Any,
        inputs: Iterable[Any],
        *,
        task: str = "classification",
        weight: float = 1.0,
        damping: float = 1e-3,
    ) -> None:
        for name, given in (("model", model), ("old", old)):
            instance(name, given, torch.nn.Module, "a torch.nn.Module")
        one_of("task", task, ("classification", "regression"))
        known = dict(old.named_parameters())
        own = {
            n: p for n, p in model.named_parameters() if n in known and p.shape == known[n].shape
        }
        if not own:
            allowed = "a network that shares names and shapes of parameters with the model"
            raise ValueError(message("old", Words(f"names {list(known)[:3]}, …"), allowed))
        anchors = {name: known[name] for name in own}
        fisher = fisher_diagonal(old, anchors, inputs, task)
        entries = sum(f.numel() for f in fisher.values())
        mean = sum(f.double().sum() for f in fisher.values()) / entries
        floor, scale = positive("damping", damping) * float(mean), positive("weight", weight)
        self.fisher = {name: (scale * (f + floor)).to(own[name]) for name, f in fisher.items()}
        self.anchors = {name: a.detach().clone().to(own[name]) for name, a in anchors.items()}

        def distance() -> Any:
            terms = (self.fisher[n] * (own[n] - self.anchors[n]).square() for n in own)
            return 0.5 * sum(term.sum() for term in terms)

        super().__init__(distance)


def fisher_diagonal(
    model: Any, params: dict[str, Any], inputs: Iterable[Any], task: str
) -> dict[str, Any]:
    """Return the mean square of the gradients of log p(y | x), with y drawn from p."""
    sums, count = {name: torch.zeros_like(p) for name, p in params.items()}, 0
    with torch.enable_grad(), proxy_mode(model, "eval"):
        for row in inputs:
            if not isinstance(row, torch.Tensor):
                remedy = "Leave labels and batches out: inputs=dataset_inputs[:100]."
                raise TypeError(message("a row of inputs", row, "a tensor", remedy))
            outputs, count = model(row[None]), count + 1
            if task == "classification":
                scores = outputs.movedim(1, -1).flatten(0, -2)
                label = scores.detach().softmax(-1).multinomial(1)[:, 0]
                loss = cross_entropy(scores, label, reduction="sum")
            else:
                drawn = outputs.detach() + torch.randn_like(outputs)
                loss = 0.5 * mse_loss(outputs, drawn, reduction="sum")
            found = torch.autograd.grad(loss, list(params.values()), allow_unused=True)
            for name, g in zip(params, found, strict=True):
                if g is not None:
                    sums[name] += g.square()
    if not count:
        raise ValueError(message("inputs", inputs, "one row or more"))
    return {name: total / count for name, total in sums.items()}
