"""Draw the pictures of the README and of "How it works": ``python docs/pictures.py [FOLDER]``.

The README's are of records, the others are small exact computations, one for each idea. They are
narrow, because the README's table shows them at 400 pixels. `make docs` runs this before the build.
"""

from __future__ import annotations

import csv
import json
import math
import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OURS, RIVAL, GREY, GREEN = "#0072B2", "#D55E00", "#737373", "#009E73"


def seconds(axes) -> None:
    """Show recorded CPU seconds to a relative gap of 1e-6, ours and those of four rivals."""
    (axis,) = axes
    methods = {
        "proxyprox": ("proxyprox", OURS, "o"),
        "SciPy, L-BFGS-B": ("scipy", GREY, "s"),
        "scikit-learn, lbfgs": ("sklearn lbfgs", RIVAL, "^"),
        "newton-cholesky": ("sklearn newton-cholesky", RIVAL, "v"),
        "glum, irls": ("glum irls", GREEN, "D"),
    }
    record = Path(__file__).parent / "results" / "seconds" / "seconds.json"
    tables = json.loads(record.read_text(encoding="utf-8"))["tables"]
    names = sorted(tables, key=lambda name: _size(tables[name]))
    for label, (method, colour, mark) in methods.items():
        places, found = [], []
        for place, name in enumerate(names):
            fits = tables[name]["fits"].items()
            each = [
                row["cpu"] for key, row in fits if key.startswith(method) and row["gap"] <= 1e-6
            ]
            if each:
                places.append(place)
                found.append(min(each))
        axis.plot(
            found, places, mark, color=colour, label=label, ms=7, mec="white", mew=0.5,
            zorder=3 if label == "proxyprox" else 2,
        )  # fmt: skip
    shapes = [tables[name]["table"] for name in names]
    kinds = [shape["kind"] + ", scaled" * shape["scaled"] for shape in shapes]
    axis.set_yticks(
        range(len(names)),
        [
            f"{shape['family'].replace('logistic', '')} {kind}\n"
            f"{shape['rows']:,} × {shape['columns']:,}".strip()
            for kind, shape in zip(kinds, shapes, strict=True)
        ],
        fontsize=8,
    )
    axis.set(xscale="log", xlabel="CPU seconds to a relative gap of 1e-6, one thread")
    axis.xaxis.set_major_formatter("{x:g}")
    axis.grid(axis="y", alpha=0.3)
    axis.figure.legend(loc="outside upper center", ncols=3, frameon=False, columnspacing=1)


def _size(found) -> int:
    return found["table"]["rows"] * found["table"]["columns"]


BY_HAND = (
    "L-BFGS (50) in the proxy's metric, best λ, from ŵ",
    "L-BFGS (50) in the proxy's metric from ŵ",
)
"""With the damping that is best in hindsight; beyond 1,000 parameters without any."""


def rounds(axes) -> None:
    """Show recorded rounds to L − L* ≤ 1e-6, ours and the strongest rivals, on four tables."""
    methods = {
        "L-BFGS\nfrom 0": ("L-BFGS (50) from 0", GREY),
        "L-BFGS\nfrom ŵ": ("L-BFGS (50) from ŵ", GREY),
        "in the\nproxy's metric": (BY_HAND[0], RIVAL),
        "proxyprox": ("ours, default", OURS),
        "Newton\nfrom ŵ": ("Newton from ŵ", "#CC79A7"),
    }
    tables = {
        "mushrooms": "mushrooms, d = 112",
        "a9a": "a9a, d = 123",
        "sparse, d = 300": "sparse, d = 300",
        "text, d = 20,000": "text, d = 20,000",
    }
    record = Path(__file__).parent / "results" / "rounds" / "rounds.csv"
    with record.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    for axis, (table, title) in zip(axes, tables.items(), strict=True):
        for place, (method, colour) in enumerate(reversed(methods.values())):
            for size, share in ((3.5, "1 %"), (5.5, "5 %"), (8, "20 %"), (5.5, "none")):
                seen = reached(lines, table, share, method)
                if method == BY_HAND[0] and not seen:
                    seen = reached(lines, table, share, BY_HAND[1])
                middle = np.median(seen) if seen else math.inf
                if math.isfinite(middle):
                    reach = [min(seen), min(max(seen), 250)]
                    axis.plot(reach, [place] * 2, color=colour, alpha=0.5)
                    axis.plot(middle, place, "o", ms=size, color=colour, mec="white", mew=0.4)
                    if share in ("5 %", "none") or (share == "20 %" and colour != GREY):
                        axis.annotate(
                            f"{middle:.0f}",
                            (middle, place),
                            (0, 6),
                            ha="center",
                            textcoords="offset points",
                            fontsize=8.5,
                            color=colour,
                        )
        axis.set(xscale="log", xlim=(3, 250), ylim=(-0.5, 4.7), title=title, yticks=range(5))
        axis.set_xticks([5, 20, 50, 200], [5, 20, 50, 200])
        axis.minorticks_off()
        axis.grid(axis="x", color="#E5E5E5", lw=0.7)
        axis.set_axisbelow(True)
        axis.set_yticklabels(list(methods)[::-1] if axis in axes[::2] else [])
        axis.set_xlabel("rounds to L − L* ≤ 1e-6" if axis in axes[2:] else "")


