"""Another model's answers as the proxy of a network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from scipy.stats import chi2_contingency
from torch.nn.functional import cross_entropy, mse_loss

from proxyprox._util.validation import Words, message, one_of, positive, real_array, whole
from proxyprox.torch.checks import warn
from proxyprox.torch.proxy import proxy_mode

# Probability from which on an agreement counts as chance.
SIGNIFICANT = 0.05


class UselessAnswersWarning(UserWarning):
    """A teacher's answers are no better than chance."""


def _as_tensor(name: str, given: Any) -> Any:
    return given if isinstance(given, torch.Tensor) else torch.as_tensor(real_array(name, given))


def estimate_confusion(
    *, labels: Any, answers: Any, classes: int, pseudo_count: float = 0.1
) -> Any:
    """Estimate P(answer | label) from rows of which both are known; warn of useless answers.

    Parameters
    ----------
    labels, answers : integer tensors
        The right class of each row, and the teacher's: some ten rows of each class or more. Rows
        held out to choose between ways must not be among them.
    classes : int
        How many there are; each must have a row.
    pseudo_count : float
        Added to every count, so that no answer has probability 0.

    Returns
    -------
    tensor of shape (classes, classes)
        A row for each label: for ``TeacherLoss(..., confusion=)``.

    Examples
    --------
    >>> import torch
    >>> labels, answers = torch.tensor([0, 0, 0, 0, 1, 1]), torch.tensor([0, 0, 1, 1, 1, 1])
    >>> estimate_confusion(labels=labels, answers=answers, classes=2).round(decimals=2)
    tensor([[0.5000, 0.5000],
            [0.0500, 0.9500]])
    """
    given = {"labels": _as_tensor("labels", labels), "answers": _as_tensor("answers", answers)}
    seen = torch.zeros((whole("classes", classes),) * 2)
    positive("pseudo_count", pseudo_count)
    shapes = [tuple(numbers.shape) for numbers in given.values()]
    if shapes[0] != shapes[1] or len(shapes[0]) != 1:
        got = Words(f"{shapes[0]} and {shapes[1]}")
        raise ValueError(message("shapes of labels and answers", got, "(rows,), the same rows"))
    for name, numbers in given.items():
        whole_numbers = not numbers.is_floating_point()
        if not whole_numbers or not bool(((numbers >= 0) & (numbers < classes)).all()):
            got = Words(f"{numbers.dtype} from {numbers.min()} to {numbers.max()}")
            raise ValueError(message(name, got, f"class numbers from 0 to {classes - 1}"))
    if missing := sorted({*range(classes)} - {*given["labels"].tolist()}):
        remedy = "Nothing is known of how the others are answered: label some of them."
        raise ValueError(message("labels", Words(f"none of {missing}"), "of every class", remedy))
    where = tuple(numbers.cpu().long() for numbers in given.values())
    seen.index_put_(where, torch.ones(len(where[0])), accumulate=True)
    chance = chi2_contingency(seen[:, seen.any(0)].numpy()).pvalue
    if len(where[0]) >= 10 * classes and chance > SIGNIFICANT:
        warn(
            f"the answers say nothing about the labels that {len(where[0])} rows could show (they "
            f"agree as well by chance with probability {chance:.2g}): steps on them may do harm. "
            'Compare with "target alone" by choose_way.',
            UselessAnswersWarning,
        )
    counts = seen + pseudo_count
    return counts / counts.sum(1, keepdim=True)


