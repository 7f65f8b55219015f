"""``proxyprox label``: questions at the terminal, answers on disk."""

from __future__ import annotations

import csv
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from proxyprox.cli import app


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    path = tmp_path / "rows.csv"
    lines = ["a,b,note"] + [f"{a:.4f},{b:.4f},{'up' if a > 0 else 'down'}" for a, b in X]
    path.write_text("\n".join(lines) + "\n")
    return path


def label(path: Path, typed: str, *options: str) -> Any:
    command = ["label", str(path), "--classes", "up,down", "--show", "note", *options]
    return CliRunner().invoke(app, command, input=typed, prog_name="proxyprox")


def kept(path: Path) -> list[tuple[int, str]]:
    """Return rows and labels as anybody with SQLite reads them."""
    with closing(sqlite3.connect(path.with_name(f"{path.name}.labels.sqlite"))) as database:
        found = database.execute("SELECT row, label FROM answers ORDER BY number").fetchall()
    return [(row, json.loads(text)) for row, text in found]


def test_answers_are_kept_and_gone_on_with(rows: Path) -> None:
    first = label(rows, "up\n2\n\n", "--budget", "10")
    assert first.exit_code == 0
    assert "note: " in first.output
    assert "2 labels (down 1, up 1)" in first.output
    assert [label for _, label in kept(rows)] == ["up", "down"]
    second = label(rows, "1\n" * 20, "--budget", "5")
    assert "2 answers are in" in second.output
    assert "The budget of 5 labels is spent." in second.output


def test_json_and_the_end_of_the_input(rows: Path, tmp_path: Path) -> None:
    answers = tmp_path / "mine.jsonl"
    done = label(rows, "1\n2\n1\n", "--answers", str(answers), "--json")
    assert done.exit_code == 0
    assert done.stdout.startswith("{")
    found = json.loads(done.stdout)
    assert found["labels"] == 3
    assert found["classes"] == {"down": 1, "up": 2}
    assert answers.exists()


def test_a_slip_of_the_finger_is_asked_again(rows: Path) -> None:
    done = label(rows, "upp\n7\nup\n\n")
    assert "'upp' is none of them" in done.output
    assert "'7' is none of them" in done.output
    assert "1 labels (up 1)" in done.output


def test_the_last_answer_can_be_changed(rows: Path) -> None:
    label(rows, "b\nup\ndown\nb\nup\n\n")
    done = label(rows, "b\ndown\n\n")
    assert "2 labels (down 1, up 1)" in done.output


def test_numbers_on_the_screen_are_those_in_the_file(rows: Path) -> None:
    done = label(rows, "up\ndown\nb\nup\n\n", "--budget", "10")
    shown = re.findall(r"Row (\d+), label (\d+) of 10", done.output)
    written = [str(row) for row, _ in kept(rows)]
    assert [row for row, _ in shown[:2]] == written[:2]
    assert [number for _, number in shown] == ["1", "2", "3", "2", "3"]
    assert shown[3][0] == written[2] == written[1]


def test_beginnings_and_any_case_will_do(rows: Path) -> None:
    done = label(rows, "u\nDOWN\nD\n\n")
    assert "Enter alone stops" in done.output.split("Row ")[0]
    assert "3 labels (down 2, up 1)" in done.output
    unclear = label(rows, "y\nYES\nno\n\n", "--classes", "yes,yellow,no", "--answers", f"{rows}.2")
    assert "'y' is none of them, or more than one" in unclear.output
    assert "2 labels (no 1, yes 1)" in unclear.output


