"""Methods × inner solvers × {NumPy, torch}, on one problem whose minimiser is known."""

from __future__ import annotations

import numpy as np
import pytest

import proxyprox as pp
from finite_sums import PAGE, SVRP
from own_methods import SvrgProxyProx
from tests.runs import advance, counts

STOP = pp.stopping.Relative(1e-2) | pp.stopping.Residual(1e-11)


class Counted:
    """An oracle that counts, on its own, what is asked of it."""

    def __init__(self, oracle):
        self.oracle = oracle
        self.calls = {}
        self.points = []

    def __getattr__(self, name):
        attribute = getattr(self.oracle, name)
        if not callable(attribute):
            return attribute

        def counted(*args):
            asked = name in ("gradient", "value_and_gradient") and len(args) == 2
            kind = "sampled" if asked else name
            if name in ("sample", "everything"):
                self.points.append(0)
            elif kind == "sampled" and self.points:
                self.points[-1] += 1
            self.calls[kind] = self.calls.get(kind, 0) + 1
            return attribute(*args)

        return counted


def test_converges_counts_and_records(case, inner, backend, shared, to_numpy):
    objective, proxy = Counted(shared.problem.objective), Counted(shared.problem.proxy)
    problem = pp.Problem(objective, proxy)
    call = {"method": case.method, "inner": inner, "stop": STOP, "steps": case.steps, "rng": 0}
    if case.method.defaults() is None:
        call.update(inner=None, stop=None)
    result = pp.minimize(problem, shared.w0, **call)

    error = np.linalg.norm(to_numpy(result.w) - shared.minimiser)
    assert error <= case.accuracy * np.linalg.norm(shared.minimiser)
    assert type(result.w) is type(shared.w0)
    assert result.w.dtype == shared.w0.dtype

    ledger, asked, used = result.ledger, objective.calls, proxy.calls
    assert ledger.target_gradients == asked["sampled"]
    assert ledger.target_samples == case.steps
    asked_as = {"gradients": "gradient", "sampled_gradients": "sampled", "values": "value",
                "hvps": "hvp", "hessians": "hessian", "solves": "solve_shifted"}  # fmt: skip
    for field, name in asked_as.items():
        assert getattr(ledger, f"proxy_{field}") == used.get(name, 0), field
    if not case.method.uses_proxy:
        assert used.keys() <= {"zeros"}

    trace = result.trace
    assert trace["k"].tolist() == list(range(case.steps))
    assert np.diff([0, *trace["target_gradients"]]).tolist() == objective.points
    assert trace["proxy_gradients"][-1] == ledger.proxy_gradients
    assert (np.diff(trace["seconds"]) > 0).all()
    for column in ("residual", "displacement"):
        assert np.isfinite(trace[column]).all()
        assert (trace[column] >= 0).all()
    # Half of the steps of AcceleratedSliding solve nothing: a measured eta is not known there.
    assert (trace["eta"][trace["inner_steps"] > 0] > 0).all()


def test_a_solver_that_does_not_suit_is_refused(backend, shared, registry, suits):
    wrong = [
        (method, inner)
        for method in registry["methods"].values()
        for inner in registry["inner"].values()
        if not suits(method, inner)
    ]
    assert wrong
    for method, inner in wrong:
        with pytest.raises(TypeError, match="inner"):
            pp.minimize(shared.problem, shared.w0, method=method, inner=inner, stop=STOP, steps=1)


def bits(run, to_numpy):
    """Everything a run has computed, as comparable bytes; times are left out."""
    rows = [row._replace(seconds=0.0) for row in run.trace]
    arrays = [run.w, run.result().last]
    return [to_numpy(a).tobytes() for a in arrays], repr(rows), counts(run)


def test_same_seed_same_bits_and_a_save_in_the_middle(
    case, inner, backend, noisy, to_numpy, tmp_path
):
    parts = {"inner": inner, "stop": STOP, "averaging": pp.averaging.Uniform()}
    if case.method.defaults() is None:
        parts.update(inner=None, stop=None)

    def started(seed, count):
        return advance(
            pp.Run(noisy.problem, noisy.w0, method=case.method, rng=seed, **parts), count
        )

    whole, first = started(3, 5), started(3, 1)
    # Noise that is added to a gradient cancels in differences on one batch.
    if not isinstance(case.method, (SvrgProxyProx, SVRP, PAGE)):
        same = bits(started(4, 1), to_numpy)[0] == bits(first, to_numpy)[0]
        assert same == case.method.exact

    advance(first, 2).ask()
    first.save(tmp_path / "run")
    given = {"method": case.method, "rng": 3, **parts}
    resumed = pp.Run.load(tmp_path / "run", noisy.problem, noisy.w0, **given)
    assert bits(resumed, to_numpy) == bits(first, to_numpy)
    # The first half was computed anew, so this also says that the same seed gives the same bits.
    assert bits(advance(resumed, 2), to_numpy) == bits(whole, to_numpy)


def test_every_rule_runs_and_says_whether_it_held(criterion, backend, shared):
    result = pp.minimize(
        shared.problem, shared.w0, method=pp.ProxyProx(eta=2.0), inner=pp.inner.GradientDescent(),
        stop=criterion, steps=5, rng=0,
    )  # fmt: skip
    # A number of inner steps is no rule: nothing can have held.
    none = isinstance(criterion, (pp.stopping.Steps, pp.stopping.RandomSteps))
    assert {row.held for row in result.trace} == {None if none else True}
    bounded = np.isfinite(result.trace["threshold"])
    assert (result.trace["residual"][bounded] <= result.trace["threshold"][bounded]).all()
    assert bounded.all() or not bounded.any()


def test_every_averaging_is_a_convex_combination(averaging, backend, noisy, to_numpy):
    seen = []
    result = pp.minimize(
        noisy.problem, noisy.w0, method=pp.ProxyProx(eta=0.5), averaging=averaging, steps=20,
        rng=0, callback=lambda step: seen.append(to_numpy(step.w).copy()),
    )  # fmt: skip
    q = 1 + 2 * 0.5 * getattr(averaging, "mu", 0.0) / 5
    # With a given eta there is nothing for Adaptive to adapt to.
    last = isinstance(averaging, (pp.averaging.Last, pp.averaging.Adaptive))
    weights = [0.0] * 19 + [1.0] if last else q ** np.arange(20.0)
    expected = np.average(seen, axis=0, weights=weights)
    assert np.allclose(to_numpy(result.w), expected, rtol=1e-12, atol=1e-14)
