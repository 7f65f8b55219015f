"""Keep a run of ``python -m experiments.labels`` for the documentation: table, summary, figure.

python -m experiments.labels --output runs/labels
python benchmarks/labels_record.py runs/labels docs/results/labels
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

FILES = ("summary.json", "figure_labels.svg", "figure_labels.png")
LEAD = """# Few labels, many inputs: a recorded run

`{command}`: {seeds} seeds. A third of the rows is the test set; every method
gets the same labels; the other rows are the proxy. Mean test log-loss, and the paired difference
ours − theirs with its 95 % interval.

![Test log-loss against the number of labels](figure_labels.png)
"""
NOTES = """## Notes

- With a teacher, "ours" is the fit with it and `ProxyLogisticRegression` the same fit without.
- `ppi_py` has no point if there is no unregularised estimate: rare columns of a9a separate its
  labels, and it reports a singular Hessian. If it applies, agreement with it is a test.
- The step sizes of the one-pass methods are chosen on a fifth of the labels: of 20, on four.
"""


def table(rows: list[dict[str, Any]]) -> str:
    lines = ["| labels | against | ours | theirs | ours − theirs |", "|---|---|---|---|---|"]
    lines += [
        f"| {row['labels']} | {row['method']} | {row['ours']:.4f} | {row['theirs']:.4f} "
        f"| {row['difference']:+.4f} ({row['low']:+.4f}, {row['high']:+.4f}) |"
        for row in sorted(rows, key=lambda row: int(row["labels"]))
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("output", type=Path)
    given = parser.parse_args()
    summary = json.loads((given.run / "summary.json").read_text())
    rows = summary["differences"]
    parts = [LEAD.format(command="python -m experiments.labels", seeds=summary["config"]["seeds"])]
    parts += [
        f"## {panel}\n\n{table([row for row in rows if row['panel'] == panel])}\n"
        for panel in dict.fromkeys(row["panel"] for row in rows)
    ]
    given.output.mkdir(parents=True, exist_ok=True)
    (given.output / "report.md").write_text("\n".join([*parts, NOTES]))
    for name in FILES:
        shutil.copyfile(given.run / name, given.output / name)


if __name__ == "__main__":
    main()
