"""The core's benchmarks as ratios: prints a table, writes benchmarks/results/core.json."""

from __future__ import annotations

import json
import platform
import sys
from dataclasses import asdict
from pathlib import Path

from threadpoolctl import threadpool_limits

import closed_form
import driver
import outer_step
import scaling
import speed_steps
import speed_text
import startup
from experiments.datasets import DatasetError


def main() -> int:
    table = []
    with threadpool_limits(1):
        for part in (outer_step, closed_form, driver, scaling, speed_steps, speed_text, startup):
            try:
                table += part.rows()
            except DatasetError as error:
                print(f"skipped {part.__name__}: {error}", file=sys.stderr)
    print(f"{'what':<60}{'measured':>11}{'baseline':>11}{'ratio':>9}{'limit':>9}")
    for row in table:
        print(
            f"{row.name:<60}{row.measured:>11.3g}{row.baseline:>11.3g}"
            f"{row.ratio:>9.3g}{row.limit:>9.3g}  {'ok' if row.ok else 'OVER'}  {row.note}"
        )
    folder = Path(__file__).parent / "results"
    folder.mkdir(exist_ok=True)
    report = {
        "machine": platform.machine(),
        "python": platform.python_version(),
        "rows": [asdict(row) | {"ok": row.ok} for row in table],
    }
    (folder / "core.json").write_text(json.dumps(report, indent=1) + "\n")
    return 0 if all(row.ok for row in table) else 1


if __name__ == "__main__":
    sys.exit(main())
