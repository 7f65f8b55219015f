"""Are the audit's verdicts right? Every case of ``audit_truth.py`` against what the runs showed.

    PROXYPROX_DATA=… python benchmarks/audit_verdicts.py --truth benchmarks/results/truth.json

Right: the choice that the verdict makes (SGD, the proxy as it is, the proxy scaled) needs at most
``SLACK`` times the target gradients of the best choice. The grids of the truth are a factor of 2
and 5 wide, so smaller differences are not told apart by it. Cases in which nothing arrives within
the cap are left out, and counted. Where the audit is unsure, its leaning is judged, and the number
of such cases is said. The rule was made on ``TUNED_ON``, mended after a look at
``TESTED_ON``, and tried on ``HELD_OUT``, five times in all.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

from audit_cases import HELD_OUT, PROXIES, TESTED_ON, TUNED_ON, target
from proxyprox import Problem
from proxyprox.diagnostics import Verdict, audit

SLACK = 1.5
PARTS = {"tuned": TUNED_ON, "tested": TESTED_ON, "held out": HELD_OUT}
OPTIONS = {"DO_NOT_USE": "sgd", "USE": "plain", "USE_SCALED": "scaled"}


def records(truth: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one record for each case and accuracy: the verdict beside the truth."""
    found = []
    for case in truth:
        goal = target(case["dataset"])
        proxy = PROXIES[case["proxy"]](goal)
        for share in case["sgd"]:
            told = audit(Problem(goal, proxy), epsilon=float(share) * case["gap"], rng=1)
            found.append(
                {
                    "name": f"{case['dataset']}: {case['proxy']} at {share}",
                    "dataset": case["dataset"],
                    "verdict": told.leaning.name,
                    "unsure": told.verdict is Verdict.UNSURE,
                    "delta/H": told.delta.estimate / told.H.estimate,
                    "rehearsed": (
                        told.prediction.rehearsed_sgd.steps,
                        told.prediction.rehearsed_proxyprox.steps,
                        told.prediction.rehearsed_best.steps,
                    ),
                    "truth": {name: case[name][share] for name in OPTIONS.values()},
                    "spent": told.ledger.target_gradients,
                }
            )
    return found


def judged(record: dict[str, Any], slack: float = SLACK) -> str:
    """Return "right", "wrong" or "unresolved"."""
    least = min(record["truth"].values())
    if math.isinf(least):
        return "unresolved"
    chosen = record["truth"][OPTIONS[record["verdict"]]]
    return "right" if chosen <= slack * least else "wrong"


def literal(record: dict[str, Any]) -> bool:
    """Tell whether the verdict is right to the letter: no slack, a tie counts against the proxy."""
    sgd, plain, scaled = (record["truth"][name] for name in ("sgd", "plain", "scaled"))
    return {
        "USE": plain < sgd,
        "USE_SCALED": scaled < sgd,
        "DO_NOT_USE": min(plain, scaled) >= sgd,
    }[record["verdict"]]


def best(record: dict[str, Any]) -> str:
    """Return the verdict that would have been best; a proxy must gain ``SLACK`` to be worth it."""
    sgd, plain, scaled = (record["truth"][name] for name in ("sgd", "plain", "scaled"))
    if SLACK * min(plain, scaled) > sgd:
        return "DO_NOT_USE"
    return "USE" if plain <= SLACK * scaled else "USE_SCALED"


def report(title: str, part: list[dict[str, Any]]) -> None:
    """Print the confusion table and what went wrong."""
    resolved = [r for r in part if judged(r) != "unresolved"]
    print(f"\n{title}: {len(resolved)} of {len(part)} resolved")
    for slack in (1.3, SLACK, 2.0):
        right = sum(judged(r, slack) == "right" for r in resolved)
        print(f"within {slack} of the best choice: {right} ({right / len(resolved):.1%})")
    letter = sum(literal(r) for r in resolved)
    print(f"right to the letter (no slack): {letter} ({letter / len(resolved):.1%})")
    print(f"unsure: {sum(r['unsure'] for r in part)} of {len(part)}")
    used = [r for r in resolved if r["verdict"] != "DO_NOT_USE"]
    worse = sum(r["truth"][OPTIONS[r["verdict"]]] > SLACK * r["truth"]["sgd"] for r in used)
    print(f"proxy recommended in {len(used)}, and {SLACK} times worse than SGD in {worse}")
    print("best \\ verdict " + "".join(f"{name:>12}" for name in OPTIONS))
    for truth in OPTIONS:
        counts = [sum(best(r) == truth and r["verdict"] == v for r in resolved) for v in OPTIONS]
        print(f"{truth:<15}" + "".join(f"{n:>12}" for n in counts))
    for r in resolved:
        if judged(r) == "wrong":
            print(f"  wrong: {r['name']}: {r['verdict']}, truth {r['truth']}, {r['rehearsed']}")


def main() -> None:
    """Judge every case of the truth."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--truth", type=Path, required=True)
    parser.add_argument("--part", choices=(*PARTS, "all"), default="all")
    parser.add_argument("--output", type=Path, help="Where to keep the records.")
    chosen = parser.parse_args()
    truth = json.loads(chosen.truth.read_text())
    for part, names in PARTS.items():
        if chosen.part in (part, "all"):
            found = records([c for c in truth if c["dataset"] in names])
            report(part, found)
            if chosen.output is not None:
                file = chosen.output.with_stem(f"{chosen.output.stem}_{part.replace(' ', '_')}")
                file.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
