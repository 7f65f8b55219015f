"""Are the audit's verdicts right? Every case of ``audit_truth.py`` against what the runs showed.

    PROXYPROX_DATA=… python benchmarks/audit_verdicts.py --truth benchmarks/results/truth.json
        --rules docs/results/audit/rules.json

Right: the choice that the verdict makes (SGD, the proxy as it is, the proxy scaled) needs at most
``SLACK`` times the target gradients of the best choice. The grids of the truth are a factor of 2
and 5 wide, so smaller differences are not told apart by it. Cases in which nothing arrives within
the cap are left out, and counted. If the audit is unsure, its leaning is judged, and the number
of such cases is said. Trivial rules, which need no audit or δ and H alone, stand beside it. The
rule was made on ``TUNED_ON``, mended after a look at ``TESTED_ON``, and tried on ``HELD_OUT``, five
times in all.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

from audit_cases import HELD_OUT, PROXIES, TESTED_ON, TUNED_ON, target
from experiments.records import write_record
from proxyprox import Problem
from proxyprox.diagnostics.audit import audit
from proxyprox.diagnostics.report import Verdict

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
                        told.prediction.sgd.steps,
                        told.prediction.proxyprox.steps,
                        told.prediction.best.steps,
                    ),
                    "truth": {name: case[name][share] for name in OPTIONS.values()},
                    "spent": told.ledger.target_gradients,
                }
            )
    return found


def beside_trivial_rules(lines: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return how the audit and trivial rules choose: right, wrong, unsure, steps against the best.

    A line has a "leaning", whether the audit was "unsure", "delta/H" and the "truth". Lines in
    which nothing arrives are left out. Steps are a geometric mean, a choice that does not arrive
    counts as a hundred times the best.
    """
    choices = {
        "audit": lambda line: OPTIONS[line["leaning"]],
        "always, scaled": lambda line: "scaled",
        "always, as it is": lambda line: "plain",
        "never": lambda line: "sgd",
        "if δ < H": lambda line: "plain" if line["delta/H"] < 1 else "sgd",
        "scaled if δ < H, else none": lambda line: "scaled" if line["delta/H"] < 1 else "sgd",
    }
    lines = [line for line in lines if not math.isinf(min(line["truth"].values()))]
    found = {}
    for name, choose in choices.items():
        ratios = [line["truth"][choose(line)] / min(line["truth"].values()) for line in lines]
        unsure = [name == "audit" and line["unsure"] for line in lines]
        right = [ratio <= SLACK for ratio in ratios]
        found[name] = {
            "right": sum(r and not u for r, u in zip(right, unsure, strict=True)),
            "wrong": sum(not r and not u for r, u in zip(right, unsure, strict=True)),
            "unsure": sum(unsure),
            "unsure, leaning right": sum(r and u for r, u in zip(right, unsure, strict=True)),
            "steps": round(math.exp(sum(math.log(min(r, 100.0)) for r in ratios) / len(ratios)), 3),
        }
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


def verdicts_table(file: Path) -> str:
    """Return how many verdicts were right, on each part of the data."""
    rows = ["| data | resolved | within 1.3 | within 1.5 | within 2 | to the letter |"]
    rows.append("|" + "---|" * 6)
    for part, found in json.loads(file.read_text(encoding="utf-8"))["parts"].items():
        keys = ("within 1.3", "within 1.5", "within 2", "to the letter")
        shares = (f"{found[f'right {key}'] / found['resolved']:.1%}" for key in keys)
        names = ", ".join(found["data sets"])
        rows.append(f"| {part}: {names} | {found['resolved']} | {' | '.join(shares)} |")
    return "\n".join(rows)


def main() -> None:
    """Judge every case of the truth."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--truth", type=Path, required=True)
    parser.add_argument("--part", choices=(*PARTS, "all"), default="all")
    parser.add_argument("--output", type=Path, help="Where to keep the records.")
    parser.add_argument(
        "--rules", type=Path, help="Where to keep the comparison with trivial rules."
    )
    chosen = parser.parse_args()
    truth = json.loads(chosen.truth.read_text())
    rules = json.loads(chosen.rules.read_text()) if chosen.rules and chosen.rules.exists() else {}
    for part, names in PARTS.items():
        if chosen.part in (part, "all"):
            found = records([c for c in truth if c["dataset"] in names])
            if not found:
                continue
            report(part, found)
            rules[part] = beside_trivial_rules([{**r, "leaning": r["verdict"]} for r in found])
            rules[part]["truth seeds"] = truth[0].get("seeds", 6)
            print(json.dumps(rules[part], indent=1, ensure_ascii=False))
            if chosen.output is not None:
                file = chosen.output.with_stem(f"{chosen.output.stem}_{part.replace(' ', '_')}")
                write_record(file, found, measures=["src/proxyprox/diagnostics"])
    if chosen.rules is not None:
        write_record(chosen.rules, rules, measures=["src/proxyprox/diagnostics"])


if __name__ == "__main__":
    main()
