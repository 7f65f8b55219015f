import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyprox.theory import total_work

scale = st.floats(1e-3, 1e3)


def test_known_values():
    # noise 4/(0.5·0.1) = 80; K = 10 + 80; T = 1000/90·(1 + 80); S = 1000 + 80.
    work = total_work(epsilon=0.1, H=500.0, mu=0.5, delta=5.0, sigma=2.0)
    assert work.target_gradients == pytest.approx(90)
    assert work.inner_steps == pytest.approx(900)
    assert work.proxy_gradients == pytest.approx(81_000)
    assert work.sgd_gradients == pytest.approx(1080)


def test_exact_proxy_gradients_cost_the_condition_number_in_all():
    work = total_work(epsilon=0.1, H=500.0, mu=0.5, delta=5.0, sigma=2.0, rho=0.0)
    assert work.proxy_gradients == pytest.approx(1000)


@given(epsilon=scale, mu=scale, ratio=st.floats(1, 1e3), sigma=scale, share=st.floats(0.01, 0.99))
def test_fewer_gradients_of_the_loss_but_more_in_all(epsilon, mu, ratio, sigma, share):
    H = mu * ratio
    work = total_work(epsilon=epsilon, H=H, mu=mu, delta=share * H, sigma=sigma)
    assert work.target_gradients <= work.sgd_gradients * (1 + 1e-12)
    assert work.target_gradients + work.proxy_gradients >= work.sgd_gradients * (1 - 1e-12)


def test_no_count_falls_below_one_step():
    work = total_work(epsilon=1.0, H=1.0, mu=1.0, delta=0.0, sigma=0.0)
    assert work.target_gradients == work.inner_steps == 1
    late = total_work(epsilon=1e-6, H=1.0, mu=1.0, delta=0.0, sigma=1.0, rho=0.0)
    assert late.inner_steps == 1


@pytest.mark.parametrize(
    ("name", "value"), [("epsilon", 0.0), ("mu", 0.0), ("delta", -1.0), ("rho", -1.0)]
)
def test_errors_name_the_argument(name, value):
    base = {"epsilon": 1.0, "H": 1.0, "mu": 1.0, "delta": 1.0, "sigma": 1.0}
    with pytest.raises(ValueError, match=rf"^{name} must be "):
        total_work(**{**base, name: value})


def test_smoothness_below_strong_convexity_is_refused():
    with pytest.raises(ValueError, match=r"^H must be at least 2\.0, got 1\.0"):
        total_work(epsilon=1.0, H=1.0, mu=2.0, delta=1.0, sigma=1.0)