def test_labelled_rows_come_out_as_a_table(rows: Path, tmp_path: Path) -> None:
    assert "--export labelled.csv" in label(rows, "up\ndown\n\n").output.replace("\n", " ")
    target = tmp_path / "labelled.csv"
    done = label(rows, "\n", "--export", str(target), "--json")
    assert json.loads(done.stdout)["exported"] == str(target)
    table = list(csv.DictReader(target.read_text().splitlines()))
    assert list(table[0]) == ["a", "b", "note", "label"]
    assert sorted(row["label"] for row in table) == ["down", "up"]
    source = rows.read_text().splitlines()
    assert all(f"{row['a']},{row['b']},{row['note']}" in source for row in table)
    numbers = tmp_path / "numbers.npz"
    np.savez(numbers, X=np.arange(1.0, 41.0).reshape(20, 2), y=np.zeros(20))
    options = ["label", str(numbers), "--classes", "x,y", "--export", str(target)]
    assert CliRunner().invoke(app, options, input="x\n\n").exit_code == 2
    done = CliRunner().invoke(app, [*options, "--overwrite"], input="x\n\n")
    assert done.exit_code == 0
    assert CliRunner().invoke(app, options, input="\n").exit_code == 0  # its own, of numbers
    assert len(target.read_text().splitlines()) == 2
    assert label(rows, "\n", "--export", str(tmp_path)).exit_code == 2


@pytest.mark.parametrize("more", [(), ("--overwrite",)])
def test_an_export_never_replaces_the_rows_or_the_answers(rows: Path, more: Any) -> None:
    before = rows.read_bytes()
    linked = rows.parent / "linked.csv"
    linked.symlink_to(rows)
    answers = rows.parent / "rows.csv.labels.sqlite"
    for target in (rows, rows.parent / "." / "rows.csv", linked, answers):
        done = label(rows, "up\n\n", "--export", str(target), *more)
        assert done.exit_code == 2
        assert "--export would replace" in " ".join(done.output.split())
        assert "Row " not in done.output
    done = label(rows, "up\n\n", "--answers", str(linked))
    assert "--answers must not be" in " ".join(done.output.split())
    assert rows.read_bytes() == before
    assert not answers.exists()


def test_an_export_replaces_only_its_own_earlier_table(rows: Path, tmp_path: Path) -> None:
    target = tmp_path / "labelled.csv"
    for typed in ("up\ndown\n\n", "b\nup\nup\n\n"):
        assert label(rows, typed, "--export", str(target)).exit_code == 0
    assert len(target.read_text().splitlines()) == 4
    # The same columns, but rows labelled elsewhere.
    mine = "a,b,note,label\n1,2,by hand,up\n"
    for content in (mine, "notes of mine\n", "\x00"):
        target.write_text(content)
        done = label(rows, "up\n\n", "--export", str(target))
        assert done.exit_code == 2
        assert "--overwrite" in done.output
        assert "Row " not in done.output
        assert target.read_text() == content
    assert label(rows, "\n", "--export", str(target), "--overwrite").exit_code == 0
    assert len(target.read_text().splitlines()) == 4


def test_an_export_into_no_folder_is_refused_before_the_first_question(rows: Path) -> None:
    done = label(rows, "up\n\n", "--export", str(rows.parent / "absent" / "out.csv"))
    assert done.exit_code == 2
    assert "does not exist" in " ".join(done.output.split())
    assert "Row " not in done.output


def test_q_stops_unless_a_class_is_called_so(rows: Path) -> None:
    for word in ("q", "QUIT"):
        done = label(rows, f"up\n{word}\nup\n", "--answers", f"{rows}.{word}")
        assert "1 labels (up 1)" in done.output
    own = label(rows, "q\nquit\n", "--classes", "q,r", "--answers", f"{rows}.own")
    assert "1 labels (q 1)" in own.output
    assert "quit or Enter alone stops" in " ".join(own.output.split())


def test_a_class_called_b_leaves_a_way_back(rows: Path) -> None:
    done = label(rows, "b\nback\na\n\n", "--classes", "a,B")
    assert "back answers the last question again" in " ".join(done.output.split())
    assert "1 labels (a 1)" in done.output


def test_standard_input_and_strange_endings_are_named(tmp_path: Path) -> None:
    options = ["label", "-", "--classes", "x,y"]
    for more in ([], ["--show", "text"]):
        done = CliRunner().invoke(app, [*options, *more], input="")
        assert done.exit_code == 2
        assert "needs the rows in a file" in " ".join(done.output.split())
    (tmp_path / "rows.dat").write_text("1\n")
    done = CliRunner().invoke(app, ["label", str(tmp_path / "rows.dat"), "--classes", "x,y"])
    assert "format=" not in done.output


