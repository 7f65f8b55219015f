"""Cells as people write them: read by this package's command, and by skrub.

Each case is a column of 60 cells whose values are known. It is written to a file, and read by

- ours: what ``proxyprox run`` does, told nothing;
- skrub: ``pandas.read_csv`` and ``Cleaner(parse_numbers=True)``, told nothing;
- skrub, told: the cells as text, and ``ToFloat`` or ``ToDatetime`` with the options that fit the
  column, which a user would have to know; codes are told to be text.

A cell is right if its value is the one that was written, or missing if it says so. It is lost if
no value is read (it is missing, or still text), and wrong if another value is read, which nobody
notices. The cases are those that our code was written for, and some ``beyond``
them.

    pip install skrub
    python benchmarks/messy_cells.py        # seconds
"""

from __future__ import annotations

from experiments.records import ROOT, write_record  # isort: skip

import json
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from proxyprox_app.columns import Columns, parse_dates, plain_object
from proxyprox_app.tables import load_cells, to_numbers

OUTPUT = ROOT / "docs/results/tables/cells.json"
ROWS = 60
READERS = ("ours", "skrub", "skrub, told")


def grouped(value, mark, point):
    """Write a number with groups of three and two decimals."""
    return f"{value:,.2f}".replace(",", "\0").replace(".", point).replace("\0", mark)


def cases():
    """Yield name, group, cells, true values, and the options that skrub is told."""
    rng = np.random.default_rng(0)
    sizes = np.round(rng.lognormal(7, 2, ROWS), 2)
    small = np.round(rng.normal(0, 3, ROWS), 2)

    def numbers(name, write, truth=sizes, group="numbers", **told):
        return name, group, [write(x) for x in truth], list(truth), told

    yield numbers("1.5", str, small)
    yield numbers("1,5", lambda x: f"{x}".replace(".", ","), small, decimal=",")
    yield numbers("1.234,50", lambda x: grouped(x, ".", ","), decimal=",", thousand=".")
    yield numbers("1,234.50", lambda x: grouped(x, ",", "."), thousand=",")
    yield numbers("1'234.50", lambda x: grouped(x, "'", "."), thousand="'")
    yield numbers("1 234,50", lambda x: grouped(x, " ", ","), decimal=",", thousand=" ")
    yield numbers(
        "1 234,50 (narrow blank)", lambda x: grouped(x, "\u202f", ","), decimal=",", thousand=" "
    )
    yield numbers("1.234,50 €", lambda x: f"{grouped(x, '.', ',')} €", decimal=",", thousand=".")
    yield numbers("$1,234.50", lambda x: f"${grouped(x, ',', '.')}", thousand=",")
    name, group, cells, truth, told = numbers("12.5 %", lambda x: f"{abs(x)} %", small)
    yield name, group, cells, [abs(x) / 100 for x in truth], told
    yield numbers("(7.5) is negative", lambda x: f"({-x})" if x < 0 else f"{x}", small,
                  parentheses=True)  # fmt: skip
    yield numbers("− for a minus", lambda x: f"{x}".replace("-", "\u2212"), small)
    yield numbers("12.5 kg", lambda x: f"{abs(x)} kg", np.abs(small), "beyond")
    # Words that no list has may be a twentieth of the cells; more look like a mixture.
    for words, every in ((["n/a", "NULL", "?", "nan"], 4), (["-", "--", "#DIV/0!", "."], 4),
                         (["k.A.", "unknown"], 20)):  # fmt: skip
        truth = [np.nan if i % every == 0 else x for i, x in enumerate(small)]
        cells = [words[i // every % len(words)] if np.isnan(x) else f"{x}"
                 for i, x in enumerate(truth)]  # fmt: skip
        yield f"gaps: {', '.join(words)}", "gaps", cells, truth, {"null": words}

    days = pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 1500, ROWS), "D")
    for name, form in {
        "2024-12-31": "%Y-%m-%d", "31.12.2024": "%d.%m.%Y", "31/12/2024": "%d/%m/%Y",
        "12/31/2024": "%m/%d/%Y", "5 Feb 2024": "%d %b %Y", "20241231": "%Y%m%d",
    }.items():  # fmt: skip
        group = "beyond" if form == "%Y%m%d" else "dates"
        yield name, group, list(days.strftime(form)), list(days), {"format": form}
    late = ["unknown" if i % 20 == 7 else day.strftime("%d.%m.%Y") for i, day in enumerate(days)]
    known = [pd.NaT if cell == "unknown" else day for cell, day in zip(late, days, strict=True)]
    yield "31.12.2024 and “unknown”", "dates", late, known, {
        "format": "%d.%m.%Y", "null": ["unknown"],
    }  # fmt: skip
    two = [day.strftime("%Y-%m-%d" if i % 2 else "%d.%m.%Y") for i, day in enumerate(days)]
    yield "2024-12-31 and 31.12.2024", "beyond", two, list(days), {"format": "%Y-%m-%d"}

    codes = {
        "00123": [f"{x:05d}" for x in rng.integers(0, 20000, ROWS)],
        "4E12, E119": [f"{x}E{y}" if x else f"E{y}" for x, y in rng.integers(0, 9, (ROWS, 2))],
        "18 and more digits": [f"{x}{x % 999:03d}" for x in rng.integers(10**16, 10**17, ROWS)],
        "none, mild, severe": rng.choice(["none", "mild", "severe"], ROWS).tolist(),
        "NO, DE, FR": rng.choice(["NO", "DE", "FR"], ROWS).tolist(),
    }
    for name, cells in codes.items():
        yield name, "codes", cells, cells, {"text": True}


