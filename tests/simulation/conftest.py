"""What the tests of robots and simulators share."""

import pytest

from tests.simulation.cart_world import World


@pytest.fixture
def world():
    return World()
