import dataclasses

import pytest

from proxyprox.theory import Plan


def test_plan_is_frozen():
    plan = Plan(eta=1.0, steps=1, G=0.0, mu=1.0, guarantee=0.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.eta = 2.0
