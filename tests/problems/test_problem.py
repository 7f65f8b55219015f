"""Problems, and objectives and proxies made of functions."""

import numpy as np
import pytest

from proxyprox import (
    DANE,
    L1,
    LBFGS,
    FunctionObjective,
    FunctionProxy,
    Problem,
    ProxyProx,
    Quadratic,
    audit,
    linear_regression,
    minimize,
)
from proxyprox.averaging import Uniform
from proxyprox.corrections import Mean
from proxyprox.methods import AuxMVR
from proxyprox.problems import ScaledProxy, Zero, regularized


def value(w):
    return float(w @ w)


def gradient(w):
    return 2 * w


def test_pairs_of_functions_become_objective_and_proxy():
    problem = Problem((value, gradient), (value, gradient))
    assert isinstance(problem.objective, FunctionObjective)
    assert isinstance(problem.proxy, FunctionProxy)
    assert problem.dim is None
    np.testing.assert_array_equal(problem.objective.gradient(np.ones(2)), [2.0, 2.0])
    np.testing.assert_array_equal(problem.proxy.gradient(np.ones(2)), [2.0, 2.0])


def test_proxy_is_zero_if_left_out():
    assert isinstance(Problem((value, gradient)).proxy, Zero)


def test_value_adds_the_penalty():
    w = np.array([1.0, -2.0])
    assert Problem((value, gradient)).value(w) == 5.0
    assert Problem((value, gradient), penalty=L1(0.5)).value(w) == 6.5


def test_value_of_gradients_only_is_refused():
    with pytest.raises(TypeError, match="from the objective"):
        Problem((None, gradient)).value(np.ones(2))


def test_dimensions_are_known_and_must_agree():
    assert Problem(Quadratic(np.eye(3))).dim == 3
    assert Problem((value, gradient), Quadratic(np.eye(4))).dim == 4
    with pytest.raises(ValueError, match="proxy must be of as many parameters"):
        Problem(Quadratic(np.eye(3)), Quadratic(np.eye(2)))


@pytest.mark.parametrize("objective", [None, (gradient,), (value, 3), Quadratic, object(), Zero()])
def test_what_is_no_objective_is_refused(objective):
    with pytest.raises(TypeError, match="objective must be an object"):
        Problem(objective)


@pytest.mark.parametrize("proxy", [None, (None, gradient), Quadratic, object()])
def test_what_is_no_proxy_is_refused(proxy):
    with pytest.raises(TypeError, match=r"(proxy|value) must be a"):
        Problem((value, gradient), proxy)


def test_penalty_must_have_a_prox():
    with pytest.raises(TypeError, match="penalty must be a penalty with value, prox"):
        Problem((value, gradient), penalty=0.1)


class Delegating:
    """Has every attribute by ``__getattr__`` only, as a user's logging or caching wrapper."""

    def __init__(self, inside):
        self._inside = inside

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._inside, name)

    def __call__(self, *arguments, **named):
        return self._inside(*arguments, **named)


def parts():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    target = linear_regression(X, X @ [1.0, -2.0, 0.5] + rng.normal(size=40), batch_size=8)
    return target, target.label_free()


@pytest.mark.parametrize("wrapped", ["objective", "proxy", "penalty", "all"])
def test_parts_may_have_their_methods_by_getattr(wrapped):
    objective, proxy = parts()
    plain = {"objective": objective, "proxy": proxy, "penalty": L1(0.1)}
    given = {
        name: Delegating(part) if wrapped in (name, "all") else part for name, part in plain.items()
    }
    found = minimize(Problem(**given), method=ProxyProx(eta=0.5), steps=10, rng=0)
    expected = minimize(Problem(**plain), method=ProxyProx(eta=0.5), steps=10, rng=0)
    np.testing.assert_array_equal(found.w, expected.w)
    assert found.ledger.proxy_gradients == expected.ledger.proxy_gradients


