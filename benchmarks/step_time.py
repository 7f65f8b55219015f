"""How long an outer step takes, on this tree and on another commit, in turns on one machine.

    python benchmarks/step_time.py                     # against the commit before the kernel
    python benchmarks/step_time.py --against HEAD~1    # against another
    python benchmarks/step_time.py --subclass          # an empty subclass against its parent, here

Each case is a chunk of steps of ``minimize``; both trees run in processes of their own, asked in
turns for one chunk at a time, and the least processor time of a chunk counts.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parent.parent
REFERENCE = "97768c1"


def make_cases() -> dict[str, Any]:
    import numpy as np

    import proxyprox as pp

    class Mine(pp.ProxyProx):
        """The same method in a class of a user."""

    rng = np.random.default_rng(0)
    X = rng.normal(size=(569, 30)) @ rng.normal(size=(30, 30)) / 5
    y = (X @ rng.normal(size=30) + rng.normal(size=569) > 0).astype(float)
    target = pp.logistic_regression(X, y, l2=1e-3, batch_size=64)
    table = pp.Problem(target, target.label_free())
    A = np.diag(np.linspace(1.0, 2.0, 8))
    small = pp.Problem(pp.Quadratic(A, b=np.ones(8), noise=0.1), pp.Quadratic(A))

    def work(problem: Any, method: Any, steps: int) -> Any:
        return lambda: pp.minimize(problem, method=method, steps=steps, rng=0)

    return {
        "SGD on 8 parameters": work(small, pp.SGD(0.1), 400),
        "ProxyProx(1.0) on 569 × 30": work(table, pp.ProxyProx(1.0), 100),
        'eta="auto" on 569 × 30': work(table, pp.ProxyProx("auto"), 100),
        "ProxyProx(1.0), an empty subclass": work(table, Mine(1.0), 100),
    }


def serve() -> None:
    """Answer each line, the name of a case, with the processor time of one chunk."""
    cases = make_cases()
    for line in sys.stdin:
        work = cases[line.rstrip("\n")]
        begun = time.process_time()
        work()
        print(time.process_time() - begun, flush=True)


class Tree:
    """A process that runs the cases with the code of one tree."""

    def __init__(self, folder: Path) -> None:
        paths = {"PYTHONPATH": str(folder / "src"), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve"], text=True, env={**os.environ, **paths},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def seconds(self, name: str) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(name, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", default=REFERENCE)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--subclass", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve()
        return
    with tempfile.TemporaryDirectory() as folder:
        here = Tree(HOME)
        names = ["SGD on 8 parameters", "ProxyProx(1.0) on 569 × 30", 'eta="auto" on 569 × 30']
        pairs = [(name, here, name) for name in names]
        if given.subclass:
            name, other = names[1], here
            pairs = [("ProxyProx(1.0), an empty subclass", here, name)]
        else:
            archive = subprocess.run(
                ["git", "archive", given.against, "src"], cwd=HOME, capture_output=True, check=True
            )
            subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
            other = Tree(Path(folder))
        for name, tree, rival in pairs:
            found = [(tree.seconds(name), other.seconds(rival)) for _ in range(given.turns + 1)][1:]
            ours, theirs = (min(column) for column in zip(*found, strict=True))
            print(f"{name:36}  {ours / theirs:.2f}  ({1e3 * ours:.1f} ms, {1e3 * theirs:.1f} ms)")
        for tree in {here, other}:
            tree.process.communicate()


if __name__ == "__main__":
    main()