def test_answers_for_other_classes_or_rows_are_refused(rows: Path) -> None:
    label(rows, "\n", "--classes", "typo,down")  # no answer: nothing to lose
    label(rows, "up\n\n")
    other = label(rows, "", "--classes", "left,right")
    assert other.exit_code == 2
    assert "classes: there" in " ".join(other.output.split())
    rows.write_text(rows.read_text().replace("0", "1"))
    assert "data: there" in " ".join(label(rows, "").output.split())


def test_rows_of_text_alone_are_learned_from_their_words(tmp_path: Path) -> None:
    path = tmp_path / "mail.csv"
    path.write_text(
        "text\n" + "".join(f"{'win money' if i % 2 else 'lunch'} {i}\n" for i in range(60))
    )
    options = ["label", str(path), "--classes", "spam,ham", "--show", "text", "--budget", "12"]
    done = CliRunner().invoke(app, options, input="1\n2\n" * 6)
    assert "12 labels" in done.output
    plain = CliRunner().invoke(app, ["label", str(path), "--classes", "spam,ham"], input="")
    assert "--show" in plain.output
    path.write_text("text\n" + "!\n" * 9)
    assert "neither numbers nor words" in CliRunner().invoke(app, options, input="").output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--classes", "only"), "two different classes"),
        (("--show", "title"), "names the column 'title'"),
        (("--criterion", "best"), "criterion must be"),
    ],
)
def test_mistakes_are_named(rows: Path, options: tuple[str, ...], words: str) -> None:
    done = label(rows, "", *options)
    assert done.exit_code == 2
    assert words in " ".join(done.output.split())


def test_features_are_shown_without_a_text_column(tmp_path: Path) -> None:
    path = tmp_path / "numbers.csv"
    path.write_text("a,b\n" + "".join(f"{i},{i % 3}\n" for i in range(1, 9)))
    done = CliRunner().invoke(app, ["label", str(path), "--classes", "x,y"], input="\n")
    assert "a = " in done.output


def test_help(invoke: Any) -> None:
    result = invoke("label", "--help")
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "Examples" in result.stdout


def test_a_spent_budget_asks_nothing_though_a_larger_one_drew_more(rows: Path) -> None:
    label(rows, "1\n2\n" * 10, "--budget", "20")
    label(rows, "q\n", "--budget", "25")
    done = label(rows, "1\n", "--budget", "20")
    assert "Row " not in done.output.replace("Rows", "")
    assert "The budget of 20 labels is spent." in done.output


def _mail(path: Path, header: str, cells: Any) -> list[str]:
    lines = [f"{cells(i)},{'win money' if i % 2 else 'lunch'} {i}" for i in range(40)]
    path.write_text("\n".join([header, *lines]) + "\n")
    return ["label", str(path), "--classes", "spam,ham", "--show", "text"]


def test_words_are_learned_from_beside_a_row_number(tmp_path: Path) -> None:
    options = _mail(tmp_path / "mail.csv", "id,text", lambda i: 1000 + 7 * i)
    done = CliRunner().invoke(app, options, input="1\n\n")
    first = " ".join(done.output.split("Row ")[0].split())
    assert "Features: the words of text; left out: id, which only numbers the rows." in first
    # Answers of a time when other columns were learned from are gone on with.
    done = CliRunner().invoke(app, [*options, "--show", "text"], input="2\n\n")
    assert "2 labels (ham 1, spam 1)" in done.output


def test_columns_that_are_features_are_named(tmp_path: Path) -> None:
    options = _mail(tmp_path / "mail.csv", "id,length,text", lambda i: f"{i},{i % 5}")
    first = " ".join(CliRunner().invoke(app, options, input="\n").output.split())
    assert "Features: id, length. The words of text are shown but not used" in first
    options = _mail(tmp_path / "size.csv", "length,size,text", lambda i: f"{i % 5},S")
    refused = CliRunner().invoke(app, options, input="\n")
    assert refused.exit_code == 2
    assert "list the column in --show, too" in " ".join(refused.output.split())
    assert "'features'" not in refused.output
    done = CliRunner().invoke(app, [*options[:-1], "text,size"], input="\n")
    assert "Features: length." in done.output
