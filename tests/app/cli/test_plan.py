from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from proxyprox import theory

Invoke = Callable[..., Any]
GIVEN = ["--delta", "0.1", "--sigma", "0.5", "--H", "10", "--B", "2", "--epsilon", "0.01"]


def test_strongly_convex(invoke: Invoke) -> None:
    result = invoke("plan", *GIVEN, "--mu", "0.1", "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    known = {"epsilon": 0.01, "mu": 0.1, "B": 2.0, "sigma": 0.5, "delta": 0.1}
    plan, solved = theory.plan_run(**known), theory.plan_run(**known, solved=True)
    assert (found["steps"], found["eta"]) == (solved.steps, solved.eta)
    inexact = found["inexact"]
    assert (inexact["steps"], inexact["eta"], inexact["G"]) == (plan.steps, plan.eta, plan.G)
    assert found["case"] == "strongly convex"
    inner = {"eta": plan.eta, "mu": 0.1, "H": 10.0}
    assert found["inner_steps"]["nesterov"] == theory.inner_steps_nesterov(**inner)
    assert found["inner_steps"]["sgd"] == theory.inner_steps_sgd(rho=0.5, G=plan.G, **inner)
    assert found["beats_every_proxy_free_method"]  # 0.1 <= sqrt(10 * 0.1) = 1


@pytest.mark.parametrize("mu", [[], ["--mu", "0"]])
def test_convex(invoke: Invoke, mu: list[str]) -> None:
    found = json.loads(invoke("plan", *GIVEN, *mu, "--json").stdout)
    plan = theory.plan_run(epsilon=0.01, B=2.0, sigma=0.5, delta=0.1)
    assert found["case"] == "convex"
    assert (found["inexact"]["steps"], found["inexact"]["regularizer"]) == (plan.steps, plan.mu)
    expected = theory.inner_steps_gradient_descent(eta=plan.eta, mu=plan.mu, H=10 + plan.mu)
    assert found["inner_steps"]["gradient_descent"] == expected


@pytest.mark.parametrize(
    ("delta", "words"),
    [("0.01", "beats every method"), ("5", "beats SGD, but not"), ("20", "of no help")],
)
def test_table(invoke: Invoke, delta: str, words: str) -> None:
    args = ["--delta", delta, *GIVEN[2:], "--mu", "0.1", "--rho", "0"]
    result = invoke("plan", *args)
    assert result.exit_code == 0
    assert words in " ".join(result.stdout.split())
    for name in ("η", "K", "Nesterov", "ProxyProx", "ρ = 0"):
        assert name in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_says_when_noise_rules(invoke: Invoke) -> None:
    assert "larger batches" in invoke("plan", *GIVEN, "--sigma", "50").stdout


def test_bad_numbers(invoke: Invoke) -> None:
    for name, value in (
        ("epsilon", "0"),
        ("delta", "-1"),
        ("mu", "nan"),
        ("mu", "20"),
        ("B", "inf"),
    ):
        result = invoke("plan", *GIVEN, f"--{name}", value)
        assert result.exit_code == 2
        assert name in result.stderr
        assert result.stdout == ""


EXACT = ["--delta", "1", "--sigma", "0", "--H", "10", "--B", "1", "--epsilon", "1e-2"]


@pytest.mark.parametrize("mu", [[], ["--mu", "0.001"], ["--mu", "0.1"]])
def test_exact_gradients_are_counted_in_rounds(invoke: Invoke, mu: list[str]) -> None:
    without, found = (json.loads(invoke("plan", *EXACT, *m, "--json").stdout) for m in ([], mu))
    assert found["rounds"]["proxybfgs"] < found["rounds"]["proxy_free"] < found["steps"]
    # More knowledge never makes anything longer.
    assert found["steps"] <= without["steps"] == 100
    assert found["inexact"]["steps"] <= without["inexact"]["steps"] == 475
    for kind in ("rounds", "order"):
        assert all(found[kind][name] <= without[kind][name] for name in found[kind])
    words = invoke("plan", *EXACT, *mu).stdout
    assert "ProxyBFGS" in words
    assert "L-BFGS" in words
    assert "ProxyBFGS" not in invoke("plan", *GIVEN, *mu).stdout


def test_equal_curvature_and_exact_gradients_are_one_gradient_of_dane(invoke: Invoke) -> None:
    words = invoke("plan", "--delta", "0", *EXACT[2:]).stdout
    assert "DANE(eta=math.inf)" in words
    assert "ProxyBFGS" not in words


def test_a_start_within_epsilon_needs_no_run(invoke: Invoke) -> None:
    args = ["--delta", "1", "--sigma", "1", "--H", "10", "--B", "1", "--epsilon"]
    words = invoke("plan", *args, "100").stdout
    assert words.startswith("Nothing needs to be run")
    assert "HB²/2 = 5" in words
    assert json.loads(invoke("plan", *args, "100", "--json").stdout)["start_is_enough"]
    assert "Nothing" not in invoke("plan", *args, "4.9").stdout


@pytest.mark.parametrize(
    ("mu", "solved", "inexact"),
    [("0", "Uniform", "Convex"), ("0.1", "Geometric", "StronglyConvex")],
)
def test_both_runs_are_printed_as_calls(invoke: Invoke, mu: str, solved: str, inexact: str) -> None:
    words = invoke("plan", *GIVEN, "--mu", mu).stdout
    plan = theory.plan_run(epsilon=0.01, B=2.0, sigma=0.5, delta=0.1, mu=float(mu), solved=True)
    assert f"averaging={solved}(" in words
    assert f"steps={plan.steps}" in words
    assert f"stop=Residual({plan.tol:.4g})" in words
    assert f"stop={inexact}(" in words
    assert ("regularized(problem" in words) is (mu == "0")
    assert max(map(len, words.splitlines())) <= 80
