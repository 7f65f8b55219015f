"""``proxyprox label``: questions at the terminal, answers on disk."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from proxyprox.sklearn import ProxyLogisticRegression
from proxyprox_app.cli import app


@pytest.fixture(autouse=True)
def quick_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fit roughly: what a fit finds is tested elsewhere."""
    quick = partial(ProxyLogisticRegression, alpha=0.1, n_steps=3)
    monkeypatch.setattr("proxyprox.sklearn.ProxyLogisticRegression", quick)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    path = tmp_path / "rows.csv"
    lines = ["a,b,note"] + [f"{a:.4f},{b:.4f},{'up' if a > 0 else 'down'}" for a, b in X]
    path.write_text("\n".join(lines) + "\n")
    return path


def label(path: Path, typed: str, *options: str) -> Any:
    command = ["label", str(path), "--classes", "up,down", "--show", "note", "--features", "a,b"]
    command += options
    return CliRunner().invoke(app, command, input=typed, prog_name="proxyprox")


def kept(path: Path) -> list[tuple[int, str]]:
    """Return rows and labels as anybody with SQLite reads them."""
    with closing(sqlite3.connect(path.with_name(f"{path.name}.labels.sqlite"))) as database:
        entries = [json.loads(text) for (text,) in database.execute("SELECT content FROM events")]
    return [(entry["row"], entry["label"]) for entry in entries if "row" in entry]


def test_answers_are_kept_and_resumed(rows: Path) -> None:
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
    assert "1 label (up 1)" in done.output


def test_answers_are_taken_back_one_after_the_other(rows: Path) -> None:
    first = label(rows, "<\nup\nup\nup\nundo\nback\ndown\nq\n")
    assert "no answer to take back" in first.output
    assert "2 labels (down 1, up 1)" in first.output
    asked = re.findall(r"Row (\d+), label (\d+) of", first.output)
    assert [number for _, number in asked] == ["1", "1", "2", "3", "4", "3", "2", "3"]
    assert asked[5:] == [asked[3], asked[2], asked[3]]
    # In another process, too, and a row that was taken back stays the next one.
    second = label(rows, "b\nb\nq\n")
    assert "0 labels (none)" in second.output
    assert re.findall(r"Row (\d+),", label(rows, "q\n").output) == [asked[1][0]]