def test_methods_solvers_averages_and_corrections_may_delegate():
    problem = Problem(*parts())
    found = minimize(
        problem, method=Delegating(ProxyProx(eta=0.5, correction=Delegating(Mean()))),
        inner=Delegating(LBFGS()), averaging=Delegating(Uniform()), steps=10, rng=0,
    )  # fmt: skip
    expected = minimize(
        problem, method=ProxyProx(eta=0.5, correction=Mean()), inner=LBFGS(), averaging=Uniform(),
        steps=10, rng=0,
    )  # fmt: skip
    np.testing.assert_array_equal(found.w, expected.w)


def test_wrapped_losses_are_audited_regularised_and_scaled():
    objective, proxy = (Delegating(part) for part in parts())
    problem = Problem(objective, proxy)
    assert audit(problem, rng=0).delta is not None
    assert regularized(problem, 0.1, np.zeros(3)).value(np.zeros(3)) > 0
    scaled = Problem(objective, Delegating(ScaledProxy(proxy, 0.5)))
    assert minimize(scaled, method=DANE(eta=0.5), steps=5).ledger.target_gradients == 5


def test_run_with_reused_buffers_is_the_run_without():
    A, P = np.diag([1.0, 5.0, 9.0]), np.diag([2.0, 4.0, 9.0])
    b = np.array([1.0, -2.0, 3.0])

    def problem(answer):
        return Problem(
            (None, lambda w: answer(A @ w + b)), (lambda w: w @ P @ w / 2, lambda w: answer(P @ w))
        )

    buffer = np.empty(3)

    def reused(x):
        buffer[:] = x
        return buffer

    options = {"method": AuxMVR(a=0.3, eta=0.1), "steps": 20}
    fresh = minimize(problem(lambda x: x), np.ones(3), **options)
    shared = minimize(problem(reused), np.ones(3), **options)
    np.testing.assert_array_equal(fresh.w, shared.w)


def test_objective_without_sampler_is_exact():
    objective = FunctionObjective(lambda w: 2 * w)
    assert objective.sample(np.random.default_rng(0)) is None
    assert objective.everything() is None
    np.testing.assert_array_equal(objective.gradient(np.ones(2), None), [2.0, 2.0])


def test_objective_with_sampler_hands_the_batch_on():
    objective = FunctionObjective(
        lambda w, batch: w + batch, sample=lambda rng: rng.normal(size=2), repeatable=False
    )
    drawn = objective.sample(np.random.default_rng(4))
    np.testing.assert_array_equal(drawn, np.random.default_rng(4).normal(size=2))
    np.testing.assert_array_equal(objective.gradient(np.zeros(2), drawn), drawn)
    assert objective.everything is None
    assert not objective.repeatable


def test_torch_functions_keep_tensors_and_values_become_floats():
    torch = pytest.importorskip("torch")
    target = torch.tensor([1.0, -2.0], dtype=torch.float64)

    def value(w):
        return ((w - target) ** 2).sum() / 2

    def gradient(w):
        w = w.detach().requires_grad_(True)
        return torch.autograd.grad(value(w), w)[0]

    proxy = FunctionProxy(value, gradient)
    w0 = torch.zeros(2, dtype=torch.float64)
    assert isinstance(proxy.value(w0), float)
    assert isinstance(proxy.gradient(w0), torch.Tensor)
    problem = Problem((value, gradient), proxy)
    w = minimize(problem, w0, method=ProxyProx(eta=10.0), steps=30).w
    np.testing.assert_allclose(w.numpy(), target.numpy(), atol=1e-10)
    assert problem.value(w) == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("answer", [[1.0, 2.0], None, 3.0, "no"])
def test_answers_that_are_no_arrays_are_handed_on(answer):
    assert FunctionObjective(lambda w: answer).gradient(np.ones(2)) is answer


@pytest.mark.parametrize("name", ["gradient", "value", "sample"])
def test_parts_that_are_not_functions_are_refused(name):
    parts = {"gradient": lambda w: w, name: 3}
    with pytest.raises(TypeError, match=f"{name} must be "):
        FunctionObjective(**parts)


