"""``proxyprox audit``, ``plan`` and ``budget``: what they say is what the library finds."""

import json

import pytest

from proxyprox import theory
from proxyprox.private import PrivacyBudget

GIVEN = ["--delta", "0.1", "--sigma", "0.5", "--H", "10", "--B", "2", "--epsilon", "0.01"]


def test_an_audit(invoke, config):
    result = invoke("audit", config)
    for words in ("Use it", "similarity", "Plan:"):
        assert words in " ".join(result.stdout.split())
    found = json.loads(
        invoke("audit", config, "--epsilon", "0.01", "--budget", "300", "--json").stdout
    )
    assert (found["verdict"], found["epsilon"]) == ("USE", 0.01)
    assert found["ledger"]["target_gradients"] <= 300
    assert found["delta"]["low"] <= found["delta"]["high"]
    config.write_text(config.read_text().replace("batch_size = 16", 'batch_size = "all"'))
    exact = json.loads(invoke("audit", config, "--json").stdout)
    assert exact["sigma2"]["high"] == 0
    assert "one step solves it" in str(exact["reasons"])


@pytest.mark.parametrize("mu", [0.0, 0.1])
def test_a_plan_is_that_of_the_theory(invoke, mu):
    call = ("plan", *GIVEN, "--mu", str(mu))
    found, words = json.loads(invoke(*call, "--json").stdout), invoke(*call).stdout
    known = {"epsilon": 0.01, "mu": mu, "B": 2.0, "sigma": 0.5, "delta": 0.1}
    planned = theory.plan_run(**known, solved=True)
    assert (found["steps"], found["eta"]) == (planned.steps, planned.eta)
    for text in (f"steps={planned.steps}", f"stop=Residual({planned.tol:.4g})"):
        assert text in words
    assert ("Uniform()" in words, "strongly convex" in words) == (mu == 0, mu > 0)
    assert max(map(len, words.splitlines())) <= 80


def test_what_a_plan_says_of_the_proxy(invoke):
    for delta, words in (("0.01", "beats every method"), ("5", "beats SGD, but not"),
                         ("20", "of no help")):  # fmt: skip
        result = invoke("plan", "--delta", delta, *GIVEN[2:], "--mu", "0.1")
        assert words in " ".join(result.stdout.split())
    for name, value in (("epsilon", "0"), ("delta", "-1"), ("mu", "nan"), ("B", "inf")):
        result = invoke("plan", *GIVEN, f"--{name}", value, code=2)
        assert result.stdout == ""
        assert name in result.stderr


def test_a_budget_is_shown_and_not_changed(invoke, tmp_path):
    file = tmp_path / "budget.sqlite"
    budget = PrivacyBudget(file, epsilon=2.0, delta=1e-5)
    for name in ("first", "a test\x1b[31m"):
        budget.open(name, [9.0] * 2, {"clip": 1.0})
        budget.charge(name, 0, 9.0, "w")
        budget.end(name)
    before = file.read_bytes()
    shown, given = invoke("budget", file), invoke("budget", file, "--json")
    report = json.loads(given.stdout)
    assert [plan["state"] for plan in report["plans"]] == ["ended", "ended"]
    for words in ("'first'", "σ = 9", "δ = 1e-05", f"ε = {report['spent']:.4g}"):
        assert words in shown.stdout
    assert "\x1b" not in shown.stdout + given.stdout
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["budget.sqlite"]
    for content in (None, b"", b"no database at all", b"SQLite format 3\0" * 300):
        other = tmp_path / "other"
        if content is not None:
            other.write_bytes(content)
        done = invoke("budget", other, "--json", code=2)
        assert json.loads(done.stdout)["exit_code"] == 2
        assert "cannot be used" in done.stderr
        assert (other.read_bytes() if other.exists() else None) == content