def test_rows_are_skipped_and_commented(rows: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    typed = "s\nc a = b, perhaps\nup\nc\n=cmd|x\nskip\nc nothing\nc\n\ndown\n\n"
    done = label(rows, typed, "--export", str(target), "--json")
    found = json.loads(done.stdout)
    assert (found["labels"], found["skipped"], found["comments"]) == (2, 2, 2)
    assert "Your comment: a = b, perhaps" in done.stderr
    table = list(csv.DictReader(target.read_text().splitlines()))
    said = sorted((row["label"], row["skipped"], row["comment"]) for row in table)
    assert said == [
        ("", "yes", ""),
        ("", "yes", "'=cmd|x"),
        ("down", "", ""),
        ("up", "", "a = b, perhaps"),
    ]
    again = label(rows, "q\n", "--json")
    assert json.loads(again.stdout)["comments"] == 2


def test_signs_that_may_mean_a_class_are_not_guessed(rows: Path) -> None:
    done = label(rows, "s\nc\n-\n# odd\nsp\nq\n", "--classes", "spam,cat")
    assert "1 spam  2 cat  | u undo  - skip  # comment  q stop: " in done.output
    assert "'s' is none of them, or more than one" in done.output
    assert "1 label (spam 1; 1 skipped; 1 with a comment)" in done.output


def test_rows_are_counted_from_one(rows: Path) -> None:
    done = label(rows, "up\ndown\n\n", "--budget", "10")
    shown = re.findall(r"Row (\d+), label (\d+) of 10", done.output)
    written = [str(row + 1) for row, _ in kept(rows)]  # people count from 1
    assert [row for row, _ in shown[:2]] == written
    assert [number for _, number in shown] == ["1", "2", "3"]


def test_beginnings_and_any_case_will_do(rows: Path) -> None:
    done = label(rows, "U\nup\nDOWN\nD\n\n")
    assert "'U' is none of them, or more than one" in done.output  # undo, too
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
    assert list(table[0]) == ["a", "b", "note", "label", "skipped", "comment"]
    assert sorted(row["label"] for row in table) == ["down", "up"]
    source = rows.read_text().splitlines()
    assert all(f"{row['a']},{row['b']},{row['note']}" in source for row in table)
    numbers = tmp_path / "numbers.npz"
    np.savez(numbers, X=np.arange(1.0, 41.0).reshape(20, 2), y=np.zeros(20))
    options = ["label", str(numbers), "--classes", "x,y", "--export", str(target)]
    assert CliRunner().invoke(app, options, input="x\n\n").exit_code == 2
    done = CliRunner().invoke(app, [*options, "--overwrite"], input="x\n\n")
    assert done.exit_code == 0
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
    assert "cannot be used" in " ".join(done.output.split())
    assert rows.read_bytes() == before
    assert not answers.exists()


def test_an_export_replaces_a_file_only_if_told_to(rows: Path, tmp_path: Path) -> None:
    target = tmp_path / "labelled.csv"
    assert label(rows, "up\ndown\n\n", "--export", str(target)).exit_code == 0
    before = target.read_text()
    assert len(before.splitlines()) == 3
    done = label(rows, "up\n\n", "--export", str(target))
    assert done.exit_code == 2
    assert "--overwrite" in done.output
    assert "Row " not in done.output
    assert target.read_text() == before
    assert label(rows, "up\n\n", "--export", str(target), "--overwrite").exit_code == 0
    assert len(target.read_text().splitlines()) == 4


def test_every_row_is_exported_for_a_fit(rows: Path, tmp_path: Path) -> None:
    target = tmp_path / "all.csv"
    done = label(rows, "up\ndown\n\n", "--export", str(target), "--all-rows")
    assert done.exit_code == 0, done.output
    lines = target.read_text().splitlines()
    assert len(lines) == len(rows.read_text().splitlines())
    assert lines[0].endswith(",label")
    assert sum(line.endswith((",up", ",down")) for line in lines) == 2


def test_a_column_of_the_classes_is_taken_for_labels_if_told_to(tmp_path: Path) -> None:
    file = tmp_path / "half.csv"
    cells = ["y", "N", "", "", "yes", "no", "", ""]
    file.write_text("\n".join(["x,old", *(f"{i},{cell}" for i, cell in enumerate(cells))]) + "\n")
    words = ["label", str(file), "--classes", "yes,no"]
    done = CliRunner().invoke(app, words, input="\n")
    assert "--label old" in " ".join(done.output.split())
    file.with_name("half.csv.labels.sqlite").unlink()
    done = CliRunner().invoke(app, [*words, "--label", "old"], input="\n")
    assert done.exit_code == 0, done.output
    assert "4 " in done.output


def test_an_export_into_no_folder_is_refused_before_the_first_question(rows: Path) -> None:
    done = label(rows, "up\n\n", "--export", str(rows.parent / "absent" / "out.csv"))
    assert done.exit_code == 2
    assert "folder that exists" in " ".join(done.output.split())
    assert "Row " not in done.output


def test_q_stops_unless_a_class_is_called_so(rows: Path) -> None:
    for word in ("q", "QUIT"):
        done = label(rows, f"up\n{word}\nup\n", "--answers", f"{rows}.{word}")
        assert "1 label (up 1)" in done.output
    own = label(rows, "q\nquit\n", "--classes", "q,r", "--answers", f"{rows}.own")
    assert "1 label (q 1)" in own.output


def test_a_class_called_b_leaves_a_way_back(rows: Path) -> None:
    done = label(rows, "b\n<\na\n\n", "--classes", "a,B")
    assert "1 label (a 1)" in done.output


def test_a_piped_prompt_ends_its_line_before_the_summary(rows: Path) -> None:
    done = label(rows, "up\nq\n")
    assert "q stop: \n1 label (up 1)" in done.output


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


MESSY = """\
id;opened;city;amount;text
1;2026-01-03;Köln;1.200,50;the server is down again
2;;Rome;;
3;2026-02-11;;300,00;"a question; about the invoice"
"""


@pytest.fixture
def messy(tmp_path: Path) -> Path:
    """Return a table with gaps, text, dates, another encoding and decimal commas."""
    words = ("server", "invoice", "login", "avatar", "down", "question")
    lines = [
        f"{i};2026-0{i % 9 + 1}-1{i % 7};{('Köln', 'Rome', '')[i % 3]};{i * 7 % 900},25;"
        f"the {words[i % 6]} of {words[i % 5]} number {i}"
        for i in range(4, 60)
    ]
    path = tmp_path / "messy.csv"
    path.write_bytes((MESSY + "\n".join(lines) + "\n").encode("cp1252"))
    return path


def ask(path: Path, typed: str, *options: str) -> Any:
    command = ["label", str(path), "--classes", "urgent,normal", *options]
    return CliRunner().invoke(app, command, input=typed, prog_name="proxyprox")


def test_a_messy_table_is_labelled_as_it_comes(messy: Path) -> None:
    done = ask(messy, "1\n2\n" * 6 + "q\n", "--batch", "5")
    assert done.exit_code == 0, done.output
    shown = " ".join(done.output.split())
    assert "Shown: id, opened, city, amount, text." in shown
    assert "Features: opened (date), city (category), amount (number), text (text)." in shown
    assert "id: another number in every row" in shown
    assert "12 labels (normal 6, urgent 6)" in shown
    assert "The model had expected" in shown


def test_excel_and_parquet(messy: Path, tmp_path: Path) -> None:
    from proxyprox_app.study.tables import read_table

    frame = read_table(messy)
    frame.to_excel(tmp_path / "rows.xlsx", index=False)
    frame.to_parquet(tmp_path / "rows.parquet")
    for name in ("rows.xlsx", "rows.parquet"):
        done = ask(tmp_path / name, "1\n2\nq\n")
        assert "city: " in done.output
        assert "2 labels (normal 1, urgent 1)" in done.output


def test_every_column_is_shown_a_feature_both_or_neither(messy: Path) -> None:
    options = ("--show", "text,id", "--features", "text,amount", "--as", "amount=category")
    done = ask(messy, "q\n", *options)
    shown = " ".join(done.output.split())
    assert "Shown: text, id. Features: text (text), amount (category)." in shown
    assert "city: " not in done.output
    done = ask(messy, "q\n", "--hide", "id,city", "--ignore", "opened")
    shown = " ".join(done.output.split())
    assert "Shown: opened, amount, text. Features: amount (number), text (text)." in shown


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--classes", "only"), "two different classes"),
        (("--show", "title"), "No column --show 'title'; rows.csv has a, b, note."),
        (("--ignore", "x", "--hide", "y"), "No column --ignore 'x', --hide 'y'"),
        (("--label", "truth"), "--label names 'truth'"),
        (("--as", "a=colour"), "not 'colour'"),
        (("--as", "a"), "--as"),
        (("--export", "labels.xls"), ".csv or .json"),
        (("--criterion", "best"), "criterion must be"),
    ],
)
def test_mistakes_are_named(rows: Path, options: tuple[str, ...], words: str) -> None:
    done = label(rows, "", *options)
    assert done.exit_code == 2
    assert words in " ".join(done.output.split())


