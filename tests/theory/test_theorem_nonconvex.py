import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyprox.theory import (
    nonconvex_guarantee,
    nonconvex_guarantee_as_printed,
    nonconvex_noise_factor,
)
from proxyprox.theory.guarantees import PRINTED_NOISE_FACTOR

BASE = {"eta": 0.5, "steps": 24, "initial_gap": 3.0, "sigma": 0.5, "delta": 0.0}


def test_known_values_of_both_versions():
    # 48·3/(0.5·24) = 12, then 56/4 and 8/4.
    assert nonconvex_guarantee(**BASE) == pytest.approx(26.0)
    assert nonconvex_guarantee_as_printed(**BASE) == pytest.approx(14.0)


def test_worst_factor_is_the_sum_of_the_two_lemmas():
    # 2ησ² and ησ²/6, times 48/η.
    assert nonconvex_noise_factor(eta=0.125, delta=2.0) == pytest.approx(48 * (2 + 1 / 6))


def test_one_step_that_the_printed_factor_cannot_cover():
    # L = 3w²/8 and L̂ = w²/4, so δ = 1/4 and η = 1 is allowed; an exact step from 0 on a
    # gradient ±1 moves to ∓2/3. Hence L rises by 1/6 and the squared gradient is 1/4.
    needed = 1 / 4 + 48 * (1 / 6)
    assert PRINTED_NOISE_FACTOR < needed <= nonconvex_noise_factor(eta=1.0, delta=0.25)


@given(fraction=st.floats(0.0, 1.0), delta=st.floats(1e-6, 1e6))
def test_factor_lies_between_its_limits(fraction, delta):
    eta = max(fraction, 1e-9) / (4 * delta)
    assert 56 <= nonconvex_noise_factor(eta=eta, delta=delta) <= 104 * (1 + 1e-12)


@given(
    seed=st.integers(0, 2**32 - 1),
    eta_delta=st.floats(0.0, 0.25),
    noise_scale=st.sampled_from([0.0, 0.1, 1.0, 10.0]),
)
def test_one_exact_step_on_a_random_quadratic_obeys_the_recurrence(seed, eta_delta, noise_scale):
    # L = wᵀAw/2 and L̂ = wᵀPw/2 with ‖A − P‖ = δ; the noise ±n is averaged exactly.
    rng = np.random.default_rng(seed)
    eigenvalues = rng.uniform(0, 5, 3)
    gap = rng.uniform(-1, 1, 3)
    gap /= np.abs(gap).max()
    eta = float(rng.uniform(0.05, 2.0))
    delta = eta_delta / eta
    proxy = np.maximum(eigenvalues, delta)
    loss = proxy + delta * gap
    w, noise = rng.normal(size=3), noise_scale * rng.normal(size=3)
    change, squared_gradient = 0.0, 0.0
    for sign in (-1, 1):
        new = w - (loss * w + sign * noise) / (proxy + 1 / eta)
        change += (loss @ (new**2 - w**2)) / 4
        squared_gradient += ((loss * new) ** 2).sum() / 2
    sigma = float(np.linalg.norm(noise))
    # One step of the theorem, with its own L(w_1) in place of L*.
    gain = max(-change, 0.0)
    bound = nonconvex_guarantee(eta=eta, steps=1, initial_gap=gain, sigma=sigma, delta=delta)
    slack = 48 * max(change, 0.0) / eta
    assert squared_gradient + slack <= bound * (1 + 1e-9) + 1e-12


def test_without_noise_both_versions_agree():
    quiet = {**BASE, "sigma": 0.0}
    assert nonconvex_guarantee(**quiet) == nonconvex_guarantee_as_printed(**quiet) == 12.0


def test_noise_floor_stays_after_many_steps():
    assert nonconvex_guarantee(**{**BASE, "steps": 10**300}) == pytest.approx(14.0)


@pytest.mark.parametrize("function", [nonconvex_guarantee, nonconvex_guarantee_as_printed])
@pytest.mark.parametrize(
    ("name", "value"), [("eta", -1.0), ("steps", 0), ("initial_gap", -1.0), ("sigma", -1.0)]
)
def test_errors_name_the_argument(function, name, value):
    with pytest.raises(ValueError, match=rf"^{name} must be "):
        function(**{**BASE, name: value})


@pytest.mark.parametrize("function", [nonconvex_guarantee, nonconvex_guarantee_as_printed])
def test_step_size_above_its_limit_is_refused(function):
    with pytest.raises(ValueError, match=r"eta must be at most 1/\(4\*delta\) = 0\.125"):
        function(**{**BASE, "delta": 2.0})
