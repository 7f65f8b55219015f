"""The sentences of the docs whose numbers are read from a record: `make records` compares them.

Each has its page, its record, the words with ``{}`` for each number, and a function that returns
the numbers in their order from ``q``, the :class:`experiments.records.Quoted` of the record.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from statistics import geometric_mean, median

from experiments.records import Quoted, Sentence


def theirs_and_ours(q: Quoted, panel: str, method: str, labels: Sequence[int]) -> list[float]:
    """Return a rival's losses, each with half its interval, and then ours."""
    found = [
        row for n in labels for row in q.rows
        if (row["panel"], row["labels"], row["method"]) == (panel, n, method)
    ]  # fmt: skip
    theirs = [x for row in found for x in (row["theirs"], (row["high"] - row["low"]) / 2)]
    return theirs + [row["ours"] for row in found]


SENTENCES = [
    Sentence(
        "docs/when_not.md",
        "rounds/rounds.csv",
        "a9a to 1e-6: {:g} rounds; ours {:g}, {:g}, {:g} with 1, 5, 20 % of the rows",
        lambda q: [
            q.middle("1e-6", table="a9a", method="Newton from 0"),
            *(
                q.middle("1e-6", table="a9a", proxy=p, method="ours, default")
                for p in ("1 %", "5 %", "20 %")
            ),
        ],
    ),
    Sentence(
        "docs/when_not.md",
        "rounds/rounds.csv",
        "a9a to 1e-6: {:g}, {:g}, {:g} rounds, L-BFGS {:g}, in the sample's metric with the "
        "best λ {:g}, {:g}, {:g}; mushrooms {:g}, {:g}, {:g} against {:g} and {:g}, {:g}, "
        "{:g}",
        lambda q: [
            q.middle("1e-6", table=t, proxy=p, method=m)
            for t in ("a9a", "mushrooms")
            for m in (
                "ours, default",
                "L-BFGS (50) from 0",
                "L-BFGS (50) in the proxy's metric, best λ, from ŵ",
            )
            for p in (("none",) if m.endswith("from 0") else ("1 %", "5 %", "20 %"))
        ],
    ),
    Sentence(
        "docs/when_not.md",
        "rounds/rounds.csv",
        "20,000 columns of text, 1 % of the rows: {:g} rounds, L-BFGS {:g}",
        lambda q: [
            q.middle("1e-6", table="text, d = 20,000", proxy="1 %", method="ours, default"),
            q.middle("1e-6", table="text, d = 20,000", method="L-BFGS (50) from 0"),
        ],
    ),
    Sentence(
        "docs/when_not.md",
        "seconds/seconds.json",
        "{} tables, correlated or badly scaled, of 100,000 rows or more: {:.2f} to {:.2f} "
        "times the fastest of SciPy, scikit-learn and glum",
        lambda q: (lambda ratios: [len(ratios), min(ratios), max(ratios)])(
            [
                min(
                    (
                        f["cpu"]
                        for k, f in t["fits"].items()
                        if k.startswith("prox") and f["gap"] <= 1e-06
                    )
                )
                / min(
                    (
                        f["cpu"]
                        for k, f in t["fits"].items()
                        if not k.startswith("prox") and f["gap"] <= 1e-06
                    )
                )
                for n, t in q.data["tables"].items()
                if n.split("_")[0] not in ("wide", "sparse", "text")
            ]
        ),
    ),
    Sentence(
        "docs/when_not.md",
        "seconds/seconds.json",
        "{} tables: {:.2f} to {:.2f} times the fastest, SciPy",
        lambda q: (lambda ratios: [len(ratios), min(ratios), max(ratios)])(
            [
                min(
                    (
                        f["cpu"]
                        for k, f in t["fits"].items()
                        if k.startswith("prox") and f["gap"] <= 1e-06
                    )
                )
                / min(
                    (
                        f["cpu"]
                        for k, f in t["fits"].items()
                        if not k.startswith("prox") and f["gap"] <= 1e-06
                    )
                )
                for n, t in q.data["tables"].items()
                if n.split("_")[0] in ("wide", "sparse", "text")
            ]
        ),
    ),
    Sentence(
        "docs/when_not.md",
        "no_floor/no_floor.csv",
        "a9a after two passes {}, Adam {}, SGD {}",
        lambda q: [
            q.short(q.middle("suboptimality", problem="a9a, 1 % proxy", passes=2, method=m))
            for m in ("ProxyProx", "Adam", "SGD")
        ],
    ),
    Sentence(
        "docs/when_not.md",
        "no_floor/no_floor.csv",
        "a9a after ten passes {}, ProxyProx {}, Adam {}. If noise vanishes at the minimum, "
        "not: mushrooms {}, ProxyProx {}",
        lambda q: [
            q.short(q.middle("suboptimality", problem=p, passes=10, method=m))
            for p, m in (
                ("a9a, 1 % proxy", "SVRP"),
                ("a9a, 1 % proxy", "ProxyProx"),
                ("a9a, 1 % proxy", "Adam"),
                ("mushrooms, 1 % proxy", "SVRP"),
                ("mushrooms, 1 % proxy", "ProxyProx"),
            )
        ],
    ),
    Sentence(
        "docs/when_not.md",
        "audit/functions.json",
        "of {} audits {} were right, {} wrong, {} unsure; always using it {} right, {} wrong",
        lambda q: (
            lambda said, used: [
                len(said),
                *(said.count(j) for j in ("right", "wrong", "unsure")),
                sum(used),
                len(used) - sum(used),
            ]
        )(
            [r["judged"] for r in q.data],
            [
                (r["truth"]["plain"] or inf) <= 1.5 * min(t or inf for t in r["truth"].values())
                for r in q.data
            ],
        ),
    ),
    Sentence(
        "docs/when_not.md",
        "audit/mushrooms.json",
        "on mushrooms Gaussian rows have δ = {:.2f} H, and ProxyProx needs {:g} gradients, "
        "SGD {:g}",
        lambda q: (
            lambda c: [
                c["delta"]["estimate"] / c["H"]["estimate"],
                c["ran"]["as it is"],
                q.data["sgd ran"],
            ]
        )(next(c for c in q.data["cases"] if c["proxy"] == "unrelated data")),
    ),
    Sentence(
        "docs/when_not.md",
        "auto_eta/auto_eta.json",
        "On a9a the best step at one row is {:.2g}/H with a proxy, {:.2g} to {:.2g}/H without",
        lambda q: (lambda proxy, alone: [proxy[0], alone[0], alone[-1]])(
            *(
                sorted(
                    q.data["methods"][m]["cells"][c][k]["eta_times_H"]
                    for k in ("100", "300", "1000")
                )
                for m, c in (('ProxyProx(eta="auto")', "a9a b1 1%"), ('SGD("auto")', "a9a b1"))
            )
        ),
    ),
    Sentence(
        "docs/when_not.md",
        "auto_eta/auto_eta.json",
        "two rows a batch: {:.0f} to {:.0f} times the best constant step, above the start in "
        "{} of {} runs",
        lambda q: (
            lambda cell: [
                min(c["ratio"] for c in cell),
                max(c["ratio"] for c in cell),
                max(c["above_start"] for c in cell),
                q.data["seeds"],
            ]
        )(
            [
                q.data["methods"]['ProxyProx(eta="auto")']["cells"]["steep poisson b2 10%"][k]
                for k in ("100", "300", "1000")
            ]
        ),
    ),
    Sentence(
        "docs/when_not.md",
        "cifar10/summary.json#rows",
        "ResNet-18 on CIFAR-10, five passes: {:.3f} and {:.3f} in {:.0f} s; ProxyProx {:.3f} "
        "in {:.0f} s",
        lambda q: (
            lambda last: [
                last[0]["test_accuracy_median"],
                last[1]["test_accuracy_median"],
                last[0]["seconds"],
                last[2]["test_accuracy_median"],
                last[2]["seconds"],
            ]
        )(
            [
                [r for r in q.rows if r["panel"] == "test accuracy" and r["method"] == m][-1]
                for m in ("AdamW, refined", "Nesterov, refined", "ProxyProx EMA, refined")
            ]
        ),
    ),
    Sentence(
        "docs/when_not.md",
        "cifar10/figure2.json#rows",
        "ProxyAdamW {:.3f} with nine gradients a step",
        lambda q: [q.middle("end", name="ProxyAdamW: 0.002, mixed", task={"passes": 5})],
    ),
    Sentence(
        "docs/when_not.md",
        "cifar10/figure2.json#rows",
        "ResNet-18, 25 passes: {:.3f} with 1 gradient a step, ProxyAdamW {:.3f} with 9",
        lambda q: [
            q.middle("end", name=n, task={"passes": 25})
            for n in ("AdamW: 0.002", "ProxyAdamW: 0.002, mixed")
        ],
    ),
    Sentence(
        "docs/when_not.md",
        "cifar10/wrong_labels.json#rows",
        "{:.3f}, {:.3f}, {:.3f}; without the matrix {:.3f}, {:.3f}, {:.3f}, ours with the "
        "matrix {:.3f}, {:.3f}, {:.3f}",
        lambda q: [
            max(
                (
                    r
                    for r in q.rows
                    if r["name"].startswith(n + ":")
                    and r["task"]["clean"] == clean
                    and (r["task"]["noise"] == "pair")
                ),
                key=lambda r: r["validation"],
            )["end"]
            for n in ("mixed, forward", "mixed", "ours, confusion")
            for clean in (500, 2000, 8000)
        ],
    ),
    Sentence(
        "docs/when_not.md",
        "other_data/summary.json#rounds",
        "a9a, to 1 % above the least loss: {:g} to {:g} rounds; L-BFGS {:g}, Nesterov {:g}",
        lambda q: (
            lambda n: [
                min(n("minimize(Problem(target, proxy))")),
                max(n("minimize(Problem(target, proxy))")),
                max(n("L-BFGS")),
                max(n("Nesterov")),
            ]
        )(
            lambda m: [
                r["to_one_per_cent"] or inf
                for r in q.rows
                if r["method"] == m and r["panel"].startswith("old")
            ]
        ),
    ),
    Sentence(
        "docs/when_not.md",
        "other_data/summary.json#rounds",
        "{:g} and {:g} rounds, L-BFGS {:g}",
        lambda q: [
            q.middle("to_one_per_cent", panel=p, method=m)
            for p, m in (
                ("other columns", "minimize(Problem(target, proxy))"),
                ("other units", "minimize(Problem(target, proxy))"),
                ("other units", "L-BFGS"),
            )
        ],
    ),
    Sentence(
        "docs/when_not.md",
        "other_data/summary.json#methods",
        "300 labels, {} cases: at most 1 % above the best tuned rival in {}, {:.1f} % in the worst",
        lambda q: (lambda above: [len(above), sum(a <= 0.01 for a in above), 100 * max(above)])(
            [
                r["mean"]
                / min(
                    s["mean"]
                    for s in q.rows
                    if s["panel"] == r["panel"]
                    and s["labels"] == 300
                    and ("ours" not in s["method"])
                    and (s is not r)
                )
                - 1
                for r in q.rows
                if r["method"] == "ProxyLogisticRegression" and r["labels"] == 300
            ]
        ),
    ),
    Sentence(
        "docs/when_not.md",
        "other_data/summary.json#methods",
        "a9a, 50 labels, old labels 30° off: {:.3f}, ours {:.3f}, labels alone {:.3f}. "
        "Unsure: ours, at most 1 % above labels alone in {} cases of {}",
        lambda q: (
            [
                q.middle("mean", panel="old labels 30° off, a9a", labels=50, method=m)
                for m in ("mixed", "ProxyLogisticRegression", "target alone")
            ]
            + (lambda ratios: [sum(x <= 1.01 for x in ratios), len(ratios)])(
                [
                    r["mean"] / q.middle("mean", panel=r["panel"], labels=50, method="target alone")
                    for r in q.rows
                    if r["method"] == "ProxyLogisticRegression" and r["labels"] == 50
                ]
            )
        ),
    ),
    Sentence(
        "docs/when_not.md",
        "arm/summary.json#lines",
        "two-link arm, severe gap, 14 rollouts: {:.1f} → {:.2f} of {:.2f}, identification "
        "alone {:.2f}, then tuned SGD {:.2f}",
        lambda q: (
            [q.middle("start", gap="unseen severe", method="optimum")]
            + [
                q.middle("at_14", gap="unseen severe", method=m)
                for m in ("ours, identified", "optimum", "identification alone", "identified, SGD")
            ]
        ),
    ),
    Sentence(
        "docs/when_not.md",
        "labels/summary.json#differences",
        "a9a, 50 and 200 labels: one pass of SGD {:.3f} ± {:.3f} and {:.3f} ± {:.3f}, of "
        "ProxyProx {:.3f} ± {:.3f} and {:.3f} ± {:.3f}, `LogisticRegressionCV` {:.3f} ± "
        "{:.3f} and {:.3f} ± {:.3f}",
        lambda q: [
            x
            for m in ("SGD, one pass", "ProxyProx, one pass", "LogisticRegressionCV, by log-loss")
            for n in (50, 200)
            for r in q.rows
            if (r["panel"], r["labels"], r["method"]) == ("a9a", n, m)
            for x in (r["theirs"], (r["high"] - r["low"]) / 2)
        ],
    ),
    Sentence(
        "docs/when_not.md",
        "labels/summary.json#differences",
        "a9a, 200 and 1000 labels: {:.3f} ± {:.3f} and {:.3f} ± {:.3f}, ours {:.3f} and {:.3f}",
        lambda q: theirs_and_ours(q, "a9a", "LogisticRegressionCV, by log-loss", (200, 1000)),
    ),
    Sentence(
        "docs/when_not.md",
        "labels/few.json",
        "{} tables, geometric means of ours over theirs: `LogisticRegression()` {:.2f}, "
        "`LogisticRegressionCV` by log-loss {:.2f}; the worst cell {:.2f} and {:.2f}",
        lambda q: (
            lambda ratios: [len(q.data["tables"]), *map(geometric_mean, ratios), *map(max, ratios)]
        )(
            [
                [
                    cell["losses"]["ours"] / cell["losses"][m]
                    for sizes in q.data["tables"].values()
                    for cell in sizes.values()
                ]
                for m in ("LogisticRegression", "the same, by log-loss")
            ]
        ),
    ),
    Sentence(
        "docs/when_not.md",
        "labels/summary.json#differences",
        "wine, 20 labels: {:.3f} ± {:.3f}, ours {:.3f}; on a9a it is the worst: 50 labels "
        "{:.2f} ± {:.2f}, ours {:.3f}",
        lambda q: [
            x
            for cell in (("wine", 20), ("a9a", 50))
            for r in q.rows
            if (r["panel"], r["labels"], r["method"]) == (*cell, "SelfTrainingClassifier")
            for x in (r["theirs"], (r["high"] - r["low"]) / 2, r["ours"])
        ],
    ),
    Sentence(
        "docs/when_not.md",
        "labels/summary.json#differences",
        "a9a, 20 and 50 labels, the teacher alone: {:.3f} ± {:.3f} and {:.3f} ± {:.3f}, ours "
        "{:.3f} and {:.3f}",
        lambda q: theirs_and_ours(q, "a9a, good teacher", "the teacher's answers alone", (20, 50)),
    ),
    Sentence(
        "docs/when_not.md",
        "labels/teacher_tables.json",
        "on {} tables, 50 labels, with teachers good or bad, ours is up to {:.0f} % above "
        "the best way",
        lambda q: [len(set(q.each("table", labels=50))), 100 * max(q.each("above", labels=50))],
    ),
    Sentence(
        "docs/when_not.md",
        "labels/summary.json#differences",
        "a9a, 200 labels: {:.3f}, teacher alone {:.3f} ± {:.3f}, labels alone {:.3f} ± "
        "{:.3f}; with a bad teacher {:.3f}, labels alone {:.3f} ± {:.3f}",
        lambda q: (
            lambda r: (
                [r[0]["ours"]]
                + [x for one in r[:2] for x in (one["theirs"], (one["high"] - one["low"]) / 2)]
                + [r[2]["ours"], r[2]["theirs"], (r[2]["high"] - r[2]["low"]) / 2]
            )
        )(
            [
                one
                for p, m in (
                    ("a9a, good teacher", "the teacher's answers alone"),
                    ("a9a, good teacher", "ProxyLogisticRegression"),
                    ("a9a, bad teacher", "ProxyLogisticRegression"),
                )
                for one in q.rows
                if (one["panel"], one["labels"], one["method"]) == (p, 200, m)
            ]
        ),
    ),
    Sentence(
        "docs/when_not.md",
        "torch/README.md",
        "ResNet-18 on CIFAR-10 {:.3f}, by hand {:.3f}, text {:.3f} nats a byte, by hand {:.3f}",
        lambda q: (
            lambda first: (
                [
                    first("cifar-1", "ours: late")["accuracy"],
                    first("cifar-1", "by hand")["accuracy"],
                ]
                + [
                    float(first("text-part", m)["loss: median (seeds)"].split()[0])
                    for m in ("ours: late", "by hand")
                ]
            )
        )(
            lambda case, recipe: next(
                r for r in q.rows if r.get("case") == case and recipe in r["recipe"]
            )
        ),
    ),
    Sentence(
        "docs/when_not.md",
        "torch/README.md",
        "digits, log-loss: corrected {:.3f}, chosen {:.3f}, by hand {:.3f}; text: late "
        "{:.3f}, by hand {:.3f}",
        lambda q: (
            (lambda r: [r["corrected"], r["chosen"], r["best by hand"]])(
                next(r for r in q.rows if r.get("case") == "fresh rows: other data")
            )
            + [
                float(
                    next(r for r in q.rows if r.get("case") == "text-other" and m in r["recipe"])[
                        "loss: median (seeds)"
                    ].split()[0]
                )
                for m in ("ours: late", "by hand")
            ]
        ),
    ),
    Sentence(
        "docs/when_not.md",
        "torch/README.md",
        "digits, 150 labels, log-loss: {:.3f}, chosen {:.3f}, the best by hand {:.3f}; with "
        "useless labels {:.3f}, chosen {:.3f}, by hand {:.3f}",
        lambda q: [
            float(str(r[k]).split()[-1])
            for case in ("reused: a teacher", "reused: useless labels")
            for r in q.rows
            if r.get("case") == case
            for k in ("by default", "chosen", "best by hand")
        ],
    ),
    Sentence(
        "docs/torch.md",
        "torch/README.md",
        "other data {:.2f} ± {:.2f} times its loss, a part {:.2f} ± {:.2f}, wrong labels in "
        "pairs {:.2f} ± {:.2f}, a teacher {:.2f} ± {:.2f}, worthless labels {:.2f} ± {:.2f}",
        lambda q: [
            float(x)
            for case in (
                "fresh rows: other data",
                "fresh rows: a part",
                "reused: wrong labels, pairs",
                "reused: a teacher",
                "reused: useless labels",
            )
            for r in q.rows
            if r.get("case") == case
            for x in r["ratio"].split(" ± ")
        ],
    ),
    Sentence(
        "docs/when_not.md",
        "private/fresh.json",
        "in the public Hessian's metric and plain: {:+.4f} ± {:.4f} and {:+.4f} ± {:.4f} "
        "(2,000 rows, ε = 1)",
        lambda q: [
            q.each("ours minus", case="a9a 1000/2000", epsilon=1.0)[0][m][k]
            for m in ("metric DP-GD, tail", "DP-GD, tail")
            for k in ("mean", "se")
        ],
    ),
    Sentence(
        "docs/when_not.md",
        "private/fresh_20000.json",
        "{:+.4f} ± {:.4f} and {:+.4f} ± {:.4f} (20,000, ε = 0.3)",
        lambda q: [
            q.each("ours minus", case="a9a 1000/20000", epsilon=0.3)[0][m][k]
            for m in ("metric DP-GD, tail", "DP-GD, tail")
            for k in ("mean", "se")
        ],
    ),
    Sentence(
        "docs/when_not.md",
        "private/fresh_20000.json",
        "ours less it: CIFAR-10 at 4 × 4 pixels, 20,000 rows, ε = 3: {:+.4f}; a9a {:+.4f}",
        lambda q: [
            q.each("ours minus", case=c, epsilon=3.0)[0]["metric DP-GD, tail"]["mean"]
            for c in ("pixels 1000/20000", "a9a 1000/20000")
        ],
    ),
    Sentence(
        "docs/when_not.md",
        "simulators/calls.json",
        "{} fits, medians: {:g} to {:g} calls to 1 %, {:g} to {:g} to 1e-4; SciPy's "
        "`least_squares` {:g} to {:g} and {:g} to {:g}, ahead of ours on {} of them at 1e-4; "
        "manifold mapping by hand {:g} to {:g} and {:g} to {:g}",
        lambda q: (
            lambda calls: (
                lambda ours, scipy, hand: (
                    [len(ours[0])]
                    + [f(m[k]) for m in (ours, scipy) for k in (0, 1) for f in (min, max)]
                    + [sum((a > b for a, b in zip(ours[1], scipy[1], strict=False)))]
                    + [f(hand[k]) for k in (0, 1) for f in (min, max)]
                )
            )(
                *(
                    [calls(names, level) for level in (0, 1)]
                    for names in (("ours",), ("lm w0", "lm ĉ", "trf w0", "trf ĉ"), ("prototype",))
                )
            )
        )(
            lambda names, level: [
                median(
                    min(r["calls"][n][level] or inf for n in names)
                    for r in q.rows
                    if r["problem"] == p
                )
                for p in dict.fromkeys(r["problem"] for r in q.rows)
                if p
                not in ("enzyme, quasi-steady", "prey, other laws", "dose, unseen tissue", "Lorenz")
            ]
        ),
    ),
    Sentence(
        "docs/one_label.md",
        "mushrooms/summary.json#rows",
        "(medians of {} seeds) ProxyProx with solved subproblems is {} above the optimum, "
        "Adam {}, Nesterov's momentum {}, SGD {}, and fitting the rows seen (ERM) {}",
        lambda q: (
            [q.rows[0]["seeds"]]
            + [
                q.short(
                    q.middle(
                        "suboptimality_median", panel="batch 256", target_gradients=1000, method=m
                    )
                )
                for m in ("ProxyProx, exact", "Adam", "Nesterov", "SGD", "ERM on the rows seen")
            ]
        ),
    ),
    Sentence(
        "docs/one_label.md",
        "auto_eta/auto_eta.json",
        "the best constant step at one row a batch is {:.2g}/H with a proxy and {:.2g} to "
        "{:.2g}/H without, at 256 rows {:.2g} to {:.2g}/H and {:.2g} to {:.2g}/H",
        lambda q: (lambda a, b, c, d: [a[0], b[0], b[-1], c[0], c[-1], d[0], d[-1]])(
            *(
                sorted(
                    q.data["methods"][m]["cells"][c][k]["eta_times_H"]
                    for k in ("100", "300", "1000")
                )
                for m, c in (
                    ('ProxyProx(eta="auto")', "a9a b1 1%"),
                    ('SGD("auto")', "a9a b1"),
                    ('ProxyProx(eta="auto")', "a9a b256 10%"),
                    ('SGD("auto")', "a9a b256"),
                )
            )
        ),
    ),
    Sentence(
        "docs/choosing.md",
        "no_floor/no_floor.csv",
        "on a9a after ten passes it is at {}, the best of ten settings at {}",
        lambda q: [
            q.short(q.middle("suboptimality", problem="a9a, 1 % proxy", passes=10, method=m))
            for m in ("SVRP auto", "SVRP")
        ],
    ),
    Sentence(
        "docs/labelling.md",
        "labels/criteria.md",
        "in the geometric mean: {:.2f} of `uniform`'s",
        lambda q: [next(r for r in q.rows if "geometric mean" in r[next(iter(r))])["margin"]],
    ),
    Sentence(
        "docs/planning_clusters.md",
        "scale/scale.json",
        "Plain L-BFGS from 0 takes {} passes on 0.2 GB of the same rows",
        lambda q: [
            next(
                t[0]
                for t in q.data["sizes"]["0.2"]["lbfgs_zero"]["trace"]
                if t[2] <= (1 + 1e-06) * q.data["sizes"]["0.2"]["optimum"]["optimum"]
            )
        ],
    ),
    Sentence(
        "docs/planning_clusters.md",
        "scale/scale.json",
        "SGD over the partitions stays at {}",
        lambda q: [
            q.short(
                q.data["sizes"]["0.2"]["sgd"]["trace"][-1][2]
                / q.data["sizes"]["0.2"]["optimum"]["optimum"]
                - 1
            )
        ],
    ),
    Sentence(
        "docs/few_exact_gradients.md",
        "rounds/rounds.csv",
        "by hand {:g} and {:g} rounds, ours {:g} and {:g}",
        lambda q: [
            q.middle("1e-6", table="mushrooms", proxy=p, method=m)
            for m in ("L-BFGS (50) in the proxy's metric, best λ, from ŵ", "ours, default")
            for p in ("1 %", "5 %")
        ],
    ),
    Sentence(
        "docs/few_exact_gradients.md",
        "rounds/rounds.csv",
        "× 0.001) cost no round on these two tables: {:g} to {:g} on mushrooms and {:g} to "
        "{:g} on a9a, L-BFGS {:g} and {:g}",
        lambda q: (
            [
                f(
                    q.middle("1e-6", table=t, proxy=p, method="ours, default")
                    for p in ("columns permuted", "labels flipped", "negated", "× 1000", "× 0.001")
                )
                for t in ("mushrooms, useless proxies", "a9a, useless proxies")
                for f in (min, max)
            ]
            + [q.middle("1e-6", table=t, method="L-BFGS (50) from 0") for t in ("mushrooms", "a9a")]
        ),
    ),
    Sentence(
        "docs/results/no_floor/README.md",
        "no_floor/no_floor.csv",
        "after five {} and {}, after twenty {} and {}. SAGA, one row at a time, is at {} and "
        "{} then, SVRP at {} after twenty, ProxyBFGS with full gradients at {} and {}",
        lambda q: [
            q.short(
                q.middle("suboptimality", problem="a9a, 1000 rows, 10 % proxy", passes=p, method=m)
            )
            for m, p in (
                ("Adam", 5),
                ("ProxyProx", 5),
                ("Adam", 20),
                ("ProxyProx", 20),
                ("SAGA", 5),
                ("SAGA", 20),
                ("SVRP", 20),
                ("ProxyBFGS", 5),
                ("ProxyBFGS", 20),
            )
        ],
    ),
    Sentence(
        "docs/other_data.md",
        "other_data/summary.json#methods",
        "with opposite old labels and 50 of its own {:.3f} against {:.3f}",
        lambda q: [
            q.middle("mean", panel="old labels opposite, a9a", labels=50, method=m)
            for m in ("ProxyLogisticRegression", "target alone")
        ],
    ),
    Sentence(
        "docs/results/other_data/cases.md",
        "other_data/summary.json#methods",
        "labels alone, 50 labels: {:.3f} against {:.3f} and {:.3f} against {:.3f}",
        lambda q: [
            q.middle("mean", panel=p, labels=50, method=m)
            for p in ("old labels 30° off, a9a", "old inputs, a9a")
            for m in ("ours, new inputs without labels", "target alone")
        ],
    ),
    Sentence(
        "docs/results/other_data/cases.md",
        "other_data/summary.json#methods",
        "labels 30° off: {:.3f} against {:.3f}; inputs drifted: {:.3f} against {:.3f}",
        lambda q: [
            q.middle("mean", panel=p, labels=50, method=m)
            for p in ("old labels 30° off, a9a", "old inputs, a9a")
            for m in ("ours, the old model's answers on new inputs", "ProxyLogisticRegression")
        ],
    ),
    Sentence(
        "docs/several_proxies.md",
        "several_proxies/useless.json",
        "took at most {:.2f} times the rounds of L-BFGS (memory 50), plus {:g}",
        lambda q: [(q.rows[0]["limit"] - 3) / q.rows[0]["L-BFGS (50)"], 3],
    ),
    Sentence(
        "docs/other_data.md",
        "other_data/summary.json#methods",
        "Ours was worse than the labels alone by more than 1 % in {} of {} cases, by {:.0f} "
        "% at most, in the worst seed {:.2f} times, and more than 1 % above the best rival, "
        "which is known only afterwards, in {}, by {:.0f} % at most",
        lambda q: (
            lambda ours, alone, best: [
                sum(a > 0.01 for a in alone),
                len(ours),
                100 * max(alone),
                max(r["worst"] for r in ours),
                sum(b > 0.01 for b in best),
                100 * max(best),
            ]
        )(
            *(
                lambda ours: (
                    ours,
                    [
                        r["mean"]
                        / q.middle(
                            "mean", panel=r["panel"], labels=r["labels"], method="target alone"
                        )
                        - 1
                        for r in ours
                    ],
                    [
                        r["mean"]
                        / min(
                            s["mean"]
                            for s in q.rows
                            if (s["panel"], s["labels"]) == (r["panel"], r["labels"])
                            and "ours" not in s["method"]
                            and (s is not r)
                        )
                        - 1
                        for r in ours
                    ],
                )
            )([r for r in q.rows if r["method"] == "ProxyLogisticRegression"])
        ),
    ),
    Sentence(
        "docs/other_data.md",
        "other_data/summary.json#rounds",
        "ours {:g} where old labels are 30° off, {:g} where they are 75° off or opposite, "
        "{:g} where inputs drifted; L-BFGS {:g}, Nesterov {:g}",
        lambda q: [
            max(r["to_one_per_cent"] or inf for r in q.rows if r["method"] == m and r["panel"] in p)
            for m, p in (
                ("minimize(Problem(target, proxy))", ("old labels 30° off",)),
                ("minimize(Problem(target, proxy))", ("old labels 75° off", "old labels opposite")),
                ("minimize(Problem(target, proxy))", ("old inputs",)),
                ("L-BFGS", ("old inputs", "old labels 30° off")),
                ("Nesterov", ("old inputs", "old labels 30° off")),
            )
        ],
    ),
    Sentence(
        "docs/simulation.md",
        "cartpole/summary.json#records",
        "linear gains from {:.2f} to {:.2f}, {:.2f} and {:.2f}, and a small network to "
        "{:.2f}, {:.2f} and {:.2f}; with identification {:.2f}, {:.2f}, {:.2f} and {:.2f}, "
        "{:.2f}, {:.2f}; SGD with step 1 to {:.2f} at most, with step 3 to {:.0f}; evolution "
        "strategies to {:.2f} at best",
        lambda q: (
            lambda r: [
                q.rows[0]["before"],
                *r("linear", "adjoint"),
                *r("network", "adjoint"),
                *r("linear", "adjoint, identified"),
                *r("network", "adjoint, identified"),
                max(r("linear", "SGD 1") + r("network", "SGD 1")),
                max(r("linear", "SGD 3") + r("network", "SGD 3")),
                min(r("linear", "Adam, ES") + r("network", "Adam, ES")),
            ]
        )(
            lambda policy, estimator: [
                x["after"] for x in q.rows if (x["policy"], x["estimator"]) == (policy, estimator)
            ]
        ),
    ),
    Sentence(
        "docs/simulation.md",
        "guard/records.jsonl",
        "of {} runs {} ended above 1.1 times the start, at {:.2f} times, and {:.0f} % kept it",
        lambda q: (
            lambda ratios: [
                len(ratios),
                sum(r > 1.1 for r in ratios),
                max(ratios),
                100 * sum(r["kept"] for r in q.rows) / len(q.rows),
            ]
        )([r["answer"] / r["start"] for r in q.rows]),
    ),
    Sentence(
        "docs/private.md",
        "private/fresh.json",
        "a9a, 2,000 rows, metric DP-GD: {:+.4f}, {:+.4f}, {:+.4f}; its last iterate: "
        "{:+.4f}, {:+.4f}, {:+.4f}; plain DP-GD: {:+.4f}, {:+.4f}, {:+.4f}",
        lambda q: [
            r["ours minus"][k]["mean"]
            for k in ("metric DP-GD, tail", "metric DP-GD, last", "DP-GD, tail")
            for r in q.rows
            if r["case"] == "a9a 1000/2000"
        ],
    ),
    Sentence(
        "docs/private.md",
        "private/fresh_20000.json",
        "a9a, 20,000 rows, metric DP-GD: {:+.4f}, {:+.4f}, {:+.4f}; plain DP-GD: {:+.4f}, "
        "{:+.4f}, {:+.4f}",
        lambda q: [
            r["ours minus"][k]["mean"]
            for k in ("metric DP-GD, tail", "DP-GD, tail")
            for r in q.rows
            if r["case"] == "a9a 1000/20000"
        ],
    ),
    Sentence(
        "docs/private.md",
        "private/fresh.json",
        "CIFAR-10 at 4 × 4 pixels, metric DP-GD, 2,000 rows: {:+.4f}, {:+.4f}, {:+.4f}",
        lambda q: [
            r["ours minus"][k]["mean"]
            for k in ("metric DP-GD, tail",)
            for r in q.rows
            if r["case"] == "pixels 1000/2000"
        ],
    ),
    Sentence(
        "docs/private.md",
        "private/fresh_20000.json",
        "20,000 rows: {:+.4f}, {:+.4f}, {:+.4f}",
        lambda q: [
            r["ours minus"][k]["mean"]
            for k in ("metric DP-GD, tail",)
            for r in q.rows
            if r["case"] == "pixels 1000/20000"
        ],
    ),
    Sentence(
        "docs/private.md",
        "private/fresh.json",
        "mushrooms, 2,000 rows, metric DP-GD: {:+.4f}, {:+.4f}, {:+.4f}; the public fit: "
        "{:+.4f}, {:+.4f}, {:+.4f}",
        lambda q: [
            r["ours minus"][k]["mean"]
            for k in ("metric DP-GD, tail", "public")
            for r in q.rows
            if r["case"] == "mushrooms 500/2000"
        ],
    ),
    Sentence(
        "docs/private.md",
        "private/fresh.json",
        "Raw log-normal columns, 2,000 rows: {:.4f}, {:.4f}, {:.4f}; scaled by hand: {:.4f}, "
        "{:.4f}, {:.4f}",
        lambda q: [
            r["loss"][k]
            for c, k in (("skewed 1000/2000", "ours"), ("scaled by hand 1000/2000", "ours"))
            for r in q.rows
            if r["case"] == c
        ],
    ),
    Sentence(
        "docs/private.md",
        "private/fresh.json",
        "cut at the quantiles of the public rows: {:.4f}; of the whole table, as by hand: {:.4f}",
        lambda q: [
            next(r["loss"][k] for r in q.rows if r["case"] == c)
            for c, k in (
                ("skewed 1000/2000", "ceiling with public cuts"),
                ("scaled by hand 1000/2000", "ceiling"),
            )
        ],
    ),
    Sentence(
        "docs/private.md",
        "private/fresh.json",
        "Without public rows, a9a, 2,000 rows: {:.4f}, {:.4f}, {:.4f}; DP-GD from zero: "
        "{:.4f}, {:.4f}, {:.4f}; without noise {:.4f}",
        lambda q: (
            lambda own: [
                *(r["loss"]["ours, no public rows"] for r in own),
                *(min(r["loss"][f"DP-GD from zero, {a}"] for a in ("last", "tail")) for r in own),
                own[0]["loss"]["ceiling of private rows"],
            ]
        )([r for r in q.rows if r["case"] == "a9a 1000/2000"]),
    ),
    Sentence(
        "docs/private.md",
        "private/fresh_20000.json",
        "With 20,000 rows: {:.4f}, {:.4f}, {:.4f}; DP-GD from zero: {:.4f}, {:.4f}, {:.4f}",
        lambda q: (
            lambda own: [
                *(r["loss"]["ours, no public rows"] for r in own),
                *(min(r["loss"][f"DP-GD from zero, {a}"] for a in ("last", "tail")) for r in own),
            ]
        )([r for r in q.rows if r["case"] == "a9a 1000/20000"]),
    ),
    Sentence(
        "docs/when_not.md",
        "auto_eta/safeguard.json",
        "The safeguard ends within 2 % of tuned SGD on {} targets of {}",
        lambda q: (lambda worst: [sum(w <= 0.02 for w in worst), len(worst)])(
            [
                max(max(row["safeguard"], row["without_erm"]) for row in rows.values())
                for rows in q.data["targets"].values()
            ]
        ),
    ),
    Sentence(
        "docs/private.md",
        "private/flower.json",
        "five invented tables, ε = 1, test log-loss after 1, 3 and 10 rounds: {:.4f}, "
        "{:.4f}, {:.4f}; after 3, 10 and 30: FedAvg {:.4f}, {:.4f}, {:.4f}, SCAFFOLD {:.4f}, "
        "{:.4f}, {:.4f}, FedAvg in the public metric {:.4f}, {:.4f}, {:.4f}; public fit "
        "{:.4f}, ceiling {:.4f}. One round sends {:.0f} kB, ten of FedAvg {:.0f}",
        lambda q: (
            lambda of: [
                *(
                    of(m, r)["loss"]
                    for m in ("ours", "FedAvg", "SCAFFOLD", "FedAvg in the metric")
                    for r in ((1, 3, 10) if m == "ours" else (3, 10, 30))
                ),
                q.data["public"],
                q.data["ceiling"],
                of("ours", 1)["bytes"] / 1000,
                of("FedAvg", 10)["bytes"] / 1000,
            ]
        )(
            lambda method, rounds: next(
                x for x in q.data["lines"] if (x["method"], x["rounds"]) == (method, rounds)
            )
        ),
    ),
]