def test_numbers_without_names_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "numbers.npz"
    np.savez(path, X=np.arange(1.0, 41.0).reshape(20, 2))
    done = CliRunner().invoke(app, ["label", str(path), "--classes", "x,y"], input="\n")
    assert "x1: " in done.output
    options = ["label", str(path), "--classes", "x,y", "--show", "x1"]
    assert "no columns for --show" in " ".join(CliRunner().invoke(app, options).output.split())


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


# -- exchange with other tools ------------------------------------------------------------------


def test_an_export_comes_back(messy: Path, tmp_path: Path) -> None:
    typed = "1\nc odd\n2\ns\n1\nq\n"
    for ending in ("csv", "json"):
        target, other = tmp_path / f"out.{ending}", tmp_path / f"{ending}.sqlite"
        first = ask(messy, typed, "--export", str(target), "--answers", f"{other}.first", "--json")
        again = ask(messy, "q\n", "--import", str(target), "--answers", str(other), "--json")
        assert again.exit_code == 0, again.output
        assert "4 answers taken from" in again.stderr
        keys = ("labels", "classes", "skipped", "comments")
        found, back = json.loads(first.stdout), json.loads(again.stdout)
        assert [found[key] for key in keys] == [back[key] for key in keys] == [
            3, {"urgent": 2, "normal": 1}, 1, 1
        ]  # fmt: skip
        # Labels that are given cost nothing of the budget, and are not taken twice.
        more = ask(
            messy, "1\n2\n", "--import", str(target), "--answers", str(other), "--budget", "2"
        )
        assert "0 answers taken" in more.output
        assert "5 labels" in more.output


