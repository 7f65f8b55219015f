"""``proxyprox label``: questions at the terminal, answers on disk, exchange with other tools."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from typer.testing import CliRunner

from proxyprox.sklearn import ProxyLogisticRegression
from proxyprox_app.cli import app


@pytest.fixture(autouse=True)
def quick_fit(monkeypatch):
    """Fit roughly: what a fit finds is tested elsewhere."""
    quick = partial(ProxyLogisticRegression, alpha=0.1)
    monkeypatch.setattr("proxyprox.sklearn.ProxyLogisticRegression", quick)


@pytest.fixture
def rows(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2))
    path = tmp_path / "rows.csv"
    lines = ["a,b,note"] + [f"{a:.4f},{b:.4f},{'up' if a > 0 else 'down'}" for a, b in X]
    path.write_text("\n".join(lines) + "\n")
    return path


def ask(path, typed, *options, classes="up,down"):
    command = ["label", str(path), "--classes", classes, *map(str, options)]
    return CliRunner().invoke(app, command, input=typed, prog_name="proxyprox")


def words(done):
    return " ".join(done.output.split())


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


# -- at the terminal ----------------------------------------------------------------------------


def test_answers_are_kept_and_resumed(rows):
    first = ask(rows, "up\n2\n\n", "--budget", "10")
    assert first.exit_code == 0
    assert "note: " in first.output
    assert "stop: \n2 labels (down 1, up 1)" in first.output  # a piped prompt ends its line
    assert "--export labelled.csv" in words(first)
    shown = re.findall(r"Row (\d+), label (\d) of 10", first.output)
    assert [number for _, number in shown] == ["1", "2", "3"]
    second = ask(rows, "1\n" * 20, "--budget", "5")
    assert "2 answers are in" in second.output
    assert "The budget of 5 labels is spent." in second.output
    # A larger budget draws more; the smaller one is still spent.
    ask(rows, "q\n", "--budget", "9")
    again = ask(rows, "1\n", "--budget", "5")
    assert "Row " not in again.output.replace("Rows", "")
    # Rows are counted from 1 for people.
    target = rows.with_name("out.csv")
    ask(rows, "\n", "--export", target)
    source = rows.read_text().splitlines()
    cells = [",".join([row["a"], row["b"], row["note"]]) for row in read(target)]
    assert {source[int(row)] for row, _ in shown[:2]} <= set(cells)
    # Answers for other classes or rows are refused.
    assert "classes: there" in words(ask(rows, "", classes="left,right"))
    rows.write_text(rows.read_text().replace("0", "1"))
    assert "data: there" in words(ask(rows, ""))


@pytest.mark.parametrize(
    ("classes", "typed", "told"),
    [
        ("up,down", "upp\n7\nU\nup\nDOWN\nD\n\n",
         ["'upp' is none", "'7' is none", "'U' is none of them, or more", "(down 2, up 1)"]),
        ("yes,yellow,no", "y\nYES\nno\nQUIT\nno\n", ["'y' is none", "2 labels (no 1, yes 1)"]),
        ("spam,cat", "s\nc\n-\n# odd\nsp\nq\n",
         ["1 spam  2 cat  | u undo  - skip  # comment  q stop: ", "'s' is none",
          "1 label (spam 1; 1 skipped; 1 with a comment)"]),
        ("q,r", "q\nquit\n", ["1 label (q 1)"]),
        ("a,B", "b\n<\na\n\n", ["1 label (a 1)"]),
    ],
)  # fmt: skip
def test_what_is_typed(rows, classes, typed, told):
    done = ask(rows, typed, classes=classes)
    for text in told:
        assert text in done.output


def test_undo_skip_and_comment(rows, tmp_path):
    first = ask(rows, "<\nup\nup\nup\nundo\nback\ndown\nq\n")
    assert "no answer to take back" in first.output
    assert "2 labels (down 1, up 1)" in first.output
    asked = re.findall(r"Row (\d+), label (\d+) of", first.output)
    assert [number for _, number in asked] == ["1", "1", "2", "3", "4", "3", "2", "3"]
    assert asked[5:] == [asked[3], asked[2], asked[3]]
    # In another process, too, and a row that was taken back stays the next one.
    assert "0 labels (none)" in ask(rows, "b\nb\nq\n").output
    target = tmp_path / "out.csv"
    typed = "s\nc a = b, perhaps\nup\nc\n=cmd|x\nskip\nc nothing\nc\n\ndown\n\n"
    done = ask(rows, typed, "--export", target, "--json")
    assert re.findall(r"Row (\d+),", done.stderr)[0] == asked[1][0]
    found = json.loads(done.stdout)
    assert (found["labels"], found["skipped"], found["comments"]) == (2, 2, 2)
    assert found["exported"] == str(target)
    assert "Your comment: a = b, perhaps" in done.stderr
    said = sorted((row["label"], row["skipped"], row["comment"]) for row in read(target))
    assert said == [
        ("", "yes", ""), ("", "yes", "'=cmd|x"), ("down", "", ""), ("up", "", "a = b, perhaps"),
    ]  # fmt: skip


def test_mistakes_are_named_before_the_first_question(rows):
    before, folder = rows.read_bytes(), rows.parent
    (folder / "linked.csv").symlink_to(rows)
    (folder / "there.csv").write_text("a,x\n1,2\n")
    for options, told in (
        (("--classes", "only"), "--classes"),
        (("--show", "title"), "No column --show 'title'; rows.csv has a, b, note."),
        (("--show", "x", "--hide", "y"), "No column --show 'x', --hide 'y'"),
        (("--label", "truth"), "--label"),
        (("--as", "a=colour"), "'colour'"),
        (("--criterion", "best"), "criterion"),
        (("--export", folder / "absent/out.csv"), "folder"),
        (("--export", folder / "there.csv"), "--overwrite"),
        (("--export", folder / "linked.csv", "--overwrite"), "--export"),
        (("--export", folder / "rows.csv.labels.sqlite", "--overwrite"), "--export"),
        (("--answers", folder / "linked.csv"), "cannot be used"),
        (("--import", folder / "there.csv"), "--import"),
    ):
        done = ask(rows, "", *options)
        assert done.exit_code == 2
        assert told in words(done)
        assert "Row " not in done.output
        assert rows.read_bytes() == before


# -- tables as they come, and other tools -------------------------------------------------------


@pytest.fixture
def messy(tmp_path):
    """Return a table with gaps, text, dates, another encoding and decimal commas."""
    things = ("server", "invoice", "login", "avatar", "down", "question")
    lines = [
        f"{i};2026-0{i % 9 + 1}-1{i % 7};{('Köln', 'Rome', '')[i % 3]};{i * 7 % 900},25;"
        f"the {things[i % 6]} of {things[i % 5]} number {i}"
        for i in range(3, 60)
    ]
    path = tmp_path / "messy.csv"
    text = "id;opened;city;amount;text\n1;2026-01-03;Köln;1.200,50;down\n2;;Rome;;\n"
    path.write_bytes((text + "\n".join(lines) + "\n").encode("cp1252"))
    return path


def test_a_messy_table_is_labelled_as_it_comes(messy):
    done = ask(messy, "1\n2\n" * 6 + "q\n", "--batch", "5")
    assert done.exit_code == 0, done.output
    shown = words(done)
    assert "Shown: id, opened, city, amount, text." in shown
    assert "Features: opened (date), city (category), amount (number), text (text)." in shown
    assert "id: another number in every row" in shown
    assert "12 labels (down 6, up 6)" in shown
    assert "The model had expected" in shown
    drops = ("--as", "opened=drop", "--as", "city=drop")
    options = ("--show", "text,id", *drops, "--as", "amount=category")
    done = ask(messy, "q\n", *options)
    assert "Shown: text, id. Features: amount (category), text (text)." in words(done)
    assert "city: " not in done.output
    shown = words(ask(messy, "q\n", "--hide", "id,city", *drops[:2]))
    assert "Shown: opened, amount, text. Features: amount (number), text (text)." in shown


def test_labels_and_a_teacher_in_columns(tmp_path):
    path, target = tmp_path / "rows.csv", tmp_path / "all.csv"
    lines = [f"{i % 13},{('Y', 'no', '')[i % 3]},{('yes', 'no')[i % 2]}" for i in range(60)]
    path.write_text("\n".join(["a,truth,model", *lines]) + "\n")
    assert "--label truth" in words(ask(path, "", classes="yes,no"))
    path.with_name("rows.csv.labels.sqlite").unlink()
    options = ("--label", "truth", "--teacher", "model", "--export", target, "--all-rows")
    shown = words(ask(path, "q\n", *options, classes="yes,no"))
    assert "Shown: a. Features: a (number)." in shown
    assert "40 answers taken from rows.csv." in shown
    assert "another model's answers for 60 of 60 rows" in shown
    assert "40 labels (no 20, yes 20)" in shown
    table = read(target)
    assert list(table[0]) == ["a", "truth", "model", "label"]
    assert [row["label"] for row in table[:4]] == ["yes", "no", "", "yes"]


def test_an_export_comes_back(messy, tmp_path):
    target, other = tmp_path / "out.csv", tmp_path / "other.sqlite"
    options = ("--export", target, "--answers", f"{other}.first", "--json")
    first = ask(messy, "1\nc odd\n2\ns\n1\nq\n", *options)
    again = ask(messy, "q\n", "--import", target, "--answers", other, "--json")
    assert again.exit_code == 0, again.output
    assert "4 answers taken from" in again.stderr
    keys = ("labels", "classes", "skipped", "comments")
    found, back = json.loads(first.stdout), json.loads(again.stdout)
    assert [found[key] for key in keys] == [back[key] for key in keys] == [
        3, {"up": 2, "down": 1}, 1, 1
    ]  # fmt: skip
    # Labels that are given cost nothing of the budget, and are not taken twice.
    more = ask(messy, "1\n2\n", "--import", target, "--answers", other, "--budget", "2")
    assert "0 answers taken" in more.output
    assert "5 labels" in more.output


# -- one file of answers, two processes, and kills ---------------------------------------------

AT_THE_PROMPT = """
import signal
# A suite that is started in the background hands on that signals are ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
from proxyprox_app.cli import main
main()
"""


@pytest.fixture
def asking(rows):
    """Yield a process that has two answers and waits for the third."""
    command = ["label", str(rows), "--classes", "up,down", "--show", "note"]
    process = subprocess.Popen(
        [sys.executable, "-c", AT_THE_PROMPT, *command],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(b"up\ndown\n")
    process.stdin.flush()
    seen = b""
    while b"label 3 of" not in seen:
        part = process.stderr.read1()
        assert part, seen
        seen += part
    yield process
    process.kill()
    process.communicate()


@pytest.mark.skipif(os.name == "nt", reason="needs the signals of POSIX")
@pytest.mark.parametrize("name", ["SIGINT", "SIGKILL"])
def test_a_second_process_is_refused_and_an_ended_one_loses_nothing(rows, asking, name):
    second = ask(rows, "up\n\n", "--seed", "3")
    assert second.exit_code == 2
    assert "is being written by" in words(second)
    assert "Row " not in second.output
    asking.send_signal(getattr(signal, name))
    _, err = asking.communicate()
    assert asking.returncode == (130 if name == "SIGINT" else -getattr(signal, name))
    assert (b"Interrupted" in err) == (name != "SIGKILL")
    done = ask(rows, "up\n\n", "--show", "note")
    assert "2 answers are in" in done.output
    assert "3 labels (down 1, up 2)" in done.output
    there = sorted(path.name for path in rows.parent.iterdir())
    assert there == ["rows.csv", "rows.csv.labels.sqlite"]
