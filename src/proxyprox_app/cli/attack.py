"""``proxyprox attack``: try to tell a release from one with a row more."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from proxyprox_app.cli.console import BAD_RUN, CommandError, Json, emit, guarded, say, stdout


@guarded
def attack(
    release: Annotated[
        str | None,
        typer.Argument(metavar="[FILE.py:FUNCTION]", help="Your mechanism; default: ours."),
    ] = None,
    epsilon: Annotated[float, typer.Option(help="The claimed ε.")] = 3.0,
    delta: Annotated[float, typer.Option(help="The claimed δ.")] = 1e-5,
    runs: Annotated[int, typer.Option(min=40, help="Runs with the row, and without.")] = 2000,
    confidence: Annotated[float, typer.Option(help="That the bound holds.")] = 0.999,
    gaussian: Annotated[
        bool, typer.Option(help="Whether it is Gaussian noise on the whole data.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Try to refute a claim of privacy: bound ε from below by telling who was in the data.

    FUNCTION(present) runs the mechanism on data with (True) or without (False) one row and returns
    the numbers that it releases. Choose a row whose gradient is long, unlike the others, and not
    the same in every release. Without a FUNCTION the package's own mechanism is attacked. A sound
    mechanism is refuted with probability 1 - confidence at most; one that stands is not proved.

    Examples
    --------
    proxyprox attack --epsilon 3
    proxyprox attack mine.py:release --epsilon 1 --delta 1e-6 --runs 5000
    proxyprox attack mine.py:release --epsilon 1 --no-gaussian --json

    Exit code 1 if the claim is refuted.
    """
    from proxyprox.private import attack as attack_release

    function = own_release(epsilon, delta) if release is None else load_function(release)
    given = {"delta": delta, "runs": runs, "confidence": confidence, "gaussian": gaussian}
    found = attack_release(function, epsilon=epsilon, **given)  # type: ignore[arg-type]
    if as_json:
        emit({**asdict(found), "refutes_claim": found.refutes_claim})
    else:
        say(stdout(), str(found), style="bold red" if found.refutes_claim else "")
    if found.refutes_claim:
        raise typer.Exit(BAD_RUN)


def load_function(place: str) -> Callable[[bool], Any]:
    """Return a function of a user's file."""
    file, _, name = place.rpartition(":")
    if not file or not Path(file).is_file():
        raise CommandError(f"FILE.py:FUNCTION must name a Python file, got {place!r}.")
    function = runpy.run_path(file).get(name)
    if not callable(function):
        raise CommandError(f"{file} has no function {name!r}.")
    return function  # type: ignore[no-any-return]


def own_release(epsilon: float, delta: float) -> Callable[[bool], Any]:
    """Return the package's mechanism on a table of few rows, and one that is unlike them."""
    import numpy as np

    from proxyprox.private import Private, PrivateRows
    from proxyprox.problems.families import Logistic

    X = np.vstack([np.eye(3), -np.eye(3), [[30.0, -30.0, 10.0]]]) / 3
    y = np.array([0, 1, 0, 1, 0, 1, 0])
    # At the second point the last row is classified well, and has no gradient.
    points = (np.zeros(3), np.array([-5.0, 5.0, 0.0]), np.full(3, 0.1))

    def release(present: bool) -> Any:
        rows = slice(None) if present else slice(-1)
        table = PrivateRows(X[rows], y[rows], Logistic((0, 1)))
        target = Private(
            table, epsilon=epsilon, delta=delta, releases=len(points), n_nominal=6, clip=1.0
        )
        return np.concatenate([target.gradient(w) for w in points])

    return release
