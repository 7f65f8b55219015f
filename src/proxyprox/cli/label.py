"""``proxyprox label``: buy labels from whoever sits at the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proxyprox.cli.console import INTERRUPTED, CommandError, Json, examples, guarded

if TYPE_CHECKING:
    from proxyprox.cli.labelling import Questions
    from proxyprox.sklearn import LabelBudget

EPILOG = examples(
    "proxyprox label mail.csv --classes spam,ham --show text --budget 200",
    "proxyprox label rows.parquet --classes 0,1,2 --criterion uncertainty",
    "proxyprox label rows.csv --classes yes,no --export labelled.csv",
    "",
    "Every answer is on disk before the next question. Type a class, the beginning of its name or "
    "its number, b to answer the last one again, q or Enter alone to stop; the same command "
    "goes on where it stopped. One process at a time has the file of answers, an SQLite database.",
    "",
    "In an exported table, text that begins with = + - or @ has an apostrophe in front, so that no "
    "spreadsheet takes it for a formula; numbers stay as they are.",
)


@guarded
def label(
    data: Annotated[Path, typer.Argument(help="Rows to label: CSV, Parquet, svmlight or npz.")],
    classes: Annotated[str, typer.Option(help="The classes, separated by commas.")],
    budget: Annotated[int, typer.Option(min=1, help="Labels to buy at most.")] = 100,
    batch: Annotated[int, typer.Option(min=1, help="Rows drawn at a time.")] = 10,
    criterion: Annotated[
        str, typer.Option(help="How rows are drawn: uniform, uncertainty or leverage.")
    ] = "uniform",
    least_gain: Annotated[
        float | None,
        typer.Option(help="Stop when 100 more labels would lower the loss by less."),
    ] = None,
    show: Annotated[
        str | None,
        typer.Option(
            help="Columns (CSV) to show you, separated by commas; the others are features, or "
            "these words."
        ),
    ] = None,
    answers: Annotated[
        Path | None, typer.Option(help="File of the answers; default: beside the data.")
    ] = None,
    export: Annotated[
        Path | None, typer.Option(help="Write the labelled rows with their labels to this CSV.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Let --export replace a file it did not write.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.")] = 0,
    as_json: Json = False,
) -> None:
    """Label the rows that are worth it, one question at a time.

    A classifier is fitted to the answers with all rows as proxy; how sure it is, and what more
    labels would bring, is printed at the end.
    """
    from proxyprox._util.digests import file_digest
    from proxyprox.cli.console import emit, say, stderr, stdout
    from proxyprox.cli.labelling import (
        Questions,
        answers_file,
        read_pool,
        refuse_foreign,
        refuse_losing,
        same_file,
        summary,
    )
    from proxyprox.cli.labelling import export as write_table
    from proxyprox.sklearn import LabelBudget, ProxyLogisticRegression

    names = tuple(name.strip() for name in classes.split(",") if name.strip())
    if len(set(names)) < 2 or len(set(names)) < len(names):
        raise CommandError(f"--classes must name two different classes at least, got {classes!r}.")
    pool = read_pool(data, show)
    file = answers_file(data, answers)
    if same_file(file, data):
        raise CommandError(f"--answers must not be the rows' own file, {data}: name another.")
    if export is not None:
        refuse_losing(export, data, file)
    bought = LabelBudget(
        ProxyLogisticRegression(),
        pool.X,
        budget=budget,
        batch_size=batch,
        criterion=criterion,
        least_gain=least_gain,
        path=file,
        rng=seed,
        about={"classes": sorted(names), "data": file_digest(data), "show": show},
    )
    with bought, _kept(bought):
        file = bought.path or file
        if export is not None:
            refuse_losing(export, data, file)
            if not overwrite:
                refuse_foreign(export, data, pool, bought.labels)
        console = stderr()
        say(console, pool.told)
        if bought.spent:
            say(console, f"{bought.spent} answers are in {file} already.")
        asked = Questions(console, pool, names)
        if bought.finished is None:
            asked.explain()
        _ask_and_tell(bought, asked)
        if export is not None and bought.spent:
            write_table(export, data, pool, bought.labels)
        found: dict[str, Any] = summary(bought, file, export)
    if as_json:
        emit(found)
    else:
        for text in found["sentences"]:
            say(stdout(), text)


def _ask_and_tell(bought: LabelBudget, asked: Questions) -> None:
    """Ask until the budget is spent or the person has had enough."""
    from proxyprox.cli.labelling import Back

    last: int | None = next(reversed(bought.labels), None)
    again: int | None = None
    while again is not None or bought.finished is None:
        row = int(bought.ask()[0]) if again is None else again
        number = list(bought.labels).index(row) if row in bought.labels else bought.spent
        answer = asked.answer(row, number + 1, bought.budget)
        if answer is None:
            return
        if isinstance(answer, Back):
            if last is None:
                asked.say("There is no last question yet.")
            again = last
            continue
        bought.tell(row, answer)
        last, again = row, None


@contextmanager
def _kept(bought: LabelBudget) -> Iterator[None]:
    """Tell a person who interrupts what is not lost; at a question Ctrl-C only ends the asking."""
    try:
        yield
    except KeyboardInterrupt:
        raise CommandError(
            f"Interrupted. {bought.spent} answers are kept in {bought.path}: the same command goes "
            "on from there.",
            INTERRUPTED,
        ) from None
