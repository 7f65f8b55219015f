"""``proxyprox audit``: will this proxy pay, before anything is spent on a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from proxyprox.cli.console import Json, Output, command_line, emit, examples, guarded, say, stdout

EPILOG = examples(
    "proxyprox run --example > my.toml",
    "proxyprox audit my.toml",
    "proxyprox audit my.toml --epsilon 1e-3 --budget 200 --json",
    "",
    "The configuration is that of proxyprox run: \\[model], \\[target], \\[proxy] and \\[method] "
    "batch_size are used. Written: audit.html and audit.json.",
)

TO_RUN = (
    "To run this plan with proxyprox run, which solves the subproblems almost exactly, put these "
    "lines in place of [method] and of target_gradients in {}:"
)
NO_SCALE = (
    "The configuration of proxyprox run has no key for a scale: run this plan from Python, "
    "minimize(plan.problem, **plan.arguments)."
)


@guarded
def audit(
    context: typer.Context,
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG.toml", help="The target, the proxy and the model.")
    ],
    epsilon: Annotated[
        float | None,
        typer.Option(help="Wanted suboptimality ε; default: a hundredth of the start's."),
    ] = None,
    budget: Annotated[
        int, typer.Option(min=1, help="Most target gradients the audit may use.")
    ] = 400,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Judge a proxy: similarity, noise, predicted target gradients, a verdict and a plan.

    Without --output the folder is runs/ and the name of the configuration, with "-audit" behind.
    """
    folder = output or Path("runs") / f"{config.stem}-audit"
    _audit(config, folder, command_line(context), epsilon, budget, as_json)


def _audit(
    path: Path, folder: Path, command: str, epsilon: float | None, budget: int, as_json: bool
) -> None:
    from proxyprox.diagnostics import audit as judge
    from proxyprox.diagnostics import plan
    from proxyprox.experiments import study as own_data
    from proxyprox.experiments.page import audit_values, write_audit_page
    from proxyprox.experiments.study import plan_toml
    from proxyprox.experiments.study_config import read_config

    settings, base = read_config(path), path.parent.absolute()
    with _kept_only_if_used(folder):
        settings = own_data.prepare(settings, base)
        problem = own_data.problem(settings, base)
        found = judge(problem, epsilon=epsilon, budget=budget, rng=settings.run.seed)
        planned = plan(found)
        lines = plan_toml(planned, settings.method.batch_size)
        file = write_audit_page(
            folder, found, planned, title=f"proxyprox audit: {path.name}", command=command,
            config=_shown(asdict(settings)),
        )  # fmt: skip
        values = audit_values(found, planned)
        values["plan"]["toml"] = lines
        _write_json(folder / "audit.json", values)
    if as_json:
        emit({**values, "report": str(file)})
        return
    say(stdout(), str(found))
    say(stdout(), f"Plan: {planned}")
    say(stdout(), NO_SCALE if lines is None else f"{TO_RUN.format(path.name)}\n\n{lines}\n")
    say(stdout(), f"Report: {file}", style="bold")


@contextmanager
def _kept_only_if_used(folder: Path) -> Iterator[None]:
    """Make the folder, and take it away again if nothing came of it."""
    from proxyprox.cli.comparison import output_folder

    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        with output_folder(folder):
            yield
    except BaseException:
        for path in made:
            if not path.exists():
                continue
            if any(path.iterdir()):
                break
            path.rmdir()
        raise


def _shown(settings: dict[str, Any]) -> dict[str, Any]:
    # What to run is not what was audited.
    return {name: settings[name] for name in ("model", "target", "proxy")} | {
        "batch_size": settings["method"]["batch_size"]
    }


def _write_json(path: Path, values: dict[str, Any]) -> None:
    import json

    from proxyprox._util.files import atomic_write_text

    atomic_write_text(path, json.dumps(values, indent=1, allow_nan=False) + "\n")
