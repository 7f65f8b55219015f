"""A noisy logistic regression for the step size to be measured on."""

import numpy as np
import pytest

from tests.runs import logistic


@pytest.fixture(scope="module")
def target():
    return logistic(600, 8, np.linspace(1, 0.1, 8), 3, l2=1e-4, batch_size=32)
