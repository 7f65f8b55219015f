from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import proxyprox as pp
from proxyprox.advice.audit import audit
from proxyprox.advice.report import Verdict
from proxyprox.inner.base import NonFiniteError
from proxyprox.problems import MixedProxy, ScaledProxy


def data(seed: int = 0, n: int = 400, d: int = 12) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.geomspace(1, 0.05, d)
    y = X @ (rng.standard_normal(d) * 3) + rng.logistic(size=n) > 0
    return X, y


@pytest.fixture(scope="module")
def target() -> pp.GLM:
    return pp.logistic_regression(*data(), l2=1e-3, batch_size=64)


def exact(loss: Any, w: Any) -> np.ndarray:
    return np.linalg.eigvalsh(loss.hessian(w))


def black_box(loss: Any) -> pp.FunctionObjective:
    return pp.FunctionObjective(loss.gradient, sample=loss.sample)


def deterministic(loss: Any) -> tuple[Any, Any]:
    return loss.value, loss.gradient


def test_estimates_at_every_point_hold_the_exact_values(target: pp.GLM) -> None:
    proxy = target.subsample(80, rng=1)
    found = audit(pp.Problem(target, proxy), rng=0)
    assert len(found.points) == 3
    for point in found.points:
        assert point.in_full
        values = exact(target, point.w)
        assert values[-1] in point.H
        assert values[0] in point.mu
        gap = np.linalg.eigvalsh(target.hessian(point.w) - proxy.hessian(point.w))
        assert float(np.abs(gap).max()) in point.delta
    assert found.delta.high == max(p.delta.high for p in found.points)
    assert found.mu.low == min(p.mu.low for p in found.points)


def test_lanczos_serves_where_the_whole_hessian_is_too_expensive() -> None:
    X, y = data(d=60)
    loss = pp.logistic_regression(X, y, l2=1e-3, batch_size=64)
    proxy = loss.subsample(100, rng=2)
    found = audit(pp.Problem(loss, proxy), budget=170, rng=0)
    assert found.ledger.target_gradients <= 170
    assert [point.in_full for point in found.points] == [False, False, True]
    for point in found.points:
        values = exact(loss, point.w)
        assert values[-1] in point.H
        assert values[0] in point.mu
        gap = np.linalg.eigvalsh(loss.hessian(point.w) - proxy.hessian(point.w))
        assert float(np.abs(gap).max()) in point.delta
        assert point.delta.high < 3 * point.delta.low


@pytest.mark.parametrize("show", [black_box, deterministic])
def test_gradients_alone_will_do(target: pp.GLM, show: Any) -> None:
    proxy = target.subsample(80, rng=1)
    shown = pp.Problem(show(target), (proxy.value, proxy.gradient))
    found = audit(shown, target.zeros(), curvature="secants", rng=0)
    for point in found.points:
        values = exact(target, point.w)
        assert values[-1] in point.H
        gap = np.linalg.eigvalsh(target.hessian(point.w) - proxy.hessian(point.w))
        assert float(np.abs(gap).max()) in point.delta
    if show is deterministic:
        assert found.sigma2.high == 0.0
        assert found.delta.high - found.delta.low < 1e-4 * found.H.estimate


def test_noise_is_that_of_the_batches(target: pp.GLM) -> None:
    found = audit(pp.Problem(target, target.label_free()), rng=3)
    for point in found.points:
        rows = np.stack([target.gradient(point.w, np.array([i])) for i in range(400)])
        assert rows.var(axis=0).sum() / 64 in point.sigma2


def test_the_budget_is_kept_and_the_ledger_complete(target: pp.GLM) -> None:
    asked = []

    class Watched(pp.GLM):
        def gradient(self, w: Any, batch: Any = None) -> Any:
            asked.append("gradient")
            return super().gradient(w, batch)

        def hvp(self, w: Any, v: Any) -> Any:
            asked.append("hvp")
            return super().hvp(w, v)

    X, y = data()
    loss = Watched(X, y.astype(int), target.family.__class__(), l2=1e-3, batch_size=64)
    found = audit(pp.Problem(loss, target.label_free()), budget=200, rng=0)
    assert len(asked) == found.ledger.target_gradients <= 200
    # 16 batches of 64 rows are bought once, whatever the number of points they are seen at.
    full = found.ledger.target_samples - 16 * 64
    assert full % 400 == 0
    assert found.ledger.seconds > 0


