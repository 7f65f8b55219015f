"""The rows to be labelled: read as they come, shown, and exchanged with other tools.

Labels come from and go to plain tables and Label Studio's JSON: a list of tasks with ``data``,
``annotations`` (people's answers) and ``predictions`` (models' answers).
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proxyprox._util.extras import require
from proxyprox_app.cli.console import CommandError

if TYPE_CHECKING:
    from proxyprox.sklearn import LabelBudget

# How many columns of a row are shown, how many characters of a cell, and how many columns or
# problems a sentence names.
SHOWN, LONGEST, NAMED = 40, 5000, 8

# The names of the columns that an export adds, and of Label Studio's controls.
LABEL, SKIPPED, COMMENT, MODEL = "label", "skipped", "comment", "proxyprox"


# -- answers that are there already ---------------------------------------------------------------


@dataclass(frozen=True)
class Answers:
    """What a file says of its rows, whose cells are None if they are the pool's.

    ``labels`` and ``predictions`` are a person's and a model's classes as they are written, None
    if there is none.
    """

    cells: Any
    labels: Sequence[str | None]
    skipped: Sequence[bool]
    comments: Sequence[str]
    predictions: Sequence[str | None]


def read_answers(path: Path, label: str, taken: Sequence[str]) -> Answers:
    """Read labelled rows: Label Studio's JSON, or a table with a column of labels.

    Columns whose names are `taken` are cells of the rows unless `label` names them.
    """
    from proxyprox_app.study.tables import read_cells

    if path.suffix.lower() == ".json":
        return read_tasks(path, label)
    cells = read_cells(path)

    def column(name: str) -> list[str]:
        names = [each for each in own_names(taken, name) if each in cells]
        return cells[names[0]].tolist() if names else [""] * len(cells)

    if label not in cells:
        if label or own_names(taken, LABEL)[0] not in cells:
            there = f"{path.name} has {first(list(cells))}"
            raise CommandError(
                f"--import needs a column {label or LABEL!r}, but {there}: name it by --label."
            )
        label = own_names(taken, LABEL)[0]
    return Answers(cells, *_from_column(cells[label], column(SKIPPED), column(COMMENT)))


def own_names(taken: Sequence[str], *names: str) -> list[str]:
    """Return the names of the columns that an export adds to others."""
    return [f"{name}_" if name in taken else name for name in names]


def _from_column(labels: Any, skipped: Sequence[str], comments: Sequence[str]) -> tuple[Any, ...]:
    texts = [text or None for text in labels]
    return texts, [text != "" for text in skipped], comments, [None] * len(texts)


def read_tasks(path: Path, control: str) -> Answers:
    """Read Label Studio's tasks; of several controls the labels of `control` are taken."""
    pd: Any = require("pandas", extra="app", purpose=f"reading {path.name} (JSON)")
    try:
        tasks = json.loads(path.read_bytes().decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{path.name} is not JSON: {error}.") from None
    if not (isinstance(tasks, list) and tasks) or not all(
        isinstance(task, dict) and isinstance(task.get("data"), dict) for task in tasks
    ):
        form = 'a list of tasks with "data" (in Label Studio: Export, JSON)'
        raise CommandError(f"{path.name} is not Label Studio's JSON, {form}.")
    found = [_said(task, control) for task in tasks]
    controls = {name for said in found for name in said["controls"]}
    if len(controls) > 1 and control not in controls:
        raise CommandError(f"{path.name} has the controls {first(sorted(controls))}: --label one.")
    cells = pd.DataFrame([{k: _text(v) for k, v in task["data"].items()} for task in tasks])
    keys = ("label", "skipped", "comment", "prediction")
    return Answers(cells.fillna(""), *([said[key] for said in found] for key in keys))


def _said(task: Mapping[str, Any], control: str) -> dict[str, Any]:
    """Return what a task's last annotation and prediction say."""
    said: dict[str, Any] = {"label": None, "comment": "", "prediction": None, "controls": set()}
    for key, field in (("label", "annotations"), ("prediction", "predictions")):
        for answer, name, value in _results(task, field):
            if key == "label" and value.get("text"):
                said["comment"] = " ".join(map(_text, _list(value["text"])))
            if value.get("choices") and not answer.get("was_cancelled"):
                said["controls"].add(name)
                if control in ("", name):
                    said[key] = ", ".join(map(_text, _list(value["choices"])))
    cancelled = any(answer.get("was_cancelled") for answer in _dicts(task.get("annotations")))
    return {**said, "skipped": cancelled and said["label"] is None}


def _results(
    task: Mapping[str, Any], field: str
) -> Iterator[tuple[dict[str, Any], str, dict[str, Any]]]:
    """Yield each answer of a task, with the control and the value of each of its results."""
    for answer in _dicts(task.get(field)):
        # A model fitted to these very labels is no teacher of another one.
        if answer.get("model_version") != MODEL:
            for result in _dicts(answer.get("result")):
                if isinstance(value := result.get("value"), dict):
                    yield answer, str(result.get("from_name")), value


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in _list(value) if isinstance(each, dict)]