def tasks(*answers: Any) -> list[dict[str, Any]]:
    """Return Label Studio's tasks: (choice or None, cancelled, prediction)."""

    def result(choice: str) -> dict[str, Any]:
        value = {"choices": [choice]}
        return {"from_name": "kind", "to_name": "text", "type": "choices", "value": value}

    found = []
    for i, (choice, cancelled, prediction) in enumerate(answers):
        task: dict[str, Any] = {"id": i, "data": {"text": f"text {i % 7} of {i}", "n": i % 5}}
        if choice or cancelled:
            said = [result(choice)] if choice else []
            task["annotations"] = [{"result": said, "was_cancelled": cancelled}]
        if prediction:
            task["predictions"] = [{"model_version": "m", "result": [result(prediction)]}]
        found.append(task)
    return found


def test_tasks_of_label_studio_are_rows(tmp_path: Path) -> None:
    path, target = tmp_path / "tasks.json", tmp_path / "out.json"
    first = [("Urgent", False, "urgent"), ("normal", False, "normal"), (None, True, "urgent")]
    rest = [(None, False, ("urgent", "normal")[i % 2]) for i in range(50)]
    path.write_text(json.dumps(tasks(*first, *rest)))
    done = ask(path, "1\n2\nq\n", "--export", str(target), "--json")
    assert done.exit_code == 0, done.output
    assert "3 answers taken from tasks.json." in done.stderr
    assert "another model's answers for 53 of 53 rows" in done.stderr
    found = json.loads(done.stdout)
    assert (found["labels"], found["skipped"]) == (4, 1)
    written = json.loads(target.read_text())
    assert len(written) == 53
    assert written[0]["annotations"][0]["result"][0]["value"] == {"choices": ["urgent"]}
    assert written[2]["annotations"][0]["was_cancelled"]
    assert 0.5 <= written[52]["predictions"][0]["score"] <= 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not JSON"),
        ("{}", "not Label Studio's JSON"),
        ('[{"text": "flat"}]', "not Label Studio's JSON"),
        (json.dumps(tasks(("other", False, None), ("Urgent", False, None))), "'other' (1)"),
    ],
)
def test_wrong_json_is_named(messy: Path, tmp_path: Path, content: str, words: str) -> None:
    source = tmp_path / "tasks.json"
    source.write_text(content)
    done = ask(messy, "q\n", "--import", str(source))
    assert done.exit_code == 2
    assert words in " ".join(done.output.split())
    assert "Row " not in done.output.replace("Rows", "")


