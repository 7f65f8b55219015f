"""The theorems as functions: values worked out by hand, limits, refusals."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyprox.theory import guarantee, largest_step_size, nonconvex_guarantee

CONVEX = {"eta": 0.2, "steps": 50, "B": 2.0, "sigma": 1.0, "delta": 1.0, "G": 0.1}
STRONG = {"eta": 0.25, "steps": 10, "mu": 1.0, "B": 2.0, "sigma": 1.0, "delta": 1.0, "G": 0.5}
NONCONVEX = {"eta": 0.5, "steps": 24, "initial_gap": 3.0, "sigma": 0.5, "delta": 0.0}


def test_convex_by_hand():
    assert largest_step_size(2.5) == pytest.approx(0.1)
    assert largest_step_size(0.0) == math.inf
    # 9·4/(8·10) = 0.45; 2·0.2 = 0.4; 10·0.01 = 0.1.
    assert guarantee(**CONVEX) == pytest.approx(0.95, rel=1e-14)
    # Exact solves leave the noise alone; a fixed inner error adds up.
    assert guarantee(**{**CONVEX, "steps": 10**300, "G": 0.0}) == pytest.approx(0.4)
    assert guarantee(**{**CONVEX, "steps": 10**9}) > 1e6
    # Solved: (1 + 1/4)/2·4/(0.25·10) = 1 and 0.25/(2 − 1/2); with ηδ ≥ 1/2 all of the noise.
    known = {"steps": 10, "B": 2.0, "sigma": 1.0, "delta": 1.0, "solved": True}
    assert guarantee(**known, eta=0.25) == pytest.approx(1 + 0.25 / 1.5)
    assert guarantee(**known, eta=1.0) == pytest.approx(0.4 + 1.0)
    assert guarantee(**known, eta=1.0, share=0.5) == pytest.approx(0.4 + 0.5)
    # eta · steps would overflow.
    assert 0 <= guarantee(eta=1e20, steps=10**295, B=1.0, sigma=0.0, delta=0.0) < 1e-300


def test_strongly_convex_by_hand():
    # ημ = 5/2 makes the base 2: 5·4/(8·2.5)/(2⁴ − 1) = 1/15; 2·2.5·0.01 = 1/20; 0.04/1 = 1/25.
    value = guarantee(eta=2.5, steps=4, mu=1.0, B=2.0, sigma=0.1, delta=0.0, G=0.2)
    assert value == pytest.approx(1 / 15 + 1 / 20 + 1 / 25, rel=1e-14)
    for steps in (10**9, 10**30, 10**300):
        assert guarantee(**{**STRONG, "steps": steps}) == 0.5 + 0.25
    assert guarantee(**{**STRONG, "B": 1e200, "steps": 10**9}) == 0.75
    # (1 + 2e-18)^1e18 = e² although 1 + 2e-18 rounds to 1.
    value = guarantee(eta=1.0, steps=10**18, mu=5e-18, B=1e9, sigma=0.0, delta=0.0)
    assert value == pytest.approx(5 / 8 * 2 / math.expm1(2), rel=1e-9)


@given(
    steps=st.integers(1, 60),
    eta=st.fractions(Fraction(1, 1000), 10),
    mu=st.fractions(Fraction(1, 1000), 10),
)
def test_matches_exact_rational_arithmetic(steps, eta, mu):
    rate = 2 * eta * mu / 5
    exact = Fraction(5, 8) / eta * rate / ((1 + rate) ** steps - 1)
    value = guarantee(eta=float(eta), steps=steps, mu=float(mu), B=1.0, sigma=0.0, delta=0.0)
    assert value == pytest.approx(float(exact), rel=1e-12)


def test_nonconvex_by_hand():
    # 48·3/(0.5·24) = 12, then 56/4 and 8/4.
    assert nonconvex_guarantee(**NONCONVEX) == pytest.approx(26.0)
    assert nonconvex_guarantee(**NONCONVEX, printed=True) == pytest.approx(14.0)
    assert nonconvex_guarantee(**{**NONCONVEX, "steps": 10**300}) == pytest.approx(14.0)

    # The worst factor is the sum of the two lemmas: 2ησ² and ησ²/6, times 48/η.
    def factor(eta, delta):
        known = {**NONCONVEX, "initial_gap": 0.0, "sigma": 1.0}
        return nonconvex_guarantee(**{**known, "eta": eta, "delta": delta})

    assert factor(0.125, 2.0) == pytest.approx(48 * (2 + 1 / 6))
    # L = 3w²/8 and L̂ = w²/4, so δ = 1/4 and η = 1 is allowed; an exact step from 0 on a
    # gradient ±1 moves to ∓2/3. Hence L rises by 1/6 and the squared gradient is 1/4.
    assert 8.0 < 1 / 4 + 48 * (1 / 6) <= factor(1.0, 0.25)


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


def test_arguments_that_do_not_fit_together_are_named():
    wrong = [
        (guarantee, STRONG, "steps", 10**301),
        (guarantee, STRONG, "solved", 1),
        (guarantee, {**STRONG, "solved": True}, "G", 0.5),
        (nonconvex_guarantee, {**NONCONVEX, "delta": 2.0}, "eta", 0.5),
    ]
    for function, settings, name, value in wrong:
        with pytest.raises((ValueError, TypeError), match=f"^{name} must be "):
            function(**{**settings, name: value})