def ours(path):
    """Read the column as the command does."""
    loaded = load_cells(path).parse()
    cells = loaded.frame["x"]
    column = Columns(decimal=loaded.decimal).plan(loaded.frame[["x"]]).columns[0]
    if column.kind == "number":
        return to_numbers(plain_object(cells), loaded.decimal)
    return parse_dates(cells, column.date) if column.kind == "date" else cells


def skrub_alone(path):
    """Read the column with skrub's defaults, and numbers in text."""
    from skrub import Cleaner

    frame = pd.read_csv(path, sep="\t")
    return Cleaner(parse_numbers=True, drop_null_fraction=None).fit_transform(frame)["x"]


def skrub_told(path, *, text=False, null=(), **options):
    """Read the column with the options that fit it."""
    from skrub import ApplyToCols, Cleaner, ToDatetime, ToFloat

    frame = pd.read_csv(path, sep="\t", dtype=str, keep_default_na=False)
    if text:
        return frame["x"]
    convert = ToDatetime(**options) if "format" in options else ToFloat(**options)
    frame = Cleaner(null_strings=list(null), drop_null_fraction=None).fit_transform(frame)
    return ApplyToCols(convert, allow_reject=True).fit_transform(frame)["x"]


def judge(found, truth):
    """Return how many cells are right, lost and wrong."""
    counts = {"right": 0, "lost": 0, "wrong": 0}
    for value, true in zip(found, truth, strict=True):
        if pd.isna(true) or pd.isna(value):
            kind = "right" if pd.isna(true) and pd.isna(value) else "lost"
        elif isinstance(true, float) and isinstance(value, (float, int, np.number)):
            kind = "right" if np.isclose(value, true, rtol=1e-6) else "wrong"
        elif isinstance(value, str) and not isinstance(true, str):
            kind = "lost"
        else:
            kind = "right" if type(value) is type(true) and value == true else "wrong"
        counts[kind] += 1
    return counts


def measure():
    """Return what each reader made of each case."""
    found = []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "cells.tsv"
        for name, group, cells, truth, told in cases():
            path.write_text("x\trow\n" + "".join(f"{c}\tr\n" for c in cells), "utf-8")
            made = {"ours": ours(path), "skrub": skrub_alone(path),
                    "skrub, told": skrub_told(path, **told)}  # fmt: skip
            judged = {reader: judge(values, truth) for reader, values in made.items()}
            found.append({"case": name, "group": group, "cells": ROWS, **judged})
    return found


def all_table(path):
    """Return one row a case: the share of cells that are right, and of those that are wrong."""
    lines = ["| cells | " + " | ".join(READERS) + " |", "|---|" + "---|" * len(READERS)]
    for case in json.loads(path.read_text("utf-8")):
        row = []
        for reader in READERS:
            one = case[reader]
            text = f"{one['right'] / case['cells']:.0%}"
            row.append(
                text + (f", {one['wrong'] / case['cells']:.0%} wrong" if one["wrong"] else "")
            )
        beyond = " (beyond what ours is for)" if case["group"] == "beyond" else ""
        lines.append(f"| `{case['case']}`{beyond} | {' | '.join(row)} |")
    return "\n".join(lines)


def small_table(path):
    """Return, by group, how many columns each reader reads without a fault."""
    lines = ["| columns without a fault | " + " | ".join(READERS) + " |"]
    lines.append("|---|" + "---|" * len(READERS))
    record = json.loads(path.read_text("utf-8"))
    for group in ("numbers", "gaps", "dates", "codes", "beyond"):
        mine = [case for case in record if case["group"] == group]
        whole = [sum(case[r]["right"] == case["cells"] for case in mine) for r in READERS]
        lines.append(f"| {group} | " + " | ".join(f"{k}/{len(mine)}" for k in whole) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    write_record(
        OUTPUT, measure(),
        measures=["src/proxyprox_app/columns.py", "src/proxyprox_app/tables.py"],
        note="Needs skrub, which nothing else here does.",
    )  # fmt: skip