def test_a_users_cost_and_privacy_are_charged() -> None:
    X, y = data()
    inner = pp.logistic_regression(X, y, l2=1e-2, batch_size=32)
    costly = pp.FunctionObjective(
        inner.gradient, sample=inner.sample, cost=lambda batch: 2.5, samples=inner.samples
    )
    costly.epsilon = lambda count: 0.01 * count
    proxy = inner.label_free()
    found = audit(pp.Problem(costly, proxy), rng=0)
    assert found.ledger.cost == pytest.approx(2.5 * found.ledger.target_gradients)
    assert found.ledger.epsilon == pytest.approx(0.01 * found.ledger.target_gradients)
    assert found.batch.cost == 2.5


def test_verdicts_from_perfect_to_adversarial() -> None:
    X, y = data()
    target = pp.linear_regression(X, y, l2=1e-3, batch_size=64)
    strange = np.random.default_rng(8).standard_normal(X.shape)
    free = target.label_free()

    class Negative(ScaledProxy):
        def __init__(self) -> None:
            super().__init__(free, 1.0)
            self.weights = (-1.0,)

    expected = {
        "perfect": (free, Verdict.USE),
        "half": (target.subsample(200, rng=0), Verdict.USE),
        "tiny": (ScaledProxy(free, 1e-3), Verdict.USE_SCALED),
        "huge": (ScaledProxy(free, 1e3), Verdict.USE_SCALED),
        "unrelated": (target.label_free(strange), Verdict.DO_NOT_USE),
        "wrong sign": (Negative(), Verdict.DO_NOT_USE),
    }
    for name, (proxy, verdict) in expected.items():
        found = audit(pp.Problem(target, proxy), rng=1)
        assert found.verdict is verdict, name
        kind = type(found.recommended.proxy)
        wanted = {
            Verdict.USE: type(proxy), Verdict.USE_SCALED: ScaledProxy,
            Verdict.DO_NOT_USE: pp.problems.Zero,
        }[verdict]  # fmt: skip
        assert kind is wanted
        if verdict is Verdict.USE_SCALED:
            assert found.scale.weights[0] * proxy.scale == pytest.approx(1.0, rel=0.05)
        if name == "wrong sign":
            assert any("sign" in reason for reason in found.reasons)


def test_a_mixture_is_offered_when_it_helps() -> None:
    A, B = np.diag([100.0, 0.1, 1.0, 0.5]), np.diag([0.1, 100.0, 1.0, 0.5])
    goal = pp.Quadratic(A + B, b=np.ones(4), noise=1e-3)
    found = audit(pp.Problem(goal, pp.Quadratic(A)), others=[pp.Quadratic(B)], rng=0)
    assert found.mixture is not None
    assert found.mixture.helps
    assert found.verdict is Verdict.USE_MIXED
    assert "The weights are" in str(found)
    assert found.mixture.weights == pytest.approx((1.0, 1.0), abs=0.02)
    assert isinstance(found.recommended.proxy, MixedProxy)
    alone = audit(pp.Problem(goal, pp.Quadratic(A + B)), others=[pp.Quadratic(B)], rng=0)
    assert alone.mixture is not None
    assert not alone.mixture.helps


def test_the_same_seed_gives_the_same_audit(target: pp.GLM) -> None:
    problem = pp.Problem(target, target.subsample(80, rng=1))
    one, two = (audit(problem, rng=5) for _ in range(2))
    assert one.delta == two.delta
    assert one.sigma2 == two.sigma2
    assert one.prediction == two.prediction


def test_sources_of_epsilon_and_b_are_said(target: pp.GLM) -> None:
    problem = pp.Problem(target, target.label_free())
    guessed, given = audit(problem, rng=0), audit(problem, epsilon=1e-3, B=2.0, rng=0)
    assert (guessed.epsilon_source, guessed.B_source) == ("estimated", "estimated")
    assert (given.epsilon_source, given.B_source) == ("given", "given")
    assert given.prediction.epsilon == 1e-3
    assert "SGD" in str(given)


def test_a_given_cost_ratio_is_used(target: pp.GLM) -> None:
    found = audit(pp.Problem(target, target.label_free()), cost_ratio=50.0, rng=0)
    assert (found.cost.ratio, found.cost.unit) == (50.0, "given")