def _text(value: Any) -> str:
    """Return a value of JSON as the text of a cell."""
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def class_of(text: str | None, classes: Sequence[str]) -> str | None:
    """Return the class that is written so, in any case, or None; "Y" is a way to write yes."""
    from proxyprox_app.study.columns import NO, YES

    bare = (text or "").strip()
    if bare in classes:
        return bare
    for words in ({bare.lower()}, YES, NO):
        same = [name for name in classes if name.lower() in words]
        if bare.lower() in words and len(same) == 1:
            return same[0]
    return None


def add_answers(
    bought: LabelBudget, pool: Pool, answers: Answers, classes: Sequence[str], name: str
) -> str:
    """Add a file's answers for rows that have none yet, and return a sentence about it."""
    found = [class_of(text, classes) for text in answers.labels]
    strange = Counter(
        str(text) for text, label in zip(answers.labels, found, strict=True) if text and not label
    )
    if strange:
        several = first([f"{text!r} ({count})" for text, count in strange.most_common()])
        raise CommandError(f"{name} has labels that are none of --classes: {several}.")
    known = bought.labels.keys() | bought.declined
    rows, labels, lost = list[int](), list[str | None](), 0
    for row, place in pool.places(answers.cells, name):
        said = found[place] is not None or answers.skipped[place]
        lost += said and row is None
        if row is not None and said and row not in known:
            rows.append(row)
            labels.append(found[place])
        if row is not None and answers.comments[place] and row not in bought.comments:
            bought.comment(row, answers.comments[place])
    if rows:
        bought.add(rows, labels)
    absent = f"; {lost:,} of its rows are not in the file" if lost else ""
    return f"{len(rows):,} answers taken from {name}{absent}."


# -- the rows -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pool:
    """The rows: features, cells as text (None for files of numbers), and what is shown."""

    X: Any
    names: Sequence[str]
    cells: Any
    shown: Sequence[str]
    notes: Sequence[str]
    given: Answers | None = None
    teacher: Sequence[str | None] | None = None

    def row(self, row: int) -> list[tuple[str, str]]:
        """Return the columns of a row as a person sees them, by name."""
        if self.cells is not None:
            cells = self.cells.iloc[row]
            return [
                (name, text if len(text) <= LONGEST else f"{text[:LONGEST]} …")
                for name, text in ((name, str(cells[name])) for name in self.shown)
                if text.strip()
            ]
        values = self._features(row)
        # Of many numbers, as of words, the largest say most and zeros nothing.
        order = sorted(range(len(values)), key=lambda j: -abs(values[j]))[:SHOWN]
        return [(self.names[j], f"{values[j]:g}") for j in sorted(order) if values[j]]

    def data(self, row: int) -> dict[str, Any]:
        """Return all cells of a row, by name."""
        if self.cells is None:
            return dict(zip(self.names, self._features(row), strict=True))
        return self.cells.iloc[row].to_dict()  # type: ignore[no-any-return]

    def places(self, cells: Any, name: str) -> Iterator[tuple[int | None, int]]:
        """Yield, for each row of another table, the row here with the same cells, and its place."""
        if cells is None:
            yield from ((row, row) for row in range(len(self.cells)))
            return
        there = [] if self.cells is None else list(self.cells)
        common = [column for column in there if column in cells]
        if not common:
            raise CommandError(f"--import needs columns that the rows have, too; {name} has none.")
        rows = defaultdict(list)
        for row, key in enumerate(_keys(self.cells[common])):
            rows[key].append(row)
        for place, key in enumerate(_keys(cells[common])):
            yield (rows[key].pop(0) if rows[key] else None), place

    def _features(self, row: int) -> list[float]:
        values = self.X[[row]]
        values = values.toarray() if hasattr(values, "toarray") else values
        return values.ravel().tolist()  # type: ignore[no-any-return]


def _keys(cells: Any) -> Iterator[tuple[object, ...]]:
    """Yield rows so that those written by different programs compare equal."""
    from proxyprox._util.text import without_formula

    def key(cell: str) -> object:
        with contextlib.suppress(ValueError):
            if not math.isnan(number := float(cell)):  # NaN differs from itself
                return number
        return without_formula(cell.strip())

    for row in cells.itertuples(index=False):
        yield tuple(map(key, row))


