"""Write the pages of the API reference: which public names belong to which kind of user.

The names of the top package are grouped here with those of its parts, such as
``methods.Request``; those of its applications come from their ``__all__``, so that a new name has
a page at the next build.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path

# page: (title, what one finds there, {section: names in the top package, or a module})
PAGES: dict[str, tuple[str, str, dict[str, str]]] = {
    "minimize": (
        "Everybody: minimise",
        "A problem, one call, an answer with what was paid for it.",
        {
            "Run it": "minimize Run Problem Budget Checkpoint",
            "What comes back": (
                "Result Status result.Trace result.StepRecord Ledger oracle.Step oracle.Query"
            ),
            "Targets and proxies": (
                "logistic_regression linear_regression softmax_regression poisson_regression "
                "gamma_regression GLM Quadratic Outputs LeastSquares problems.weighted "
                "problems.huber problems.counts problems.Uncertainty FunctionObjective "
                "FunctionProxy ValueObjective ValueProxy problems.regularized problems.Zero"
            ),
            "Penalties": "L1 Box",
            "Errors": "OracleError inner.NonFiniteError CheckpointError",
        },
    ),
    "audit": (
        "Will it pay? Audit, plans, theory",
        "Measure a proxy before anything is spent, and the theorems as functions.",
        {
            "Audit and plan": "audit plan",
            "What they return": "proxyprox.diagnostics.report",
            "The theorems": "proxyprox.theory",
        },
    ),
    "labels": (
        "Few labels: scikit-learn estimators",
        "Estimators that take unlabelled rows, a teacher's answers or old data beside your labels.",
        {"Estimators and label buying": "proxyprox.sklearn"},
    ),
    "networks": (
        "Networks: PyTorch",
        "Optimisers for an ordinary training loop.",
        {"Optimisers and proxies": "proxyprox.torch"},
    ),
    "private": (
        "Private data",
        "Estimators and the mechanism with differential privacy.",
        {"Estimators, mechanism, budget, attack": "proxyprox.private"},
    ),
    "simulation": (
        "Simulators",
        "Targets that are rollouts of a simulator.",
        {"Objectives and proxies": "proxyprox.simulation"},
    ),
    "clusters": (
        "Clusters: Dask",
        "Targets whose gradient is a pass over partitions.",
        {"Targets": "proxyprox.dask"},
    ),
    "parts": (
        "The parts of a method",
        "What `minimize` is put together from, to choose or to replace.",
        {
            "Methods with a proxy": "ProxyProx ProxyBFGS DANE",
            "Methods without one": "SGD Adam",
            "Corrections": "corrections.Plain corrections.EMA corrections.Mean corrections.Storm",
            "Step sizes": "stepsizes.AutoStep",
            "Inner solvers": (
                "inner.Auto inner.ClosedForm inner.QuasiNewton inner.Newton inner.NewtonCG LBFGS "
                "inner.GradientDescent inner.ProximalGradient"
            ),
            "When a subproblem is solved": (
                "stopping.StronglyConvex stopping.Convex stopping.NonConvex stopping.SDane "
                "stopping.Residual stopping.Relative stopping.Steps stopping.RandomSteps"
            ),
            "Averages": "averaging.Last averaging.Uniform averaging.Geometric averaging.Adaptive",
            "Observers": "proxyprox.observers",
        },
    ),
    "extending": (
        "Extending: interfaces and checks",
        "What a class of your own subclasses or offers, and the functions that check it.",
        {
            "Checks": "proxyprox.testing",
            "Interfaces": (
                "problems.Objective problems.Proxy problems.Penalty Method Request methods.Answers "
                "methods.OuterStep StepSize inner.Subproblem"
            ),
        },
    ),
}


def names(part: str, seen: set[int]) -> list[str]:
    """Return the full names of a section; a module that is not there has none.

    What two modules share is documented once: an object has one page.
    """
    top = import_module("proxyprox")
    if not part.startswith("proxyprox."):
        listed = part.split()
        seen.update(id(attrgetter(name)(top)) for name in listed)
        return [f"proxyprox.{name}" for name in listed]
    if find_spec(part) is None:
        return []
    module = import_module(part)
    # What the top package has, too, is documented there.
    own = [n for n in module.__all__ if getattr(top, n, None) is not getattr(module, n)]
    own = [n for n in own if id(getattr(module, n)) not in seen]
    # A table of values has no docstring of its own; its class says what it holds.
    own = [n for n in own if not isinstance(getattr(module, n), dict)]
    seen.update(id(getattr(module, n)) for n in own)
    return [f"{part}.{name}" for name in own]


def write(folder: Path) -> None:
    """Write one page for each kind of user, and their list."""
    folder.mkdir(exist_ok=True)
    pages, listing, seen = [], [], set[int]()
    for page, (title, text, sections) in PAGES.items():
        found = {section: names(part, seen) for section, part in sections.items()}
        if not any(found.values()):
            continue
        lines = [title, "=" * len(title), "", text.replace("`", "``"), ""]
        for section, members in found.items():
            lines += [
                section,
                "-" * len(section),
                "",
                ".. autosummary::",
                "   :toctree: generated",
                "",
            ]
            lines += [*(f"   ~{name}" for name in members), ""]
        pages.append(page)
        listing.append(f":doc:`{page}`\n   {text.replace('`', '``')}")
        _replace(folder / f"{page}.rst", "\n".join(lines))
    toctree = "\n".join([".. toctree::", "   :hidden:", "", *(f"   {page}" for page in pages)])
    intro = "Every public name, with its docstring and a runnable example, by kind of user."
    text = "\n\n".join(["API reference\n=============", intro, *listing, toctree, ""])
    _replace(folder / "index.rst", text)


def _replace(path: Path, text: str) -> None:
    """Write only what changed: an unchanged page is not built again."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
