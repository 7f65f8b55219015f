import numpy as np
import pytest

from proxyprox import Quadratic, Relative, StochasticGradient, StronglyConvex, Subproblem
from proxyprox.theory import inner_steps_sgd

RNG = np.random.default_rng(0)
DIAGONAL = np.array([0.0, 0.5, 1.0, 2.0])
LINEAR, CENTRE = RNG.normal(size=(2, 4))


def subproblem(noise, eta=2.0):
    return Subproblem(Quadratic(np.diag(DIAGONAL), noise=noise), LINEAR, CENTRE, eta)


def results(solver, phi, seeds, stop=None):
    stop = Relative(1e-9) if stop is None else stop
    return [
        solver.solve(phi, phi.centre, stop, {}, np.random.default_rng(seed))
        for seed in range(seeds)
    ]


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_theorys_number_of_steps_meets_the_rule_in_expectation(noise):
    mu, G, eta = 0.2, 0.1, 2.0
    phi = subproblem(noise, eta)
    solver = StochasticGradient(mu=mu, G=G, noise=noise)
    solved = results(solver, phi, 20 if noise else 1)
    T = inner_steps_sgd(H=2.0, eta=eta, mu=mu, rho=noise, G=G)
    assert {r.progress.steps for r in solved} == {T}
    squared = np.mean([np.sum(phi.gradient(r.w) ** 2) for r in solved])
    allowed = np.mean([mu / (4 * eta) * np.sum((r.w - CENTRE) ** 2) for r in solved]) + G**2
    assert squared <= allowed
    assert np.mean([StronglyConvex(mu, G).threshold(r.progress) ** 2 for r in solved]) == (
        pytest.approx(allowed, rel=1e-12)
    )


def test_error_shrinks_as_one_over_the_steps():
    phi = subproblem(noise=2.0)
    squared = {
        T: np.mean([r.progress.residual**2 for r in results(StochasticGradient(T), phi, 40)])
        for T in (400, 1600)
    }
    # A mean of 40 draws: the ratio 4 is seen within a factor of two.
    assert 2 < squared[400] / squared[1600] < 8


def test_error_follows_the_noise():
    squared = {
        noise: np.mean(
            [
                r.progress.residual**2
                for r in results(StochasticGradient(300), subproblem(noise), 20)
            ]
        )
        for noise in (0.5, 2.0)
    }
    assert squared[2.0] / squared[0.5] == pytest.approx(16.0, rel=0.3)


def test_residual_is_measured_at_the_returned_point():
    phi = subproblem(noise=1.0)
    (solved,) = results(StochasticGradient(50), phi, 1)
    assert solved.progress.residual == pytest.approx(np.linalg.norm(phi.gradient(solved.w)))
    assert solved.progress.steps == 50
    first = np.linalg.norm(phi.gradient(CENTRE))
    assert solved.progress.start_residual == pytest.approx(first)


def test_the_generator_decides_the_draws():
    phi = subproblem(noise=1.0)
    twice = [
        StochasticGradient(20).solve(phi, CENTRE, Relative(0.1), {}, np.random.default_rng(s)).w
        for s in (3, 3, 4)
    ]
    np.testing.assert_array_equal(twice[0], twice[1])
    assert np.abs(twice[0] - twice[2]).max() > 1e-6


def test_tensors_stay_tensors():
    torch = pytest.importorskip("torch")
    proxy = Quadratic(torch.diag(torch.tensor(DIAGONAL)), noise=1.0)
    phi = Subproblem(proxy, torch.tensor(LINEAR), torch.tensor(CENTRE), 2.0)
    (native,) = results(StochasticGradient(30), phi, 1)
    (plain,) = results(StochasticGradient(30), subproblem(noise=1.0), 1)
    np.testing.assert_allclose(native.w.numpy(), plain.w, rtol=1e-12)


@pytest.mark.parametrize(
    "settings", [{}, {"mu": 0.1, "noise": 1.0}, {"mu": -1.0, "G": 0.1}, {"steps": 0}]
)
def test_settings_must_tell_the_number_of_steps(settings):
    with pytest.raises((ValueError, TypeError), match="must be"):
        StochasticGradient(**settings)