def read_pool(
    path: Path, roles: Mapping[str, Sequence[str]], kinds: Mapping[str, str], classes: Sequence[str]
) -> Pool:
    """Read rows of any format; `roles` are the columns that each option names."""
    from proxyprox_app.study.columns import Columns
    from proxyprox_app.study.tables import FRAMES, Finding, format_of, load_cells, read_arrays

    if str(path) == "-":
        raise CommandError("label needs the rows in a file: standard input brings the answers.")
    label, teacher = (next(iter(roles[role]), "") for role in ("label", "teacher"))
    given, odd, decimals = None, list[Finding](), dict[str, str]()
    if path.suffix.lower() == ".json":
        given = read_tasks(path, label)
        cells, given = given.cells, replace(given, cells=None)
        frame = cells.astype(object).where(cells != "", None)
    elif format_of(path) not in FRAMES:
        if named := [f"--{role}" for role, names in roles.items() if names]:
            raise CommandError(f"{path.name} has no columns for {', '.join(named)}: CSV has.")
        table = read_arrays(path)
        return Pool(table.X, table.feature_names, None, (), [f"{table.X.shape[1]:,} features."])
    else:
        raw = load_cells(path)
        cells, (frame, odd, decimals) = raw.text(), raw.parse()
        if label in cells:
            none = [""] * len(cells)
            given = Answers(None, *_from_column(cells[label], none, none))
    columns = list(cells)
    absent = [
        f"--{role} {name!r}"
        for role, names in roles.items()
        for name in names
        if name not in columns and role != "label"
    ]
    if absent:
        raise CommandError(f"No column {', '.join(absent)}; {path.name} has {first(columns)}.")
    apart = {*roles["hide"], label, teacher}
    shown = roles["show"] or [name for name in columns if name not in apart][:SHOWN]
    apart |= set(roles["ignore"])
    used = roles["features"] or [name for name in columns if name not in apart]
    made = Columns(dict(kinds)).plan(frame[list(used)], decimals=decimals)
    made.fit(frame)
    notes = [
        f"Shown: {first(shown)}.",
        f"Features: {first([f'{c.name} ({c.kind})' for c in made.columns if c.kind != 'drop'])}.",
    ]
    notes += map(str, [*odd, *made.findings])
    for name in used:
        values = {text.strip() for text in cells[name] if text.strip()}
        if values and all(class_of(text, classes) for text in values):
            notes.append(f"{name} holds the classes: is it the label? Then say --label {name}.")
    said = cells[teacher] if teacher else given.predictions if given else []
    answers = [class_of(text, classes) for text in said]
    if count := len(answers) - answers.count(None):
        notes.append(f"Teacher: another model's answers for {count:,} of {len(cells):,} rows.")
    own = answers if count else None
    return Pool(made.transform(frame), made.feature_names, cells, shown, notes, given, own)


def first(names: Sequence[str]) -> str:
    """Return the first of several names as a part of a sentence."""
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


# -- exports --------------------------------------------------------------------------------------


def exported(bought: LabelBudget, pool: Pool, ending: str, every: bool = False) -> bytes:
    """Return the answers as a table (".csv") or as Label Studio's tasks (".json")."""
    return _tasks(bought, pool) if ending == ".json" else _table(bought, pool, every)


def _table(bought: LabelBudget, pool: Pool, every: bool) -> bytes:
    """Return rows as CSV, safe in a spreadsheet.

    Those that were answered, skipped or commented, with all of it; or every row, with its label.
    """
    from proxyprox._util.text import without_formula

    names = list(pool.names if pool.cells is None else pool.cells)
    own = own_names(names, LABEL, SKIPPED, COMMENT)
    lines = [[*names, *own[: 1 if every else 3]]]
    touched = sorted(bought.labels.keys() | bought.declined | bought.comments.keys())
    for row in range(bought.rows) if every else touched:
        skipped = "yes" if row in bought.declined else ""
        said = [bought.labels.get(row, ""), skipped, bought.comments.get(row, "")]
        lines.append([*pool.data(row).values(), *said[: 1 if every else 3]])
    text = io.StringIO(newline="")
    csv.writer(text).writerows([without_formula(cell) for cell in line] for line in lines)
    return text.getvalue().encode("utf-8", "surrogateescape")


def _tasks(bought: LabelBudget, pool: Pool) -> bytes:
    """Return every row as a task of Label Studio, with the answer, else the model's prediction."""

    def result(kind: str, name: str, values: list[str]) -> dict[str, Any]:
        key = "choices" if kind == "choices" else "text"
        return {"type": kind, "from_name": name, "to_name": "row", "value": {key: values}}

    model: Any = bought.fit() if len(set(bought.labels.values())) > 1 else None
    chances = None if model is None else model.predict_proba(bought.X)
    tasks = []
    for row in range(bought.rows):
        task: dict[str, Any] = {"id": row + 1, "data": pool.data(row)}
        label, comment = bought.labels.get(row), bought.comments.get(row)
        said = [result("choices", LABEL, [str(label)])] if label is not None else []
        said += [result("textarea", COMMENT, [comment])] if comment else []
        if said or row in bought.declined:
            cancelled = row in bought.declined
            task["annotations"] = [{"result": said, "was_cancelled": cancelled}]
        if chances is not None and label is None:
            best = int(chances[row].argmax())
            choice = result("choices", LABEL, [str(model.classes_[best])])
            prediction = {"model_version": MODEL, "score": float(chances[row, best])}
            task["predictions"] = [prediction | {"result": [choice]}]
        tasks.append(task)
    return json.dumps(tasks, indent=1, allow_nan=False).encode()
