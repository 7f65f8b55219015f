"""``proxyprox run``: what it says of a table, and mistakes that end in a sentence."""

import json


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
