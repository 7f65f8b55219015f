"""Records know what they measured, and pages have the tables of their records."""

import json
from pathlib import Path

import pytest

from experiments import records

ROOT = Path(__file__).parents[2]
CODE = '"""Prose."""\n\nx = 1\n'
SCRIPT = """
import json

def table(path):
    return "".join(f"| {k} | {v} |\\n" for k, v in json.loads(path.read_text()).items())

def count(path):
    return f"{len(json.loads(path.read_text()))}"
"""


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with a measured file, a script, a record and a page."""
    for name in ("src", "docs/results/area"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "src/part.py").write_text(CODE)
    (tmp_path / "script_of_records.py").write_text(SCRIPT)
    record = tmp_path / "docs/results/area/kept.json"
    monkeypatch.setattr("sys.argv", [str(tmp_path / "script_of_records.py")])
    records.write_record(record, {"a": 1.5, "b": float("inf")}, measures=["src"], root=tmp_path)
    return tmp_path


def test_a_record_holds_what_made_it(repository):
    folder = repository / "docs/results/area"
    about = json.loads((folder / "about.json").read_text())["kept.json"]
    assert json.loads((folder / "kept.json").read_text()) == {"a": 1.5, "b": None}
    assert set(about["measures"]) == {"src", "script_of_records.py"}
    assert about["command"].startswith("python ")
    assert about["cpu_seconds"] > 0
    assert about["versions"]["numpy"]
    assert str(repository) not in json.dumps(about)


def test_only_code_ages_a_record(repository):
    part, kept = repository / "src/part.py", repository / "docs/results/area/kept.json"
    assert list(records.check_records(repository)) == []
    part.write_text('"""Other prose."""\n# A comment.\n\nx = 1\n')
    assert list(records.check_records(repository)) == []
    part.write_text(CODE.replace("1", "2"))
    assert [line for line in records.check_records(repository) if "older than src" in line]
    part.write_text(CODE)
    kept.write_text("{}")
    assert [line for line in records.check_records(repository) if "changed" in line]
    kept.rename(kept.with_name("other.json"))
    assert len(list(records.check_records(repository))) == 2


def test_tables_are_those_of_their_records(repository):
    page = repository / "docs/page.md"
    typed = "| | n |\n|---|---|\n| a | 3 |\n"
    marker = "<!-- table script_of_records.py:table area/kept.json -->\n"
    page.write_text(f"{typed}\n{marker}{typed}<!-- end -->\n")
    assert records.fill_tables(page, write=False, root=repository)
    assert [number for number, _ in records.tables_without_record(page)] == [1]
    records.fill_tables(page, write=True, root=repository)
    assert not records.fill_tables(page, write=False, root=repository)
    assert page.read_text() == f"{typed}\n{marker}| a | 1.5 |\n| b | None |\n<!-- end -->\n"
    inline = (
        "It took <!-- number script_of_records.py:count area/kept.json -->{}<!-- end --> rounds."
    )
    page.write_text(inline.format(7))
    assert records.fill_tables(page, write=True, root=repository)
    assert page.read_text() == inline.format(2)


def test_numbers_of_sentences_are_those_of_their_records(repository):
    page, rows = repository / "docs/page.md", [{"who": "a", "n": n} for n in (3, 5, 1500)]
    records.write_record(
        repository / "docs/results/area/n.csv", rows, measures=["src"], root=repository
    )
    template = "a needs {:g} to {:,.0f} rounds, {} at most"
    (repository / "docs/quoted.py").write_text(f"""
from experiments.records import Sentence
SENTENCES = [Sentence("docs/page.md", "area/n.csv", "{template}",
    lambda q: [q.middle("n", who="a"), max(q.each("n", who="a")), q.short(0.00951)])]
""")
    for text, differs in (
        ("Here a needs 5 to 1,500\nrounds, 9.5e-3 at most.", False),
        ("Here a needs 7 to 15\nrounds, .2 at most.", True),
        ("Here b needs 5 rounds.", True),
    ):
        page.write_text(text)
        assert bool(records.fill_sentences(write=False, root=repository)) == differs
    page.write_text("a needs 7 to 15\nrounds, 0.2 at most ([here](results/a.md)). It has 0.5.")
    assert len(list(records.sentences_without_record(page))) == 1
    assert not list(records.sentences_without_record(page, [template]))
    assert records.fill_sentences(write=True, root=repository)
    assert page.read_text().startswith("a needs 5 to 1,500\nrounds, 9.5e-3 at most ([here]")


def test_commands_that_cannot_be_run_are_named(repository):
    (repository / "part.py").touch()
    for command in ("python part.py --x 1", "python -W ignore part.py", "python -m part"):
        assert records.why_not(command, repository) == ""
    for command in (
        "python none.py",
        "python -m none",
        "python part.py; then",
        "python part.py …/a",
    ):
        assert records.why_not(command, repository)
    (line,) = records.run_commands(
        ["python none.py"], processes=1, within=9, logs=repository / "logs", root=repository
    )
    assert "not begun" in line


def test_old_records_are_run_again(repository):
    (repository / "src/part.py").write_text("x = 2\n")
    assert (
        len(records.old_commands([], repository))
        == len(records.old_commands(["area"], repository))
        == 1
    )
    assert not records.old_commands(["other"], repository)
    options = {"processes": 1, "logs": repository / "logs", "root": repository}
    failing = ["python -c 'import sys; sys.exit(3)'"]
    assert "exit 3" in list(records.run_commands(failing, within=600.0, **options))[-1]
    endless = ["python -c 'while True: pass'", "python -c 'pass'"]
    for limits, ends in (
        ({"within": 1.0}, ["begun", "not begun", "out of time"]),
        ({"within": 600.0, "each": 1.0}, ["begun", "begun", "exit 0", "out of time"]),
    ):
        lines = sorted(records.run_commands(endless, **limits, **options))
        assert [line.split(":")[0].split(" after")[0] for line in lines] == ends
    (repository / "script_of_records.py").unlink()
    assert "area/kept.json" in records.plan([], repository)


def test_measured_files_must_exist(tmp_path):
    with pytest.raises(ValueError, match="measures"):
        records.write_record(tmp_path / "a.json", {}, measures=["src/none.py"], root=tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_tables_of_the_pages_are_those_of_their_records():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    assert sum("<!-- table " in page.read_text("utf-8") for page in pages) >= 3
    pages += (ROOT / "docs/results").glob("**/*.md")
    assert [line for page in pages for line in records.fill_tables(page, write=False)] == []
    assert records.fill_sentences(write=False) == []


def test_every_record_says_what_made_it():
    assert [line for line in records.check_records(ROOT) if "older than" not in line] == []