def test_labels_and_a_teacher_in_columns(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    lines = [f"{i % 13},{('up', 'down', '')[i % 3]},{('up', 'down')[i % 2]}" for i in range(60)]
    path.write_text("\n".join(["a,truth,model", *lines]) + "\n")
    command = ["label", str(path), "--classes", "up,down", "--label", "truth", "--teacher", "model"]
    done = CliRunner().invoke(app, command, input="q\n")
    shown = " ".join(done.output.split())
    assert "Shown: a. Features: a (number)." in shown
    assert "40 answers taken from rows.csv." in shown
    assert "another model's answers for 60 of 60 rows" in shown
    assert "40 labels (down 20, up 20)" in shown


# -- one file of answers, two processes, and kills ---------------------------------------------

AT_THE_PROMPT = """
import signal
# A suite that is started in the background hands on that signals are ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from proxyprox_app.cli import main
main()
"""


@pytest.fixture
def asking(rows: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process that has two answers and waits for the third."""
    command = ["label", str(rows), "--classes", "up,down", "--show", "note"]
    process = subprocess.Popen(
        [sys.executable, "-c", AT_THE_PROMPT, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(b"up\ndown\n")
    process.stdin.flush()
    seen = b""
    while b"label 3 of" not in seen:
        part = process.stderr.read1()  # type: ignore[attr-defined]
        assert part, seen
        seen += part
    yield process
    process.kill()
    process.communicate()


@pytest.mark.skipif(os.name == "nt", reason="needs the signals of POSIX")
@pytest.mark.parametrize("name", ["SIGKILL", "SIGINT"])
def test_a_second_process_is_refused_and_an_ended_one_loses_nothing(
    rows: Path, asking: subprocess.Popen[bytes], name: str
) -> None:
    for more in ((), ("--seed", "3"), ("--classes", "left,right")):
        second = label(rows, "up\n\n", *more)
        assert second.exit_code == 2
        assert "is being written by" in " ".join(second.output.split())
        assert "Row " not in second.output
    asking.send_signal(getattr(signal, name))
    _, err = asking.communicate()
    assert asking.returncode == (130 if name == "SIGINT" else -getattr(signal, name))
    assert (b"Interrupted" in err) == (name != "SIGKILL")
    done = label(rows, "up\n\n")
    assert "2 answers are in" in done.output
    assert "3 labels (down 1, up 2)" in done.output
    assert sorted(path.name for path in rows.parent.iterdir()) == [
        "rows.csv",
        "rows.csv.labels.sqlite",
    ]


@pytest.mark.skipif(os.name == "nt", reason="needs the permissions of POSIX")
def test_the_file_of_answers_keeps_its_permissions_and_links(rows: Path) -> None:
    previous = os.umask(0o027)
    try:
        label(rows, "up\n\n", "--answers", str(rows.parent / "new"))
    finally:
        os.umask(previous)
    assert (rows.parent / "new").stat().st_mode & 0o777 == 0o640
    private, linked = rows.parent / "private", rows.parent / "linked"
    linked.symlink_to(private)
    for count in (1, 2):
        done = label(rows, "up\n\n", "--answers", str(linked))
        assert f"{count} label" in done.output
        private.chmod(0o600)
    assert linked.is_symlink()
    assert private.stat().st_mode & 0o777 == 0o600


def test_answers_of_version_0_1_are_refused_with_what_to_do(rows: Path) -> None:
    old = rows.parent / "rows.csv.labels.jsonl"
    content = (
        '{"about": {"rows": 60}}\n{"draw": [3], "weights": [1.0]}\n{"row": 3, "label": "up"}\n'
    )
    old.write_text(content)
    done = label(rows, "up\n\n")
    assert done.exit_code == 2
    assert "version 0.1, which this version cannot read: label again" in " ".join(
        done.output.split()
    )
    assert "Row " not in done.output
    assert old.read_text() == content
    again = label(rows, "up\n\n", "--answers", str(rows.parent / "rows.csv.labels.sqlite"))
    assert again.exit_code == 0
    assert "1 answers are in" in label(rows, "\n").output


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (
            "UPDATE events SET content = replace(content, 'up', 'down') WHERE number = 4",
            "was changed",
        ),
        ("UPDATE events SET content = x'ff' WHERE number = 3", "was changed"),
        ("DELETE FROM events WHERE number = 2", "was changed"),
        ("DELETE FROM events WHERE number = 1", "was changed"),
        ("DELETE FROM events WHERE number = 4", "damaged"),
        ("DELETE FROM head", "damaged"),
        ("ALTER TABLE events RENAME TO others", "no journal of labels"),
    ],
)
def test_every_stored_entry_is_validated(rows: Path, statement: str, words: str) -> None:
    label(rows, "up\nup\n\n")
    with closing(sqlite3.connect(f"{rows}.labels.sqlite")) as database:
        database.execute(statement)
        database.commit()
    done = label(rows, "up\n\n")
    assert done.exit_code == 2
    shown = " ".join(done.output.split())
    assert words in shown
    assert "rows.csv.labels.sqlite" in shown


# -- what a stranger's file may do --------------------------------------------------------------

HOSTILE = "\x1b[31m\x1b]0;owned\x07\x9b2J\u202e\u2066[red][link=x]\x7f"
ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def test_control_characters_and_markup_are_shown_not_obeyed(tmp_path: Path) -> None:
    path = tmp_path / f"ro{HOSTILE.replace('/', '')}ws.csv"
    path.write_text(
        f"a{HOSTILE},note{HOSTILE}\n" + "".join(f"{i},text{HOSTILE} {i}\n" for i in range(1, 30)),
        encoding="utf-8",
    )
    classes = f"up{HOSTILE},down"
    for options, typed in (
        (("--show", f"note{HOSTILE}"), f"up{HOSTILE}\ndown\nno{HOSTILE}\n\n"),
        (("--show", f"absent{HOSTILE}"), ""),
        ((), ""),
    ):
        command = ["label", str(path), "--classes", classes, *options]
        done = CliRunner().invoke(app, command, input=typed, env={"COLUMNS": "1000"})
        assert not ACTING.search(done.output)
        assert "\\x1b[31m\\x1b]0;owned\\x07\\x9b2J\\u202e\\u2066[red][link=x]" in done.output
    assert "should not happen" not in done.output


def test_an_export_holds_no_formulas(tmp_path: Path) -> None:
    path, target = tmp_path / "rows.csv", tmp_path / "out.csv"
    cells = ["=1+1", "@SUM(A1)", "+cmd|x", "-2+3", "\t=1", "-1.5", "+2e3", "plain", "'quoted"]
    lines = [["=head", "b"], *([cell, str(i)] for i, cell in enumerate(cells))]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(lines)
    command = ["label", str(path), "--classes", "=up,-1", "--show", "=head"]
    options = [*command, "--export", str(target)]
    typed = "1\n2\n" * 4 + "1\n"
    assert CliRunner().invoke(app, options, input=typed).exit_code == 0
    with target.open(newline="") as file:
        head, *table = csv.reader(file)
    assert head == ["'=head", "b", "label", "skipped", "comment"]
    safe = ["'=1+1", "'@SUM(A1)", "'+cmd|x", "'-2+3", "'\t=1", "-1.5", "+2e3", "plain", "'quoted"]
    assert [row[0] for row in table] == safe
    assert {row[2] for row in table} == {"'=up", "-1"}


@pytest.mark.skipif(os.name == "nt", reason="needs resource")
def test_a_full_disk_leaves_the_earlier_export(rows: Path, tmp_path: Path) -> None:
    import resource

    target = tmp_path / "out.csv"
    label(rows, "up\ndown\n\n", "--export", str(target))
    before = target.read_bytes()
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Python ignores the signal that comes with it; the write fails as on a full disk.
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, limit[1]))
    try:
        done = label(rows, "\n", "--export", str(target), "--overwrite")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert done.exit_code != 0
    assert target.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "out.csv",
        "rows.csv",
        "rows.csv.labels.sqlite",
    ]
