"""minimize: ends, budgets, callbacks, what is printed, and what survives an error."""

from __future__ import annotations

import numpy as np
import pytest

import proxyprox as pp


class Priced(pp.Quadratic):
    """A target that knows its own prices."""

    def cost(self, batch):
        return 2.5

    def samples(self, batch):
        return 3

    def epsilon(self, n):
        return 0.1 * n**0.5


def problem(noise=0.2):
    target = Priced(np.diag([1.0, 4.0]), b=np.array([-1.0, 0.5]), noise=noise)
    return pp.Problem(target, pp.Quadratic(np.diag([1.1, 3.8])))


METHODS = [pp.ProxyProx(0.5), pp.ProxyProx(0.5, pp.corrections.Storm(0.1)), pp.DANE(eta=0.5)]
LIMITS = [
    ("target_gradients", 10), ("target_gradients", 11), ("target_samples", 10), ("cost", 12.4),
    ("cost", 12.5), ("epsilon", 0.35),
]  # fmt: skip


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize(("field", "limit"), LIMITS)
def test_a_target_budget_is_used_up_and_never_exceeded(method, field, limit):
    budget = pp.Budget(**{field: limit})
    result = pp.minimize(problem(), method=method, budget=budget, rng=0)
    assert result.status is pp.Status.BUDGET_SPENT
    assert field in result.message
    assert result.success
    used = getattr(result.ledger, field)
    assert 0 < used <= limit
    # One more step would have been too much.
    points = 2 if method.two_points else 1
    ahead = {
        "target_gradients": points,
        "target_samples": 3,
        "cost": 2.5 * points,
        "epsilon": 0.1 * (result.ledger.target_gradients + points) ** 0.5 - used,
    }
    assert used + ahead[field] > limit


@pytest.mark.parametrize("field", ["proxy_gradients", "seconds"])
def test_a_budget_unknown_ahead_ends_the_run_with_the_step_that_reaches_it(field):
    limit = {"proxy_gradients": 20, "seconds": 0.01}[field]
    result = pp.minimize(
        problem(), method=pp.ProxyProx(0.5), budget=pp.Budget(**{field: limit}), rng=0
    )
    assert result.status is pp.Status.BUDGET_SPENT
    column = result.trace[field]
    assert column[-1] >= limit
    assert (column[:-1] < limit).all()


def test_a_larger_budget_goes_on_from_the_open_question(tmp_path):
    path = tmp_path / "run"
    call = {
        "method": pp.ProxyProx(0.5, pp.corrections.Storm(0.1)),
        "rng": 0,
        "stop": pp.stopping.SDane(),
    }
    pp.minimize(problem(), budget=np.int64(6), checkpoint=path, **call)
    resumed = pp.minimize(problem(), budget=15, checkpoint=path, **call)
    whole = pp.minimize(problem(), budget=15, **call)
    assert resumed.w.tobytes() == whole.w.tobytes()
    assert resumed.ledger.target_gradients == whole.ledger.target_gradients == 15


def test_a_callback_can_stop_the_run():
    def raises(step):
        if step.record.k == 3:
            raise StopIteration

    call = {"method": pp.ProxyProx(0.5), "steps": 8, "rng": 0}
    for callback, steps in ((lambda step: step.record.k == 3, 4), (raises, 4), (lambda s: 0, 8)):
        result = pp.minimize(problem(), callback=callback, **call)
        assert (result.steps, result.success) == (steps, True)
        assert (result.status is pp.Status.STOPPED_BY_CALLBACK) == (steps == 4)


def test_the_result_in_words():
    result = pp.minimize(problem(), method=pp.ProxyProx(0.5), steps=4, rng=0)
    text = str(result)
    assert text.startswith("All the requested outer steps were taken.")
    assert "4 (inner rule held in 4 of 4)" in text
    assert "4 gradients, 12 samples" in text
    assert "closed-form solves" in text
    assert "ClosedForm() (picked because the proxy is quadratic" in text
    assert "StronglyConvex(mu=1.0, G=0.0) (the default: the objective is strongly convex)" in text
    assert "nothing" in str(pp.minimize(problem(), method=pp.SGD(0.1), steps=2, rng=0))


