"""``proxyprox audit``, ``plan`` and ``budget`` say what the library finds; ``proxyprox run``."""

import html
import importlib
import json
import socket

import pytest

from proxyprox import theory
from proxyprox.private import PrivacyBudget
from proxyprox_app import demo

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
    for words in ("first", "1e-05", f"{report['spent']:.4g}"):
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


# -- run: what it says of a table, and mistakes that end in a sentence ----------------------------


def test_tables_fit_the_terminal_and_doubts_are_told(invoke, tmp_path):
    path = tmp_path / "visits.csv"
    lines = [f"P{i % 12:02d},{(i * 7) % 13},{'yes' if i % 12 < 5 else 'no'}" for i in range(120)]
    path.write_text("\n".join(["patient,pulse,ill", *lines]))
    call = ("run", path, "--target", "ill", "--output", tmp_path / "out")
    result = invoke(*call)
    assert max(len(x) for x in result.stdout.splitlines() if str(tmp_path) not in x) <= 80
    assert "Scores as good as these are rare" in " ".join(result.stdout.split())
    assert "--groups patient" in result.stderr
    assert "replaced" not in result.stdout
    assert "replaced" in invoke(*call, "--model", "base-rate").stdout
    done = json.loads(invoke(*call, "--groups", "patient", "--json").stdout)
    assert (done["doubts"], done["replaced"]) == ([], True)
    assert {column["name"]: column["kind"] for column in done["columns"]}["patient"] == "drop"


def test_labels_keep_their_own_words(invoke, tmp_path):
    path = tmp_path / "krank.csv"
    lines = [f"{i};{'ja' if i % 7 > 3 else 'Nein' if i % 5 else 'nein'}" for i in range(60)]
    path.write_text("\n".join(["x;krank", *lines]))
    call = ("run", path, "--target", "krank", "--as", "x=number", "--model", "erm")
    done = json.loads(invoke(*call, "--output", tmp_path, "--json").stdout)
    assert done["classes"] == ["Nein", "ja"]
    assert "nein read as Nein" in str(done["findings"])
    (tmp_path / "new.csv").write_text("x;krank\n1;J\n2;N\n")
    found = json.loads(invoke("predict", tmp_path, tmp_path / "new.csv", "--json").stdout)
    assert {row["krank"] for row in found["predictions"]} <= {"Nein", "ja"}
    assert found["score"]["labels"] == 2


def test_an_interruption_says_what_is_kept(invoke, csv, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("proxyprox_app.fit.fit_model", interrupted)
    result = invoke("run", csv, "--target", "bought", "--output", tmp_path / "out", code=130)
    assert "Nothing was written" in result.stderr
    assert "To run it again:  proxyprox run" in result.stderr


def test_mistakes_end_in_a_sentence(invoke, config, csv, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ours = ("run", csv, "--target", "bought")
    for call, words in (
        (("audit",), "--example"),
        (("audit", tmp_path / "none.toml"), "cannot be read: No such file"),
        (("audit", csv), "run rows.csv --target"),
        (("audit", config, "--budget", "10"), "budget"),
        (("run", tmp_path, "--target", "y"), "is a folder"),
        (("run", config, "--target", "bought"), "does not tell the format"),
        (("run", csv), "--target"),
        (("run", csv, "--target", "bougt"), "did you mean 'bought'"),
        ((*ours, "--groups", "z"), "--groups: no column 'z'"),
        ((*ours, "--groups", "a", "--time", "b"), "do not go together"),
        ((*ours, "--model", "huber"), "--model"),
        ((*ours, "--task", "regression"), "are no numbers"),
        ((*ours, "--as", "a"), "COLUMN=KIND"),
        ((*ours, "--as", "a=colour"), "'colour'"),
        ((*ours, "--separator", ";"), "--separator ';' is given, but the cells look separated"),
        (("predict", tmp_path / "absent.json", csv), "absent.json"),
    ):
        result = invoke(*call, code=2)
        assert words in " ".join(result.stderr.split()), call
    assert not (tmp_path / "runs").exists()


# -- demo --------------------------------------------------------------------------------------


@pytest.fixture
def tiny(monkeypatch):
    """Make the demonstration short, and keep it from the network."""

    def unreachable(*_):
        raise AssertionError("the demo used the network")

    monkeypatch.setattr(socket.socket, "connect", unreachable)
    for name, value in {"ROUNDS": 8, "ROWS": 2000, "COLUMNS": 5}.items():
        monkeypatch.setattr(demo, name, value)
    # The drawing takes longer than the runs.
    monkeypatch.setattr(demo, "curves_svg", lambda *_: "")


def test_words_and_files(invoke, tiny, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    folder = tmp_path / "out"
    result = invoke("demo", "--output", folder, "--seeds", "2")
    assert max(map(len, result.stdout.splitlines())) <= 80 + len(str(folder))
    assert "\x1b" not in result.stdout
    text, page = (
        " ".join(result.stdout.split()),
        html.unescape((folder / "report.html").read_text()),
    )
    for name in demo.PARTS:
        for words in (demo.TEXTS[name]["heading"], demo.TEXTS[name]["who"]):
            assert words in text
            assert words in page
    assert text.count("of 2 draws") == len(demo.PARTS)
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["command"] == f"proxyprox demo --output {folder} --seeds 2"
    assert [part["heading"] for part in summary["parts"]] == [
        demo.TEXTS[name]["heading"] for name in demo.PARTS
    ]

    real = importlib.import_module
    monkeypatch.setattr(
        importlib, "import_module",
        lambda name, *rest: real("no_such_module" if name == "jinja2" else name, *rest),
    )  # fmt: skip
    result = invoke("demo", "--output", folder, "--seeds", "1", code=2)
    assert 'pip install "proxyprox[app]"' in " ".join(result.stderr.split())


def test_the_proxy_saves_rounds():
    gaps = {p["method"]: p["gap"] for p in demo.rounds(0) if p["rounds"] == demo.ROUNDS}
    ours = gaps.pop(demo.OURS)
    assert ours < min(gap for method, gap in gaps.items() if not method.startswith("Newton"))