@pytest.mark.parametrize(("name", "value"), [("smoothness", 0.0), ("strong_convexity", -1.0)])
def test_constants_of_a_proxy_are_checked(name, value):
    with pytest.raises(ValueError, match=name):
        FunctionProxy(lambda w: 0.0, lambda w: w, **{name: value})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Problem((None, lambda w, rng: w)), ["function of w alone", "sample=..."]),
        (lambda: FunctionObjective(lambda w, rng: w), ["function of w alone", "sample(rng)"]),
        (
            lambda: FunctionObjective(lambda w: w, sample=lambda rng: 0),
            ["a function of w and a batch", "without it"],
        ),
        (lambda: FunctionProxy(lambda w: 0.0, lambda w, rng: w), ["gradient", "w alone", "exact"]),
    ],
)
def test_a_function_of_other_arguments_is_refused_at_the_door(make, words):
    with pytest.raises(TypeError) as caught:
        make()
    assert all(word in str(caught.value) for word in words)


def test_functions_whose_arguments_cannot_be_seen_are_taken():
    for gradient in (np.sinh, lambda w, scale=2.0: scale * w, lambda *given: given[0]):
        assert FunctionObjective(gradient).gradient(np.zeros(2)).tolist() == [0.0, 0.0]


def test_everything_and_hvp_make_dane_and_an_audit_possible():
    A = np.diag([1.0, 4.0])
    rows = [np.array([1.0, 0.0]), np.array([0.0, 1.0])]
    options = {"sample": lambda rng: [int(rng.integers(2))]}

    def gradient(w, batch):
        return A @ w - np.mean([rows[j] for j in batch], axis=0)

    blind = FunctionObjective(gradient, **options)
    proxy = (lambda w: float(w @ w), lambda w: 2 * w)
    with pytest.raises(TypeError, match=r"Use ProxyProx.*give FunctionObjective everything="):
        minimize(Problem(blind, proxy), np.zeros(2), method=DANE(1.0), steps=2)
    whole = FunctionObjective(
        gradient, **options, everything=lambda: [0, 1], hvp=lambda w, v: A @ v
    )
    result = minimize(Problem(whole, proxy), np.zeros(2), method=DANE(1.0), steps=60)
    np.testing.assert_allclose(result.w, [0.5, 0.125], atol=1e-6)
    found = audit(Problem(whole, proxy), np.zeros(2), curvature="hvp", rng=0)
    assert found.H.estimate == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"hvp": lambda v: v}, r"hvp must be callable as hvp\(w, v\)"),
        ({"everything": lambda w: w}, r"everything must be callable as everything\(\)"),
        ({"everything": [0, 1]}, "everything must be callable"),
        ({"everything": lambda: 0, "sample": None}, "everything must be left out"),
    ],
)
def test_wrong_signatures_are_named(options, words):
    with pytest.raises(TypeError, match=words):
        FunctionObjective(lambda w, *batch: w, **{"sample": lambda rng: 0} | options)


def test_wrong_signatures_of_classes_are_named():
    class Own:
        everything = (0, 1)
        sample = staticmethod(lambda rng: 0)
        gradient = staticmethod(lambda w, batch: w)
        hvp = staticmethod(lambda v: v)

    proxy = FunctionProxy(lambda w: float(w @ w), lambda w: 2 * w)
    with pytest.raises(TypeError, match=r"objective.everything must be callable as every"):
        minimize(Problem(Own(), proxy), np.zeros(2), method=DANE(1.0), steps=2)
    Own.everything = staticmethod(lambda: 0)
    with pytest.raises(TypeError, match=r"objective.hvp must be callable as hvp\(w, v\)"):
        audit(Problem(Own(), proxy), np.zeros(2), curvature="hvp", rng=0)
    with pytest.raises(TypeError, match=r"hvp must be callable as hvp\(w, v\)"):
        FunctionProxy(lambda w: float(w @ w), lambda w: 2 * w, hvp=lambda v: v)


def test_a_proxys_value_that_is_no_number_is_named():
    with pytest.raises(TypeError, match="proxy's value"):
        FunctionProxy(lambda w: w, lambda w: w).value(np.ones(2))