def reached(lines, table: str, share: str, method: str) -> list[float]:
    """Return the rounds to 1e-6 of each seed; infinite if it did not get there."""
    return [
        math.inf if line["1e-6"] == "–" else float(line["1e-6"])
        for line in lines
        if (line["table"], line["proxy"], line["method"]) == (table, share, method)
    ]


def fine_calls(axes) -> None:
    """Show the recorded calls of fine models to 1 % and 1e-4 above the least loss, a line a fit."""
    record = Path(__file__).parent / "results" / "simulators" / "calls.json"
    rows = json.loads(record.read_text(encoding="utf-8"))
    methods = {
        "SciPy, better start": (RIVAL, 6),
        "DFO-LS": (GREY, 6),
        "manifold mapping by hand": (GREEN, 9),
        "proxyprox, the default": (OURS, 6),
    }
    ends = ("lm w0", "lm ĉ", "trf w0", "trf ĉ"), ("DFO-LS ĉ",), ("prototype",), ("ours",)
    problems = list(dict.fromkeys(row["problem"] for row in rows))
    for axis, (level, title) in zip(axes, enumerate(("to 1 %", "to 1e-4")), strict=True):
        for (method, (colour, size)), names in zip(methods.items(), ends, strict=True):
            for place, problem in enumerate(reversed(problems)):
                calls = [
                    min(row["calls"][name][level] or math.inf for name in names)
                    for row in rows
                    if row["problem"] == problem and names[0] in row["calls"]
                ]
                middle = float(np.median(calls)) if calls else math.inf
                spent = not math.isfinite(middle)
                face = "white" if spent else colour
                axis.plot(
                    200 if spent else middle, place, "o", color=colour, mfc=face, ms=size,
                    label=method if place == 0 else None,
                )  # fmt: skip
        axis.set(xscale="log", xlim=(1.7, 270), yticks=range(len(problems)))
        axis.set_xlabel(f"fine calls {title}")
        axis.set_xticks([3, 10, 40, 200], [3, 10, 40, ">200"])
        axis.minorticks_off()
        axis.grid(color="#E5E5E5", lw=0.7)
        axis.set_axisbelow(True)
        axis.set_yticklabels(problems[::-1] if axis is axes[0] else [])
    labels = axes[0].get_legend_handles_labels()
    axes[0].figure.legend(*labels, loc="outside upper center", ncols=2, frameon=False)


def subproblem(axes) -> None:
    """Two losses in one dimension, and one step on each."""
    left, right = axes
    w = np.linspace(-2.6, 2.6, 400)

    def loss(w):
        return np.log(np.cosh(1.5 * (w - 0.8))) + 0.15 * w**2

    def slope(w):
        return 1.5 * np.tanh(1.5 * (w - 0.8)) + 0.3 * w

    def proxy(w):
        return np.log(np.cosh(1.5 * (w + 0.1))) + 0.2 * w**2

    def proxy_slope(w):
        return 1.5 * np.tanh(1.5 * (w + 0.1)) + 0.4 * w

    start, eta = -1.6, 20.0
    shift = slope(start) - proxy_slope(start)
    phi = proxy(w) + shift * (w - start) + (w - start) ** 2 / (2 * eta)
    best = w[np.argmin(phi)]
    left.plot(w, loss(w), color="black", label="target L: expensive")
    left.plot(w, proxy(w), color=GREEN, label="proxy L̂: cheap, lowest elsewhere")
    left.plot(start, loss(start), "o", color="black")
    left.annotate("now", (start, loss(start)), (6, 4), textcoords="offset points")
    left.set(title="Two losses that curve alike", xlabel="w", ylim=(-0.3, 7))
    left.legend(loc="upper center")
    gap = loss(start) - proxy(start)
    right.plot(w, loss(w), color="black")
    right.plot(w, phi + gap, color=OURS, label="subproblem φ: the proxy, tilted")
    right.plot(
        w,
        loss(start) + slope(start) * (w - start) + (w - start) ** 2 / (2 * 0.35),
        color=GREY,
        ls="--",
        label="what a gradient step sees",
    )
    right.plot(start, loss(start), "o", color="black")
    right.plot(best, loss(best), "o", color=OURS)
    step = start - 0.35 * slope(start)
    right.plot(step, loss(step), "o", color=GREY)
    right.annotate("now", (start, loss(start)), (6, 4), textcoords="offset points")
    right.annotate("next", (best, loss(best)), (-26, -4), textcoords="offset points", color=OURS)
    right.set(title="One gradient of L, then solve", xlabel="w", ylim=(-0.3, 7))
    right.legend(loc="upper center")


