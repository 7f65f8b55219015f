"""A teacher's answers, and an old network's weights, as the proxy: against losses by hand."""

import pytest
import torch
from torch import nn

from proxyprox.torch import FisherProxy, TeacherLoss, UselessAnswersWarning, estimate_confusion

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(6, 4, generator=GENERATOR, dtype=torch.float64)


def network(seed, outputs=3):
    torch.manual_seed(seed)
    return nn.Linear(4, outputs, dtype=torch.float64)


def gradient_of(loss, model):
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])


@pytest.mark.parametrize("temperature", [1.0, 3.0])
@pytest.mark.parametrize("stored", [True, False])
def test_probabilities_at_a_temperature(temperature, stored):
    student, teacher = network(0), network(1)
    if stored:
        answers = teacher(X).detach().softmax(1)
        found = TeacherLoss(student, temperature=temperature)((X, answers))
    else:
        found = TeacherLoss(student, teacher, temperature=temperature)([X, "labels are not read"])
    q = (teacher(X).detach() / temperature).exp()
    q = q / q.sum(1, keepdim=True)
    scores = student(X) / temperature
    logs = scores - scores.exp().sum(1, keepdim=True).log()
    expected = -(temperature**2) * (q * logs).sum(1).mean()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradient_of(found, student), gradient_of(expected, student))


def test_class_numbers_and_rows_without_an_answer():
    student, said = network(0), torch.tensor([0, 2, 1, -100, 2, 0], dtype=torch.int32)
    logs = student(X).log_softmax(1)
    known = [i for i in range(6) if i != 3]
    expected = -sum(logs[i, said[i]] for i in known) / 5
    torch.testing.assert_close(TeacherLoss(student)((X, said)), expected)


def test_answers_that_are_often_wrong():
    student, said = network(0), torch.tensor([0, 2, 1, -100, 2, 0])
    labels, answers = torch.tensor([0, 0, 0, 1, 1, 2]), torch.tensor([0, 1, 1, 1, 1, 0])
    confusion = estimate_confusion(labels=labels, answers=answers, classes=3, pseudo_count=0.5)
    counts = [[1.5, 2.5, 0.5], [0.5, 2.5, 0.5], [1.5, 0.5, 0.5]]
    expected = torch.tensor([[count / sum(row) for count in row] for row in counts])
    torch.testing.assert_close(confusion, expected)
    probabilities = student(X).softmax(1)
    of_answers = [
        sum(probabilities[i, label] * expected[label, said[i]] for label in range(3))
        for i in range(6)
        if said[i] >= 0
    ]
    by_hand = -torch.stack(of_answers).log().mean()
    torch.testing.assert_close(TeacherLoss(student, confusion=confusion)((X, said)), by_hand)


def test_the_teacher_is_evaluated_and_stays_as_it_was():
    teacher = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 3)).double()
    before = {name: value.clone() for name, value in teacher.state_dict().items()}
    loss = TeacherLoss(network(0), teacher)
    assert loss(X) == loss(X), "dropout would answer at random"
    assert teacher.training
    for name, value in teacher.state_dict().items():
        assert torch.equal(value, before[name])
    loss(X).backward()
    assert all(p.grad is None for p in teacher.parameters())


@pytest.mark.parametrize(
    ("options", "batch", "word"),
    [
        ({}, X, "batch"),
        ({}, (X, [0] * 6), "batch"),
        ({}, (X, torch.randn(6, 3)), "softmax"),
        ({}, (X, torch.rand(6)), "one shape"),
        ({"task": "regression"}, (X, torch.rand(6)), "one shape"),
        ({"temperature": 2.0}, (X, torch.zeros(6, dtype=torch.long)), "temperature"),
        ({"model": None}, None, "model"),
        ({"teacher": X}, None, "teacher"),
        ({"task": "ranking"}, None, "task"),
        ({"temperature": 0}, None, "temperature"),
        ({"confusion": torch.eye(3)}, None, "confusion"),
        ({"confusion": torch.ones(3, 2) / 2}, None, "confusion"),
        ({"confusion": torch.ones(3, 3)}, None, "confusion"),
        ({"confusion": torch.ones(3, 3) / 3, "temperature": 2.0}, None, "confusion"),
        ({"confusion": torch.ones(2, 2) / 2}, (X, torch.zeros(6, dtype=torch.long)), "confusion"),
    ],
)
def test_refused(options, batch, word):
    with pytest.raises((TypeError, ValueError), match=word):
        TeacherLoss(**{"model": network(0), **options})(batch)


def test_labels_without_a_confusion():
    wrong = {"class numbers": [0, 1, 3], "labels": [0.0, 1.0, 2.0], "shapes": [0, 1]}
    for word, labels in {**wrong, r"none of \[2\]": [0, 1, 1]}.items():
        with pytest.raises(ValueError, match=word):
            estimate_confusion(labels=labels, answers=torch.tensor([0, 1, 0]), classes=3)


def test_answers_that_say_nothing_are_said():
    labels = torch.arange(200) % 4
    guessed = torch.randint(4, (200,), generator=torch.Generator().manual_seed(1))
    for useless in (guessed, torch.zeros_like(labels)):
        with pytest.warns(UselessAnswersWarning, match="200 rows"):
            estimate_confusion(labels=labels, answers=useless, classes=4)
    mostly_wrong = torch.where(torch.arange(200) % 3 > 0, guessed, labels)
    assert estimate_confusion(labels=labels, answers=mostly_wrong, classes=4)[0, 0] > 0.3


# -- FisherProxy against the exact Fisher information ----------------------------------------------


def test_the_diagonal_is_that_of_the_exact_fisher_information():
    torch.manual_seed(0)
    old = torch.nn.Linear(2, 3)
    X = torch.randn(40, 2)
    many = X.repeat(200, 1)
    proxy = FisherProxy(torch.nn.Linear(2, 3), old, many, damping=1e-6)
    p = old(X).softmax(1).detach()
    # Of one weight: E[(1{y = c} − p_c)²] x_j² = p_c (1 − p_c) x_j².
    exact = torch.einsum("nc,nj->cj", p * (1 - p), X.square()) / len(X)
    torch.testing.assert_close(proxy.fisher["weight"], exact, rtol=0.1, atol=0.01)
    values = FisherProxy(
        torch.nn.Linear(2, 1), torch.nn.Linear(2, 1), many, task="regression", weight=3.0
    )
    exact = 3 * X.square().mean(0)[None]
    torch.testing.assert_close(values.fisher["weight"], exact, rtol=0.1, atol=0.01)


def test_the_loss_is_the_weighted_distance_and_new_layers_are_free():
    torch.manual_seed(0)
    old = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))
    model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 5))
    proxy = FisherProxy(model, old, torch.randn(10, 2))
    assert set(proxy.fisher) == {"0.weight", "0.bias"}
    away = {
        n: dict(model.named_parameters())[n] - dict(old.named_parameters())[n] for n in proxy.fisher
    }
    expected = sum((proxy.fisher[n] * a.square()).sum() / 2 for n, a in away.items())
    torch.testing.assert_close(proxy.loss(None), expected.detach())
    wrong = {"old": (model, torch.nn.Linear(7, 1), []), "model": (3, old, [])}
    rows = {"inputs": (model, old, []), "row of inputs": (model, old, [(torch.ones(2), 1)])}
    for name, arguments in {**wrong, **rows}.items():
        with pytest.raises((TypeError, ValueError), match=name):
            FisherProxy(*arguments)
