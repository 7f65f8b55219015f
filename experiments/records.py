"""Records of results: what made them, and whether the code is still the same.

A script that measures something ends with :func:`write_record`. It writes the data to
``docs/results/AREA/NAME`` and, into ``about.json`` beside it, the command, the commit, the
versions, the machine, the seconds, and the files that were measured with a hash of their code.

``python -m experiments.records`` (``make records``) prints the records whose files have changed
since, the data files that nothing is known about, and the tables of the docs that have no record.
Tables between two markers are made from their record by a function of the script that wrote it::

    <!-- table benchmarks/rounds.py:small_table rounds/rounds.csv -->
    <!-- end -->

The function takes the path of the record and returns Markdown. A number in a sentence is made the
same way, on one line: ``<!-- number SCRIPT:FUNCTION RECORD -->8 rounds<!-- end -->``. Sentences
with several numbers stand in ``docs/quoted.py``, see :class:`Sentence`. With ``--write`` all of
these are written again; without it one that differs ends the command with status 1.

``--plan`` prints the commands of the records that are older than their files, with the seconds
that they took the last time, and why one cannot be run as it stands; of those only whose names
are given. ``--rerun`` runs them, several at a time. A command that is not done after ``--each``
seconds, or after ``--within`` seconds of all, is ended, and its record stays as it was.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import csv
import datetime
import hashlib
import importlib.metadata
import importlib.util
import io
import json
import math
import os
import platform
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proxyprox._util.files import atomic_write_text

__all__ = [
    "check_records", "fill_tables", "kept", "publish", "tables_without_record", "write_record",
]  # fmt: skip

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path("docs/results")
ABOUT = "about.json"
DATA = (".csv", ".json", ".jsonl")
LIBRARIES = (
    "numpy", "scipy", "scikit-learn", "torch", "pandas", "dask", "opacus", "gymnasium", "mujoco",
    "skrub",
)  # fmt: skip
TABLE = re.compile(
    r"(<!-- (?:table|number) (?P<script>\S+):(?P<function>\w+) (?P<record>\S+) -->(?P<line>\n?))"
    r"(?P<text>.*?)(?P<end><!-- end -->)",
    re.DOTALL,
)
_FIELD = re.compile(r"\{[^}]*\}")
LINK = re.compile(r"`[^`]*`|\]\([^)]*\)")
# Says the commit if the files were copied without their repository.
COMMIT = "PROXYPROX_COMMIT"
UNPUBLISHED = "add --record, which puts what comes out into docs/results"
# Scripts import this module first: seconds are counted from here.
BEGUN = time.monotonic()


def write_record(
    path: str | Path, data: Any, *, measures: Sequence[str], note: str = "", root: Path = ROOT
) -> None:
    """Write a record, and what made it.

    Parameters
    ----------
    path : path-like
        ``docs/results/AREA/NAME.json``, ``.jsonl`` or ``.csv``.
    data : object
        What was measured: for ``.json`` anything that json writes (infinities become null); for
        ``.jsonl`` a list of such objects; for ``.csv`` a list of dicts with the same keys, or a
        text.
    measures : sequence of str
        The files or folders of the repository whose code the numbers depend on. The script that
        runs is added.
    note : str, optional
        What a reader should know: other work on the machine, parts of an earlier run.
    root : Path, optional
        The repository.
    """
    file = Path(path)
    files = _measured(measures, root)
    file.parent.mkdir(parents=True, exist_ok=True)
    atomic_write_text(file, _as_text(data, file.suffix))
    _describe(file, files, note, root)


def kept(folder: Path | None, name: str, make: Callable[[], Any]) -> Any:
    """Return what an earlier run left in a folder under a name, or what is made now, and leave it.

    With it a long measurement that was broken off goes on. Without a folder everything is made.
    """
    if folder is None:
        return make()
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.json"
    if not file.exists():
        atomic_write_text(file, json.dumps(make()))
    return json.loads(file.read_text(encoding="utf-8"))


def publish(folder: Path, area: str, *, measures: Sequence[str], root: Path = ROOT) -> None:
    """Replace the files of ``docs/results/AREA`` by those of the same names in a folder of runs.

    Parameters
    ----------
    folder : Path
        What an experiment has written.
    area : str
        A folder of ``docs/results``.
    measures : sequence of str
        As for :func:`write_record`.
    root : Path, optional
        The repository.
    """
    files, there = _measured(measures, root), root / RESULTS / area
    for file in sorted(path for path in there.iterdir() if (folder / path.name).is_file()):
        file.write_bytes((folder / file.name).read_bytes())
        if file.suffix in DATA:
            _describe(file, files, "", root)


def _measured(measures: Sequence[str], root: Path) -> list[str]:
    """Return the files that are measured, the script among them."""
    script = Path(sys.argv[0]).resolve()
    files = dict.fromkeys(measures)
    if script.is_file() and script.is_relative_to(root):
        files[script.relative_to(root).as_posix()] = None
    missing = [name for name in files if not (root / name).exists()]
    if missing:
        raise ValueError(f"measures: {', '.join(missing)} does not exist; paths begin at {root}.")
    return list(files)


def _describe(file: Path, files: Sequence[str], note: str, root: Path) -> None:
    """Write what made a record."""
    times = os.times()
    about = {
        "command": _command(root),
        "commit": _git(root, "rev-parse", "--short=12", "HEAD") or os.environ.get(COMMIT, ""),
        "date": datetime.date.today().isoformat(),
        "uncommitted": bool(_git(root, "status", "--porcelain", "--", *files)),
        "machine": _machine(),
        "versions": _versions(),
        "seconds": round(time.monotonic() - BEGUN, 1),
        "cpu_seconds": round(sum(times[:4]), 1),
        "content": _hash(file.read_bytes()),
        "measures": {name: hash_code(root / name) for name in files},
        **({"note": note} if note else {}),
    }
    with _alone(file.parent):
        known = _about(file.parent)
        known[file.name] = about
        text = json.dumps(dict(sorted(known.items())), indent=1, ensure_ascii=False)
        atomic_write_text(file.parent / ABOUT, text + "\n")


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other commands from the folder's facts meanwhile, on systems with such locks."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def hash_code(path: Path) -> str:
    """Return a hash of the code below a path; prose, comments and blank lines do not count."""
    if path.is_dir():
        below = sorted(p for p in path.rglob("*.py") if "__pycache__" not in p.parts)
        return _hash("".join(f"{p.name} {hash_code(p)}\n" for p in below).encode())
    content = path.read_bytes()
    return _hash(_code(content.decode()).encode() if path.suffix == ".py" else content)


def _code(text: str) -> str:
    prose: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        expression = getattr(node, "value", None) if isinstance(node, ast.Expr) else None
        if isinstance(expression, ast.Constant) and isinstance(expression.value, str):
            prose.update(range(expression.lineno, (expression.end_lineno or 0) + 1))
    lines = (line for i, line in enumerate(text.splitlines(), 1) if i not in prose)
    return "\n".join(s.rstrip() for s in lines if s.strip() and not s.lstrip().startswith("#"))


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def _as_text(data: Any, ending: str) -> str:
    if isinstance(data, str):
        return data
    if ending == ".jsonl":
        return "".join(json.dumps(_finite(line), ensure_ascii=False) + "\n" for line in data)
    if ending == ".csv":
        table = io.StringIO()
        writer = csv.DictWriter(table, list(data[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(data)
        return table.getvalue()
    return json.dumps(_finite(data), indent=1, ensure_ascii=False) + "\n"


def _finite(data: Any) -> Any:
    """Return the data with null for what JSON does not know: infinities and NaN."""
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def _about(folder: Path) -> dict[str, Any]:
    file = folder / ABOUT
    known: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.exists() else {}
    return known


def _command(root: Path) -> str:
    """Return the command with paths as they are seen from the repository."""
    words = ["python", *sys.orig_argv[1:]]
    words = [word.replace(f"{root}/", "") for word in words]
    # A path elsewhere tells a reader nothing but how this machine is kept.
    return shlex.join(f"…/{Path(word).name}" if word.startswith("/") else word for word in words)


def _git(root: Path, *arguments: str) -> str:
    try:
        return subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _machine() -> str:
    cores = f"{os.cpu_count()} CPU cores, {platform.machine()}"
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
        cores += f", {memory:.0f} GiB"
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        cores += f"; {torch.cuda.get_device_name()}"
    return cores


def _versions() -> dict[str, str]:
    modules = {"scikit-learn": "sklearn"}
    loaded = [name for name in LIBRARIES if modules.get(name, name) in sys.modules]
    found = {name: importlib.metadata.version(name) for name in loaded}
    return {"python": platform.python_version(), **found}


# -- checking -----------------------------------------------------------------------------------


def check_records(root: Path = ROOT) -> Iterator[str]:
    """Yield a line for each record that is older than its files, unknown, or changed by hand.

    Parameters
    ----------
    root : Path, optional
        The repository.
    """
    for folder in sorted(path for path in (root / RESULTS).iterdir() if path.is_dir()):
        known = _about(folder)
        for file in sorted(p for p in folder.iterdir() if p.suffix in DATA and p.name != ABOUT):
            name, about = file.relative_to(root / RESULTS), known.pop(file.name, None)
            if about is None:
                yield f"{name}: nothing says what made it"
                continue
            if about["content"] != _hash(file.read_bytes()):
                yield f"{name}: was changed after it was written"
            newer = [f for f, then in about["measures"].items() if _now(root / f) != then]
            if newer:
                yield f"{name}: of {about['commit']}, older than {', '.join(newer)}"
        for gone in known:
            yield f"{(folder / gone).relative_to(root / RESULTS)}: the record is missing"


def _now(path: Path) -> str | None:
    return hash_code(path) if path.exists() else None


def fill_tables(page: Path, *, write: bool, root: Path = ROOT) -> list[str]:
    """Return which tables of a page differ from their records; with ``write`` they are replaced.

    Parameters
    ----------
    page : Path
        A page in Markdown.
    write : bool
        Whether to write the page again.
    root : Path, optional
        The repository.
    """
    differing: list[str] = []
    text = page.read_text("utf-8")

    def renewed(found: re.Match[str]) -> str:
        make, record = _function(root / found["script"], found["function"]), found["record"]
        try:
            table = make(root / RESULTS / record)
        except (KeyError, TypeError, ValueError, OSError) as error:
            # A record of an older script may lack what the table now shows.
            what = f"{found['function']} fails with {error!r}"
            differing.append(f"{page.relative_to(root)}: {record} must be made anew: {what}")
            return found[0]
        if table.strip() != found["text"].strip():
            differing.append(f"{page.relative_to(root)}: the table differs from {found['record']}")
        return f"{found[1]}{table.strip()}{found['line']}{found['end']}"

    new = TABLE.sub(renewed, text)
    if write and differing:
        atomic_write_text(page, new)
    return differing


def _function(script: Path, name: str) -> Callable[[Path], str]:
    # Scripts import their neighbours by bare names.
    sys.path.insert(0, str(script.parent))
    try:
        spec = importlib.util.spec_from_file_location(script.stem, script)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules.setdefault(script.stem, importlib.util.module_from_spec(spec))
        if not hasattr(module, name):
            spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(script.parent))
    function: Callable[[Path], str] = getattr(module, name)
    return function


def tables_without_record(page: Path) -> Iterator[tuple[int, str]]:
    """Yield line and head of each table of measured numbers that no marker surrounds.

    A table is taken for one of measurements if a third of its cells, the first column aside, begin
    with a number.

    Parameters
    ----------
    page : Path
        A page in Markdown.
    """
    text = TABLE.sub(lambda found: re.sub(r"[^\n]", "", found[0]), page.read_text("utf-8"))
    table: list[tuple[int, str]] = []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.startswith("|"):
            table.append((number, line))
        elif table:
            body = [LINK.sub("", row).strip("|").split("|")[1:] for _, row in table[2:]]
            cells = [cell.strip(" *≈+−-–.") for row in body for cell in row]
            if cells and 3 * sum(cell[:1].isdigit() for cell in cells) >= len(cells):
                yield table[0]
            table = []


class Quoted:
    """What the functions of ``docs/quoted.py`` see of a record.

    ``data`` is the JSON; ``rows`` are the lines of a CSV or JSONL, or the list that a JSON is, with
    numbers as such; ``summary.json#lines`` has the list "lines" of a JSON as rows, and a page in
    Markdown the lines of its tables, by the heads of their columns.
    ``each(key, **conditions)`` are the values of those rows in which the fields have the values
    named; ``middle`` and ``mean`` are of these. ``short`` writes 9.5e-4.

    Parameters
    ----------
    record : str
        The record below ``docs/results``, "#" and a list of it if need be.
    root : Path, optional
        The repository.
    """

    def __init__(self, record: str, root: Path = ROOT) -> None:
        name, _, part = record.partition("#")
        path = root / RESULTS / name
        text = path.read_text("utf-8")
        self.data: Any = None
        if path.suffix == ".csv":
            self.rows = [
                {k: _number(v) for k, v in row.items()} for row in csv.DictReader(io.StringIO(text))
            ]
        elif path.suffix == ".jsonl":
            self.rows = [json.loads(line) for line in text.splitlines()]
        elif path.suffix == ".md":
            self.rows = list(_table_rows(text))
        else:
            self.data = json.loads(text)
            rows = self.data[part] if part else self.data
            self.rows = rows if isinstance(rows, list) else []

    def each(self, key: str, **conditions: Any) -> list[Any]:
        """Return the values of the rows in which these fields have these values."""
        found = [
            row[key] for row in self.rows if all(row.get(k) == v for k, v in conditions.items())
        ]
        if not found:
            raise ValueError(f"no row has {conditions}")
        return found

    def middle(self, key: str, **conditions: Any) -> Any:
        """Return the median; what was never reached counts as infinite."""
        values = self.each(key, **conditions)
        return statistics.median(v if isinstance(v, int | float) else math.inf for v in values)

    def mean(self, key: str, **conditions: Any) -> Any:
        """Return the mean."""
        return statistics.mean(self.each(key, **conditions))

    @staticmethod
    def short(number: float) -> str:
        """Return a number with two digits and a power of ten."""
        return f"{number:.1e}".replace("e-0", "e-").replace("e+0", "e")


def _table_rows(text: str) -> Iterator[dict[str, Any]]:
    """Yield the lines of all tables of a page."""
    head: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip(" *`") for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            head = []
        elif not head:
            head = cells
        elif set(line) - set("|-: "):
            yield dict(zip(head, map(_number, cells), strict=False))


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


@dataclass(frozen=True)
class Sentence:
    """A sentence of the docs with the numbers of a record.

    Attributes
    ----------
    page, record : str
        The page, and the record below ``docs/results``, "#" and a list of it if need be.
    text : str
        The words, with ``{}`` for each number.
    values : callable
        Returns the numbers, in their order, from a :class:`Quoted`.
    """

    page: str
    record: str
    text: str
    values: Callable[[Quoted], Sequence[Any]]


def quoted_sentences(root: Path = ROOT) -> list[Sentence]:
    """Return the sentences of ``docs/quoted.py``."""
    file = root / "docs/quoted.py"
    spec = importlib.util.spec_from_file_location("quoted", file)
    if not file.exists() or spec is None or spec.loader is None:
        return []
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: list[Sentence] = module.SENTENCES
    return found


def fill_sentences(*, write: bool, root: Path = ROOT) -> list[str]:
    """Return which sentences of ``docs/quoted.py`` differ from their records, or write them.

    Parameters
    ----------
    write : bool
        Whether to write the pages again.
    root : Path, optional
        The repository.
    """
    differing = []
    for one in quoted_sentences(root):
        page = root / one.page
        text = page.read_text("utf-8")
        found = _as_pattern(one.text).search(text)
        where = f"{one.page}: {one.text[:60]!r}"
        try:
            record = Quoted(one.record, root)
            right = one.text.format(*one.values(record))
        except (LookupError, TypeError, ValueError, OSError) as error:
            differing.append(f"{where}: {one.record} must be made anew: {error!r}")
            continue
        if found is None:
            differing.append(f"{where}: no such sentence")
        elif found[0].split() != right.split():
            differing.append(f"{where}: the record has {right!r}")
            new = _as_pattern(one.text).fullmatch(right)
            if write and new is not None:
                # From the last to the first, so that places stay where they are.
                for place in range(len(new.groups()), 0, -1):
                    text = text[: found.start(place)] + new[place] + text[found.end(place) :]
                atomic_write_text(page, text)
    return differing


def _as_pattern(template: str) -> re.Pattern[str]:
    """Return a pattern of a sentence with any numbers, on lines that may break anywhere."""
    words = (re.escape(part).replace(r"\ ", r"\s+") for part in _FIELD.split(template))
    return re.compile(r"([-−+]?[\d,]*\.?\d+(?:e-?\d+)?|inf)".join(words))


def sentences_without_record(page: Path, templates: Sequence[str] = ()) -> Iterator[str]:
    """Yield the sentences that link to a record and have decimals, but are not made from it.

    Parameters
    ----------
    page : Path
        A page in Markdown.
    templates : sequence of str
        Sentences of ``docs/quoted.py``.
    """
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.M | re.S)
    text = TABLE.sub("", text)
    for template in templates:
        text = _as_pattern(template).sub("", text)
    for sentence in re.split(r"\n\n|\|\n|(?<=[.;])\s", text):
        plain = LINK.sub("", sentence)
        if "results/" in sentence and re.search(r"(?<![\w.])\d*\.\d", plain):
            yield " ".join(plain.strip(" |\n").split())[:120]


def listing(page: Path) -> str:
    """Return the table of all records below a page: what made each, when, where, how long.

    Parameters
    ----------
    page : Path
        ``docs/results/README.md``.
    """
    lines = ["| record | command | commit | machine | seconds |", "|---|---|---|---|---|"]
    for folder in sorted(path.parent for path in page.parent.glob(f"*/{ABOUT}")):
        names = [n for n in ("README.md", "report.md") if (folder / n).is_file()]
        begun = f"[`{folder.name}/`]({folder.name}/{names[0]})" if names else f"`{folder.name}/`"
        made: dict[tuple[str, str, str, str], list[str]] = {}
        for name, about in sorted(_about(folder).items()):
            seconds = "" if about["seconds"] is None else f"{about['seconds']:,.0f}"
            facts = f"`{about['command']}`", about["commit"][:8], about["machine"], seconds
            made.setdefault(facts, []).append(f"`{name}`")
        for facts, files in made.items():
            lines.append(f"| {begun} {', '.join(files)} | {' | '.join(facts)} |")
    return "\n".join(lines)


# -- running again -------------------------------------------------------------------------------


def old_commands(names: Sequence[str], root: Path = ROOT) -> dict[str, tuple[list[str], float]]:
    """Return the commands of records older than their files: the records, and the last seconds.

    Those that took the fewest seconds come first, those of which nobody knows them last.

    Parameters
    ----------
    names : sequence of str
        Records or their folders, such as "rounds/rounds.csv" or "rounds"; all if there are none.
    root : Path, optional
        The repository.
    """
    commands: dict[str, tuple[list[str], float]] = {}
    for line in check_records(root):
        record = line.split(":")[0]
        if "older than" in line and (not names or {record, record.split("/")[0]} & {*names}):
            file = root / RESULTS / record
            about = _about(file.parent)[file.name]
            command = about["command"]
            command += " --record" * (why_not(command, root) == UNPUBLISHED)
            made, last = commands.get(command, ([], 0.0))
            seconds = math.inf if about["seconds"] is None else about["seconds"]
            commands[command] = [*made, record], max(last, seconds)
    return dict(sorted(commands.items(), key=lambda item: item[1][1]))


def plan(names: Sequence[str], root: Path = ROOT) -> str:
    """Return what ``--rerun`` would do: seconds of the last time, records, command, and why not.

    Parameters
    ----------
    names : sequence of str
        Records or their folders; all if there are none.
    root : Path, optional
        The repository.
    """
    lines, known = [], 0.0
    for command, (made, seconds) in old_commands(names, root).items():
        why = why_not(command, root) or why_no_gpu(made[0], root)
        known += seconds if math.isfinite(seconds) and not why else 0.0
        last = f"{seconds:,.0f} s" if math.isfinite(seconds) else "? s"
        end = f"\n{'':>10}not begun: {why}" if why else ""
        lines.append(f"{last:>8}  {', '.join(made)}\n{'':>10}{command}{end}\n")
    return f"{''.join(lines)}Together {known:,.0f} s the last time, without those marked '?'.\n"


def why_no_gpu(record: str, root: Path = ROOT) -> str:
    """Return why a record of a GPU cannot be made here, "" if it can.

    Parameters
    ----------
    record : str
        Below ``docs/results``.
    root : Path, optional
        The repository.
    """
    file = root / RESULTS / record
    about = _about(file.parent)[file.name]
    there = "NVIDIA" not in about["machine"] + about.get("note", "") or shutil.which("nvidia-smi")
    return "" if there else "made on a GPU, and there is none here"


def why_not(command: str, root: Path = ROOT) -> str:
    """Return why a command cannot be run as it stands, "" if it can.

    Parameters
    ----------
    command : str
        As a record has it.
    root : Path, optional
        The repository.
    """
    words = shlex.split(command)[1:]
    while words and words[0] == "-W":
        words = words[2:]
    if words[:1] == ["-c"]:
        return ""
    odd = [mark for mark in ("…", "FOLDER", ";", ">") if mark in command]
    if odd:
        return f"{odd[0]!r} stands in it"
    if words[:1] == ["-m"]:
        base = root / "/".join(words[1].split("."))
        if (base / "__main__.py").exists():
            return ""
        script = base.with_suffix(".py")
        if script.exists() and "publish(" in script.read_text() and "--record" not in words:
            return UNPUBLISHED
        return "" if script.exists() else f"there is no module {words[1]}"
    return "" if words and (root / words[0]).is_file() else "there is no such script"


def run_commands(
    commands: Sequence[str],
    *,
    processes: int,
    within: float,
    logs: Path,
    each: float = math.inf,
    root: Path = ROOT,
) -> Iterator[str]:
    """Run commands side by side, on one thread each; yield a line as each begins and ends.

    A command with ``--processes N`` counts as N. The first ones begin first.

    Parameters
    ----------
    commands : sequence of str
        As they are typed in the repository; "python" is this one.
    processes : int
        How many processes may run at a time.
    within : float
        Seconds after which those that still run are ended.
    logs : Path
        Folder for what they print.
    each : float, optional
        Seconds after which a single one is ended.
    root : Path, optional
        The repository.
    """
    logs.mkdir(parents=True, exist_ok=True)
    waiting, running = list[str](), dict[str, tuple[subprocess.Popen[bytes], int, float]]()
    for command in commands:
        if why := why_not(command, root):
            yield f"not begun, {why}: {command}"
        else:
            waiting.append(command)
    environment = {"OMP_NUM_THREADS": "1", "PYTHONPATH": f"{root / 'src'}:{root}"} | os.environ
    end = time.monotonic() + within
    while waiting or running:
        for command, (child, _, begun) in list(running.items()):
            late = time.monotonic() > min(end, begun + each)
            if late and child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
            if child.poll() is not None:
                del running[command]
                how = (
                    "out of time"
                    if child.returncode == -signal.SIGKILL
                    else f"exit {child.returncode}"
                )
                yield f"{how} after {time.monotonic() - begun:.0f} s: {command}"
        free = processes - sum(size for _, size, _ in running.values())
        for command in list(waiting):
            found = re.search(r"--processes (\d+)", command)
            size = min(int(found[1]) if found else 1, processes)
            if time.monotonic() > end:
                yield f"not begun: {command}"
            elif size <= free:
                free -= size
                name = re.sub(r"\W+", "_", command)[:80]
                with (logs / f"{name}.log").open("wb") as log:
                    child = subprocess.Popen(
                        [sys.executable, *shlex.split(command)[1:]], cwd=root, stdout=log,
                        stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                        start_new_session=True, env=environment,
                    )  # fmt: skip
                running[command] = child, size, time.monotonic()
                yield f"begun: {command}"
            else:
                continue
            waiting.remove(command)
        time.sleep(0.2)


def main() -> int:
    """Print what is older than its code; return 1 if a table differs from its record."""
    parser = argparse.ArgumentParser(description="Check the records and the tables made from them.")
    parser.add_argument("--write", action="store_true", help="write tables and numbers again")
    parser.add_argument("--rerun", nargs="*", metavar="RECORD", help="run old records again")
    parser.add_argument("--plan", nargs="*", metavar="RECORD", help="print what --rerun would run")
    parser.add_argument("--commands", type=Path, help="run these instead, one a line")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--within", type=float, default=3600.0, help="seconds for all of them")
    parser.add_argument("--each", type=float, default=1200.0, help="seconds for a single one")
    parser.add_argument("--logs", type=Path, default=ROOT / "runs/records")
    given = parser.parse_args()
    if given.plan is not None:
        sys.stdout.write(plan(given.plan))
        return 0
    if given.rerun is not None or given.commands:
        lines = given.commands.read_text("utf-8").splitlines() if given.commands else []
        commands = [s for s in map(str.strip, lines) if s and not s.startswith("#")]
        if not commands:
            sys.stdout.write(plan(given.rerun or ()))
            outdated = old_commands(given.rerun or ()).items()
            commands = [command for command, (made, _) in outdated if not why_no_gpu(made[0])]
        for line in run_commands(
            commands,
            processes=given.processes,
            within=given.within,
            each=given.each,
            logs=given.logs,
        ):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    pages += sorted((ROOT / RESULTS).glob("**/*.md"))
    differing = [line for page in pages for line in fill_tables(page, write=given.write)]
    differing += fill_sentences(write=given.write)
    templates = [one.text for one in quoted_sentences()]
    bare = [
        f"{page.relative_to(ROOT)}: {line}"
        for page in pages
        if RESULTS not in page.relative_to(ROOT).parents[1:2]
        for line in sentences_without_record(page, templates)
    ]
    made = {a["command"] for path in (ROOT / RESULTS).glob("*") for a in _about(path).values()}
    odd = sorted(f"{command} ({why})" for command in made if (why := why_not(command)))
    old = list(check_records())
    gpu = [line for line in old if "older than" in line and why_no_gpu(line.split(":")[0])]
    typed = [
        f"{page.relative_to(ROOT)}:{number}: {head.strip()}"
        for page in pages
        if RESULTS not in page.relative_to(ROOT).parents[1:2]
        for number, head in tables_without_record(page)
    ]
    for title, found in (
        ("Records to run again:", [line for line in old if line not in gpu]),
        ("Records of a GPU, older than their code, not to be made here:", gpu),
        ("Tables of numbers without a record:", typed),
        ("Sentences with numbers that are not made from their record:", bare),
        ("Commands that cannot be run again:", odd),
        ("Written again:" if given.write else "Tables that differ from their records:", differing),
    ):
        sys.stdout.write("\n".join([f"{title} {len(found)}", *(f"  {line}" for line in found), ""]))
    return int(bool(differing) and not given.write)


if __name__ == "__main__":
    sys.exit(main())