def test_progress_goes_to_stderr_only(capsys):
    pp.minimize(problem(), method=pp.ProxyProx(0.5), steps=5, progress=True, rng=0)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "outer steps" in shown.err
    pp.minimize(problem(), method=pp.ProxyProx(0.5), budget=5, progress=True, rng=0)
    assert "target gradients" in capsys.readouterr().err
    pp.minimize(problem(), method=pp.ProxyProx(0.5), steps=5, rng=0)
    assert capsys.readouterr() == ("", "")


class Breaking(Priced):
    """A target whose n-th gradient is something else."""

    at, what = 0, None

    def gradient(self, w, batch=None):
        self.at -= 1
        if self.at == -1:
            if isinstance(self.what, float):
                return np.full(2, self.what)
            raise self.what
        return super().gradient(w, batch)


def breaking(at, what):
    target = Breaking(np.diag([1.0, 4.0]), b=np.array([-1.0, 0.5]), noise=0.2)
    target.at, target.what = at, what
    return pp.Problem(target, problem().proxy)


@pytest.mark.parametrize("at", [0, 5])
@pytest.mark.parametrize(
    "what", [np.nan, -np.inf, RuntimeError("offline"), OSError(5, "x"), KeyboardInterrupt()],
    ids=repr,
)  # fmt: skip
def test_a_target_that_breaks_costs_only_the_step(at, what, tmp_path):
    path, method = tmp_path / "run", pp.ProxyProx(0.5)
    call = {"method": method, "rng": 0, "checkpoint": path}
    if isinstance(what, float):
        result = pp.minimize(breaking(at, what), steps=10, **call)
        assert result.status is pp.Status.TARGET_NOT_FINITE
        assert f"outer step {at}" in result.message
        assert not result.success
        good = pp.minimize(problem(), steps=at, method=method, rng=0).w if at else np.zeros(2)
        assert result.w.tobytes() == good.tobytes()
    else:
        passes = isinstance(what, KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt if passes else pp.OracleError) as caught:
            pp.minimize(breaking(at, what), steps=10, **call)
        if not passes:
            assert caught.value.__cause__ is what
            for word in (f"{type(what).__name__} in outer step {at}", str(what), repr(str(path))):
                assert word in str(caught.value)
            assert caught.value.result.steps == at
            assert caught.value.result.status is pp.Status.INTERRUPTED
    assert pp.Run.load(path, problem(), method=method, rng=0).steps == at
    # With the target mended, the same call resumes where it was.
    resumed = pp.minimize(problem(), steps=10, **call)
    whole = pp.minimize(problem(), steps=10, method=method, rng=0)
    assert resumed.w.tobytes() == whole.w.tobytes()
    # An answer that was not finite was paid for.
    assert resumed.ledger.target_gradients == 10 + isinstance(what, float)


def test_a_disk_that_fails_does_not_hide_the_first_error(tmp_path, monkeypatch):
    def full(self, run):
        if run.steps >= 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(pp.Checkpoint, "save", full)
    with pytest.raises(pp.OracleError, match=r"RuntimeError.*could not be saved \(OSError") as e:
        pp.minimize(
            breaking(5, RuntimeError("offline")), method=pp.ProxyProx(0.5), steps=10, rng=0,
            checkpoint=tmp_path / "run",
        )  # fmt: skip
    assert e.value.result.steps == 5
    with pytest.raises(pp.OracleError, match=r"OSError.*No space left") as e:
        pp.minimize(
            problem(), method=pp.ProxyProx(0.5), steps=10, rng=0, checkpoint=tmp_path / "run"
        )
    assert e.value.result.steps == 10


def test_a_batch_that_cannot_be_saved_is_refused_before_it_is_paid_for(tmp_path):
    asked = []
    target = pp.FunctionObjective(lambda w, b: asked.append(1) or w, sample=lambda rng: object())
    with pytest.raises(TypeError, match="batch is a object, which cannot be saved"):
        pp.minimize(
            pp.Problem(target), np.ones(2), method=pp.SGD(0.1), steps=1, checkpoint=tmp_path / "r"
        )
    assert not asked