class TeacherLoss:
    r"""How far a network is from a teacher's answers: the loss for ``Proxy(batches, loss)``.

    Classification has the cross-entropy with the teacher's probabilities,

    .. math:: -\tau^2 \sum_c q_c \log \mathrm{softmax}(s / \tau)_c, \qquad
              q \propto p^{1/\tau},

    of the network's scores s and the teacher's probabilities p; regression has the squared error.

    Parameters
    ----------
    model : callable
        The network that is trained, or a function of inputs that calls it. Classifiers return
        scores (logits), with the classes along dimension 1 as ``cross_entropy`` has them.
        Device transfer and autocast belong in it.
    teacher : callable, optional
        The other model, from inputs to scores (or values), called without gradients and, if it is a
        module, in evaluation mode. Without it the answers are in the batches.
    task : {"classification", "regression"}
        What the answers are.
    temperature : float
        τ. Above 1 it shows more of what the teacher thinks of the other classes. The factor τ²
        keeps the gradients as long as those of labels.
    confusion : tensor of shape (classes, classes), optional
        P(answer | label), as :func:`estimate_confusion` finds it on rows that have both. The
        network then learns labels from answers that are often wrong: its probabilities are
        multiplied by this matrix before they are compared with an answer.

    Notes
    -----
    Batches are ``(inputs, answers)`` without a ``teacher``: class numbers, or probabilities of the
    scores' shape; −100 means no answer, as everywhere in torch. With one they are ``inputs``, or a
    tuple that begins with them. Answers that are computed once are cheaper than a teacher that is
    called in every inner step; call it where the inputs are augmented.

    References
    ----------
    Hinton, Vinyals and Dean, "Distilling the Knowledge in a Neural Network", 2015; Patrini et al.,
    "Making Deep Neural Networks Robust to Label Noise: a Loss Correction Approach", 2017.

    Examples
    --------
    >>> import torch
    >>> from proxyprox.torch import Proxy
    >>> model, x = torch.nn.Linear(2, 3), torch.ones(4, 2)
    >>> said = torch.tensor([[0.8, 0.1, 0.1]]).expand(4, 3)
    >>> proxy = Proxy([(x, said)], TeacherLoss(model))
    >>> old = torch.nn.Linear(2, 3)
    >>> proxy = Proxy([x], TeacherLoss(model, old, temperature=2.0))
    """

    def __init__(
        self,
        model: Callable[[Any], Any],
        teacher: Callable[[Any], Any] | None = None,
        *,
        task: str = "classification",
        temperature: float = 1.0,
        confusion: Any | None = None,
    ) -> None:
        for name, given in (("model", model), ("teacher", model if teacher is None else teacher)):
            if not callable(given) or isinstance(given, type):
                raise TypeError(message(name, given, "a network, or a function of inputs"))
        self.model, self.teacher = model, teacher
        self.task = one_of("task", task, ("classification", "regression"))
        self.temperature = positive("temperature", temperature)
        self.confusion = confusion
        if confusion is not None:
            self._check_confusion(_as_tensor("confusion", confusion))
        self._checked = False

    def __call__(self, batch: Any) -> Any:
        """Return the mean loss of a batch."""
        inputs, answers = self._answer(batch)
        outputs, tau = self.model(inputs), self.temperature
        if self.confusion is not None:
            outputs = self._confuse(outputs)
        if self.task == "classification" and not answers.is_floating_point():
            if tau != 1:
                remedy = "Class numbers have none: store the teacher's probabilities."
                raise ValueError(message("temperature", tau, "1 for class numbers", remedy))
            return cross_entropy(outputs, answers.to(outputs.device).long())
        if answers.shape != outputs.shape:
            got = Words(f"{tuple(answers.shape)} and {tuple(outputs.shape)}")
            raise ValueError(message("answers and the network's output", got, "of one shape"))
        answers = answers.to(outputs)
        if self.task == "regression":
            return mse_loss(outputs, answers)
        if not self._checked:  # once, as it waits for the device
            if not bool(((answers >= 0).all(1) & ((answers.sum(1) - 1).abs() < 1e-2)).all()):
                got = Words("numbers below 0, or whose sum is not 1")
                remedy = 'Store scores.softmax(1); or use task="regression".'
                raise ValueError(message("answers", got, "class numbers or probabilities", remedy))
            self._checked = True
        # A probability of 0 has the logarithm -inf, which softmax takes back to 0.
        softened = answers if tau == 1 else (answers.log() / tau).softmax(1)
        return tau**2 * cross_entropy(outputs / tau, softened)

    def _check_confusion(self, matrix: Any) -> None:
        remedy = "Make it with estimate_confusion(labels=..., answers=..., classes=...)."
        square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1]
        if not square or not bool(((matrix > 0).all() & ((matrix.sum(1) - 1).abs() < 1e-2)).all()):
            got = Words(f"shape {tuple(matrix.shape)}, rows that sum to {matrix.sum(-1)}")
            allowed = "square, of numbers above 0, with rows that sum to 1"
            raise ValueError(message("confusion", got, allowed, remedy))
        if self.task == "regression" or self.temperature != 1:
            allowed = "None for regression, and with a temperature"
            raise ValueError(message("confusion", Words("a matrix"), allowed))

    def _confuse(self, scores: Any) -> Any:
        """Return the logarithms of the answers' probabilities."""
        matrix = torch.as_tensor(self.confusion).to(scores)
        if len(matrix) != scores.shape[1]:
            got = Words(f"a matrix of {len(matrix)} classes")
            allowed = f"a matrix of the network's {scores.shape[1]} classes"
            raise ValueError(message("confusion", got, allowed))
        # Classes along dimension 1, whatever follows it.
        return torch.einsum("nc...,ca->na...", scores.softmax(1), matrix).log()

    def _answer(self, batch: Any) -> tuple[Any, Any]:
        """Return the inputs, and the teacher's answers to them."""
        parts = batch if isinstance(batch, (tuple, list)) else (batch,)
        if self.teacher is None:
            if len(parts) != 2 or not isinstance(parts[1], torch.Tensor):
                remedy = "Store answers, or pass the teacher: TeacherLoss(model, teacher)."
                allowed = "inputs and the teacher's answers, a tensor"
                raise TypeError(message("batch", batch, allowed, remedy))
            return parts[0], parts[1]
        module = self.teacher if isinstance(self.teacher, torch.nn.Module) else None
        with torch.no_grad(), proxy_mode(module, "eval"):
            answers = self.teacher(parts[0])
            return parts[0], answers.softmax(1) if self.task == "classification" else answers