def similarity(axes) -> None:
    """How many exact steps SGD and ProxyProx take, as δ/H grows."""
    (axis,) = axes
    rng = np.random.default_rng(0)
    d, mu = 30, 0.01
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    A = turn @ np.diag(np.geomspace(mu, 1, d)) @ turn.T
    E = rng.normal(size=(d, d))
    E = (E + E.T) / np.abs(np.linalg.eigvalsh(E + E.T)).max()
    start = turn @ np.ones(d)

    def steps(matrix):
        """Return the steps until the loss is a millionth of the start's."""
        w, first = start, start @ A @ start
        for k in range(1, 1501):
            w = matrix @ w
            gap = w @ A @ w
            if gap <= 1e-6 * first:
                return k
            if gap > 1e3 * first:
                break
        return np.inf

    ratios, counts = np.geomspace(1e-3, 2, 24), []
    for delta in ratios:
        proxy = A + delta * E
        proxy = proxy + max(0.0, 1e-3 - np.linalg.eigvalsh(proxy).min()) * np.eye(d)
        tries = (
            steps(np.eye(d) - np.linalg.solve(proxy + np.eye(d) / eta, A))
            for eta in np.geomspace(0.3, 1e3, 15)
        )
        counts.append(min(tries))
    axis.loglog(ratios, counts, color=OURS, label="ProxyProx, best η")
    axis.axhline(steps(np.eye(d) - A * 2 / (1 + mu)), color=GREY, label="gradient descent, best η")
    axis.axvline(1, color="#BBBBBB", lw=0.8)
    axis.set(
        xlabel="δ/H: how differently target and proxy curve",
        ylabel="gradients of the target",
        title="A good proxy is one with a small δ",
    )
    axis.legend()


def correction(axes) -> None:
    """Without the tilt the answer is the proxy's; with it the target's."""
    (axis,) = axes
    A = np.array([[1.0, 0.4], [0.4, 0.6]])
    P = np.array([[1.1, 0.3], [0.3, 0.7]])
    best, other = np.array([1.0, 1.0]), np.array([-0.6, 0.4])
    x, y = np.meshgrid(np.linspace(-1.8, 2.0, 200), np.linspace(-1.4, 2.2, 200))
    for matrix, centre, colour in ((A, best, "black"), (P, other, GREEN)):
        z = np.stack([x - centre[0], y - centre[1]], -1)
        axis.contour(
            x,
            y,
            np.einsum("abi,ij,abj->ab", z, matrix, z),
            5,
            colors=colour,
            linewidths=0.7,
            alpha=0.5,
        )
    paths = {
        "with the correction": (1.0, OURS),
        "half of it": (0.5, "#CC79A7"),
        "without: only the proxy": (0.0, RIVAL),
    }
    for name, (share, colour) in paths.items():
        w = np.array([-1.5, -1.0])
        path = [w]
        for _ in range(12):
            linear = share * (A @ (w - best) - P @ (w - other))
            w = np.linalg.solve(P + np.eye(2) / 1.5, P @ other - linear + w / 1.5)
            path.append(w)
        axis.plot(*np.array(path).T, "o-", ms=3, color=colour, label=name)
    axis.plot(*best, "*", color="black", ms=11)
    axis.plot(*other, "*", color=GREEN, ms=11)
    axis.annotate("target's minimum", best, (-10, 9), textcoords="offset points")
    axis.annotate("proxy's minimum", other, (-88, 8), textcoords="offset points", color=GREEN)
    axis.set(title="The tilt ∇L − ∇L̂ leads to the target's minimum", xticks=[], yticks=[])
    axis.legend(loc="lower right")


def inner(axes) -> None:
    """Show what inexact subproblems cost."""
    (axis,) = axes
    rng = np.random.default_rng(1)
    d = 20
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    A = turn @ np.diag(np.geomspace(0.003, 1, d)) @ turn.T
    E = rng.normal(size=(d, d))
    proxy = A + 0.01 * (E + E.T) / np.abs(np.linalg.eigvalsh(E + E.T)).max() + 0.01 * np.eye(d)
    eta = 100.0
    matrix, colours = proxy + np.eye(d) / eta, ["#737373", "#CC79A7", "#3D9BD0", OURS]
    for count, colour in zip((1, 5, 20, 1000), colours, strict=True):
        w, gaps = turn @ np.ones(d), []
        for _ in range(41):
            gaps.append(w @ A @ w / 2)
            u, linear = w, A @ w - proxy @ w
            for _ in range(count):
                u = u - (proxy @ u + linear + (u - w) / eta) / np.linalg.norm(matrix, 2)
            w = u
        name = "solved" if count == 1000 else f"{count} proxy gradient{'s' * (count > 1)}"
        axis.semilogy(gaps, color=colour, label=name)
    axis.set(
        xlabel="gradients of the target",
        ylabel="L(w) − L*",
        ylim=(1e-12, None),
        title="Proxy gradients buy target gradients",
    )
    axis.legend(title="a step of ProxyProx with")