def test_a_stochastic_proxy_has_noise(target: pp.GLM) -> None:
    proxy = target.with_batch_size(16)
    found = audit(pp.Problem(target, proxy), rng=0)
    rows = np.stack([target.gradient(target.zeros(), np.array([i])) for i in range(400)])
    assert rows.var(axis=0).sum() / 16 in found.rho2


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"budget": 20}, ValueError, "budget must be"),
        ({"epsilon": -1.0}, ValueError, "epsilon"),
        ({"confidence": 1.0}, ValueError, "confidence"),
        ({"curvature": "magic"}, ValueError, "curvature"),
        ({"points": 0}, ValueError, "points"),
        ({"batches": 2}, ValueError, "batches"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_spent(
    target: pp.GLM, change: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        audit(pp.Problem(target, target.label_free()), **change)


def test_what_cannot_be_audited_is_refused(target: pp.GLM) -> None:
    with pytest.raises(ValueError, match=r"problem\.proxy"):
        audit(pp.Problem(target))
    with pytest.raises(TypeError, match="Problem"):
        audit(target)  # type: ignore[arg-type]
    once = pp.FunctionObjective(target.gradient, sample=target.sample, repeatable=False)
    with pytest.raises(TypeError, match="not repeatable"):
        audit(pp.Problem(once, target.label_free()))
    with pytest.raises(TypeError, match="hvp"):
        audit(pp.Problem(black_box(target), target.label_free()), curvature="hvp")


def test_a_target_that_answers_nan_is_named() -> None:
    bad = pp.FunctionObjective(lambda w: w * math.nan)
    with pytest.raises(NonFiniteError, match="target"):
        audit(pp.Problem(bad, pp.Quadratic(np.eye(2))), np.ones(2))


def test_a_path_that_would_explode_is_shortened() -> None:
    rng = np.random.default_rng(4)
    X = np.abs(rng.standard_normal((300, 5)))
    loss = pp.poisson_regression(X, rng.poisson(8, size=300), l2=1e-3, batch_size=32)
    found = audit(pp.Problem(loss, loss.label_free()), rng=0)
    assert all(np.isfinite(loss.value(p.w)) for p in found.points)


def test_torch_models_are_audited_with_their_own_products() -> None:
    torch = pytest.importorskip("torch")
    from proxyprox.torch import FlatLoss

    X, y = data(n=200, d=4)
    inputs, labels = torch.tensor(X), torch.tensor(y, dtype=torch.float64)

    def loss(params: Any, rows: Any) -> Any:
        z = inputs[rows] @ params["w"] + params["b"]
        fit = torch.nn.functional.binary_cross_entropy_with_logits(z, labels[rows])
        return fit + 5e-3 * (params["w"] @ params["w"] + params["b"] ** 2)

    zero = {"w": torch.zeros(4, dtype=torch.float64), "b": torch.zeros((), dtype=torch.float64)}
    goal = FlatLoss(
        loss, zero, sample=lambda rng: torch.tensor(rng.integers(200, size=32)),
        full=torch.arange(200),
    )  # fmt: skip
    proxy = FlatLoss(loss, zero, full=torch.arange(60))
    found = audit(pp.Problem(goal, proxy), goal.start, rng=0)
    columns = np.hstack([X, np.ones((200, 1))])
    A, P = (c.T @ c / (4 * len(c)) + 0.01 * np.eye(5) for c in (columns, columns[:60]))
    start = found.points[0]
    assert float(np.linalg.eigvalsh(A)[-1]) in start.H
    assert float(np.abs(np.linalg.eigvalsh(A - P)).max()) in start.delta


def test_other_proxies_may_be_pairs_of_functions_and_are_checked(target: pp.GLM) -> None:
    other = target.subsample(80, rng=1)
    found = audit(
        pp.Problem(target, target.label_free()), others=[(other.value, other.gradient)], rng=0
    )
    assert found.mixture is not None
    with pytest.raises(TypeError, match="proxy must be"):
        audit(pp.Problem(target, target.label_free()), others=[3])


def test_noise_grows_as_one_over_the_batch_for_gaussian_rows() -> None:
    rng = np.random.default_rng(8)
    X = rng.standard_normal((2000, 15)) * np.geomspace(1, 0.2, 15)
    y = X @ rng.standard_normal(15) + rng.standard_normal(2000)
    loss = pp.linear_regression(X, y, l2=1e-3, batch_size=40)
    found = audit(pp.Problem(loss, loss.label_free()), batches=64, rng=0, budget=800)
    assert found.model.growth == pytest.approx(1 / 40, rel=0.5)
    assert found.model.bend < 1e-9


def test_a_start_at_the_minimum_takes_its_accuracy_from_the_noise() -> None:
    loss = pp.Quadratic(np.diag([1.0, 10.0]), b=np.ones(2), noise=0.1)
    found = audit(pp.Problem(loss, pp.Quadratic(np.diag([1.0, 9.0]))), loss.minimiser(), rng=0)
    assert found.epsilon == pytest.approx(found.sigma2.estimate / 20 / 100)
