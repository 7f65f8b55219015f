import math

import numpy as np
import pytest

from proxyprox.averaging import Geometric


def shares(averaging, etas):
    made, share = [], 1.0
    for k, eta in enumerate(etas, start=1):
        share = averaging.share(share, eta, k)
        made.append(share)
    return made


def test_a_schedule_of_step_sizes_multiplies_the_weights():
    etas = [1.0, 0.5, 2.0, 0.1]
    weights = np.cumprod([1.0] + [1 + 2 * eta * 3.0 / 5 for eta in etas[1:]])
    want = weights / np.cumsum(weights)
    np.testing.assert_allclose(shares(Geometric(mu=3.0), etas), want, rtol=1e-14)


@pytest.mark.parametrize("gain", [1e-8, 1e-3, 10.0])
def test_many_steps_do_not_overflow(gain):
    K = 10**5
    rule, share = Geometric(mu=gain), 1.0
    for k in range(1, K + 1):
        share = rule.share(share, 1.0, k)
    # α_K/Σα = (q − 1)/(q − q^{1−K}), written without the power that would overflow.
    q = np.longdouble(1) + np.longdouble(2) * gain / 5
    want = float((q - 1) / (q - np.exp((1 - K) * np.log(q))))
    assert share == pytest.approx(want, rel=1e-9)


def test_infinite_step_size_means_the_last_iterate_unless_mu_is_zero():
    assert shares(Geometric(mu=0.1), [math.inf] * 4) == [1.0] * 4
    np.testing.assert_allclose(shares(Geometric(mu=0.0), [math.inf] * 4), [1, 1 / 2, 1 / 3, 1 / 4])