def noise(axes) -> None:
    """Show the floor of constant steps with noise, and what removes it."""
    (axis,) = axes
    rng = np.random.default_rng(2)
    runs, steps, H, sigma = 400, 300, 1.0, 0.3
    for eta, colour in ((0.1, "#CC79A7"), (1.0, "#3D9BD0"), (10.0, GREY)):
        w, gaps = np.full(runs, 3.0), []
        for _ in range(steps):
            gaps.append(np.mean(H * w**2 / 2))
            w = (w - eta * sigma * rng.normal(size=runs)) / (1 + eta * H)
        axis.semilogy(gaps, color=colour, label=f"η = {eta:g}, one batch a step")
    w, mean, gaps = np.full(runs, 3.0), np.zeros(runs), []
    for k in range(steps):
        gaps.append(np.mean(H * w**2 / 2))
        mean += (sigma * rng.normal(size=runs) - mean) / (k + 1)
        w = (w - 10 * mean) / (1 + 10 * H)
    axis.semilogy(gaps, color=OURS, label="η = 10, differences averaged (δ = 0)")
    axis.set(
        xlabel="gradients of the target",
        ylabel="L(w) − L*, mean of 400 runs",
        title="Noise sets a floor; averaging g − ∇L̂ removes it",
    )
    axis.legend()


def several_proxies(axes) -> None:
    """Show recorded rounds with fitted weights, and with the best fixed ones in hindsight."""
    record = Path(__file__).parent / "results" / "several_proxies" / "weights.json"
    rows = json.loads(record.read_text(encoding="utf-8"))
    tables = list(dict.fromkeys(row["table"] for row in rows))[::-1]
    lines = {
        "all five, weights fitted": (OURS, lambda row: row["fitted"]),
        "best fixed weights in hindsight": (GREY, lambda row: row["fitted"] - row["behind"]),
        "best single proxy": (GREEN, lambda row: min(row["alone"].values())),
        "mean of all five": (RIVAL, lambda row: row["mean of"]["all"]),
    }
    (axis,) = axes
    for place, table in enumerate(tables):
        for at, (label, (colour, count)) in enumerate(lines.items()):
            seen = [count(row) for row in rows if row["table"] == table]
            height = place + 0.27 - 0.18 * at
            axis.plot([min(seen), max(seen)], [height] * 2, color=colour, alpha=0.5)
            name = None if place else label
            axis.plot(np.median(seen), height, "o", ms=6, color=colour, mec="white", label=name)
    axis.set(xscale="log", xlabel="rounds to L − L* ≤ 1e-6, five draws", yticks=range(len(tables)))
    axis.set_yticklabels(tables)
    axis.set_xticks([5, 10, 20, 50, 100, 200], [5, 10, 20, 50, 100, 200])
    axis.minorticks_off()
    axis.grid(axis="x", color="#E5E5E5", lw=0.7)
    axis.legend(frameon=False, fontsize=8.5, ncols=2, loc="lower center", bbox_to_anchor=(0.45, 1))


PICTURES = {
    "several_proxies": (several_proxies, (5.2, 4.2), (1, 1)),
    "fine_calls": (fine_calls, (5.2, 4.8), (1, 2)),
    "rounds": (rounds, (5.2, 4.9), (2, 2)),
    "seconds": (seconds, (5.2, 5.4), (1, 1)),
    "subproblem": (subproblem, (5.2, 6.2), (2, 1)),
    "similarity": (similarity, (5.2, 3.7), (1, 1)),
    "correction": (correction, (5.2, 3.7), (1, 1)),
    "inner": (inner, (5.2, 3.7), (1, 1)),
    "noise": (noise, (5.2, 3.7), (1, 1)),
}


def draw(folder: Path) -> list[Path]:
    """Draw every picture into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    # Text as paths, no dates and fixed names: the same picture on every machine.
    settings = {
        "svg.hashsalt": "proxyprox",
        "font.size": 9.5,
        "axes.titlesize": 10.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with matplotlib.rc_context(settings):
        for name, (picture, size, panels) in PICTURES.items():
            options = {"figsize": size, "layout": "constrained", "squeeze": False}
            figure, axes = plt.subplots(*panels, **options)
            picture(axes.ravel())
            written.append(folder / f"{name}.svg")
            figure.savefig(written[-1], metadata={"Date": None})
            plt.close(figure)
    return written


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "pictures")
