"""The worked cases of ``docs/is_my_proxy_any_good.md``: audits, and the runs that check them.

PROXYPROX_DATA=… python benchmarks/audit_docs.py --output docs/results/audit/mushrooms.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from audit_truth import CAP, needed
from experiments import datasets
from experiments.records import write_record
from proxyprox import GLM, Problem, logistic_regression, minimize
from proxyprox.diagnostics.audit import audit, plan
from proxyprox.inner.exact import minimise_exactly
from proxyprox.problems import MixedProxy

SHARE = 0.01
"""ε as a share of the start's suboptimality."""

SEEDS = (0, 1, 2)

SMALL = 130
"""A smaller budget for the audit, to see whether the verdict stays."""


def proxies(target: GLM) -> dict[str, object]:
    """Return the cases of the page, from perfect to useless."""
    X = target.design.X.toarray()
    rng = np.random.default_rng(0)
    # One input in ten is replaced by that of another row: newer, dirtier data.
    shuffled = np.stack([rng.permutation(column) for column in X.T], axis=1)
    shifted = np.where(rng.random(X.shape) < 0.1, shuffled, X)[:2000]
    unrelated = rng.standard_normal((2000, X.shape[1])) * np.sqrt(np.mean(X * X))
    return {
        "all inputs, no labels": target.label_free(),
        "the same × 1000": MixedProxy([target.label_free()], [1000.0]),
        "5 % of the rows": target.subsample(round(0.05 * target.design.rows), rng=0),
        "shifted data": target.label_free(shifted),
        "unrelated data": target.label_free(unrelated),
    }


def record(target: GLM, name: str, proxy: object, best: float, gap: float) -> dict[str, Any]:
    """Return what the audit says of a proxy, and what runs with it need."""
    key, found = f"{SHARE:g}", audit(Problem(target, proxy), epsilon=SHARE * gap, rng=0)
    planned, small = (
        plan(found),
        audit(Problem(target, proxy), epsilon=SHARE * gap, rng=0, budget=SMALL),
    )
    ends = [
        target.value(minimize(planned.problem, **planned.arguments, rng=seed).w) - best
        for seed in SEEDS
    ]
    told, offered = found.prediction, found.recommended.proxy
    as_it_is = needed(target, proxy, best, gap, SEEDS)[key]
    scaled = needed(target, offered, best, gap, SEEDS)[key] if found.factor != 1.0 else as_it_is
    return {
        "proxy": name,
        "verdict": found.verdict.name,
        "reasons": found.reasons,
        **{quantity: getattr(found, quantity)._asdict() for quantity in ("delta", "H", "mu")},
        "sigma2": found.sigma2._asdict(),
        "scale": found.scale,
        "rehearsed": {
            "sgd": told.sgd.steps,
            "as it is": told.proxyprox.steps,
            "as offered": told.best.steps,
        },
        "ran": {"as it is": as_it_is, "as offered": scaled},
        "audit": {
            "target_gradients": found.ledger.target_gradients,
            "target_samples": found.ledger.target_samples,
        },
        "smaller audit": {
            "target_gradients": small.ledger.target_gradients,
            "verdict": small.verdict.name,
            "delta": small.delta._asdict(),
        },
        "plan": {
            "method": repr(planned.method),
            "steps": planned.steps,
            "averaging": repr(planned.averaging),
            "reached, in units of ε": float(np.mean(ends)) / planned.epsilon,
        },
    }


def worked_table(record: Path) -> str:
    """Return the cases as the page has them."""
    said = {"USE": "use it", "DO_NOT_USE": "do not use it", "USE_SCALED": "use it with the scale"}
    found = json.loads(record.read_text(encoding="utf-8"))
    rows = ["| proxy | δ | δ/H | ProxyProx rehearsed | ran | plan | verdict |", "|" + "---|" * 7]
    for case in found["cases"]:
        delta, H = case["delta"]["estimate"], case["H"]["estimate"]
        share, both = delta / H, case["verdict"] == "USE_SCALED"
        rehearsed, ran = (
            "{}{}".format(
                f"{steps['as it is']:.0f}" if steps["as it is"] else f"more than {found['cap']}",
                f", scaled {steps['as offered']:.0f}" if both else "",
            )
            for steps in (case["rehearsed"], case["ran"])
        )
        verdict = said[case["verdict"]] + (f" {case['scale']:.4g}" if both else "")
        name = "SGD: " if case["verdict"] == "DO_NOT_USE" else ""
        cells = [
            case["proxy"], f"{delta:.2g}" if delta < 100 else f"{delta:.0f}",
            "0" if share < 1e-9 else f"{share:.2g}" if share < 100 else f"{share:.0f}",
            rehearsed, ran, f"{name}{case['plan']['reached, in units of ε']:.1f} ε", verdict,
        ]  # fmt: skip
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def main() -> None:
    """Write one record for each case."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, required=True)
    file = parser.parse_args().output
    data = datasets.load("mushrooms")
    target = logistic_regression(data.X, data.y, l2=1e-4, batch_size=256)
    best = target.value(minimise_exactly(target, target.zeros(), tol=1e-10))
    gap = target.value(target.zeros()) - best
    summary: dict[str, Any] = {
        "data": "mushrooms", "l2": 1e-4, "batch_size": 256, "seeds": len(SEEDS),
        "epsilon": SHARE * gap, "cap": CAP,
        "sgd ran": needed(target, None, best, gap, SEEDS)[f"{SHARE:g}"], "cases": [],
    }  # fmt: skip
    for name, proxy in proxies(target).items():
        summary["cases"].append(record(target, name, proxy, best, gap))
        print(json.dumps(summary["cases"][-1], ensure_ascii=False), flush=True)
        write_record(file, summary, measures=["src/proxyprox/diagnostics"])


if __name__ == "__main__":
    main()
