"""``proxyprox run CONFIG.toml``: methods of this package compared on one's own table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from proxyprox_app.cli import console
from proxyprox_app.cli.run import progress_of


def run_methods(file: Path, folder: Path, command: str, as_json: bool) -> None:
    """Compare the methods of a configuration, and write the weights of the first."""
    from threadpoolctl import threadpool_limits

    from proxyprox._util.files import atomic_write_text
    from proxyprox_app.report.page import write_report
    from proxyprox_app.report.summary import last_rows, summarise, write_json
    from proxyprox_app.study import config, problem

    settings = config.read_config(file)
    kept = "Nothing was written: files are written when all runs have ended."
    with console.output_folder(folder, command, kept), progress_of(as_json) as progress:
        progress(f"reading {settings.target.file}")
        study = problem.read_study(settings, file.parent.absolute())
        with threadpool_limits(1):
            found = list(problem.run_methods(study, progress))
        points = [point for point, _ in found]
        first = problem.NAMES[settings.run.methods[0]]
        last = [w for point, w in found if point["method"] == first and point["seed"] == 0][-1]
        rows = summarise(points, constant=("eta", "tried"))
        ends = last_rows(rows)
        notes = list(map(str, study.findings))
        for end in ends:
            tried = problem.STEP_SIZES.get(
                next(key for key, name in problem.NAMES.items() if name == end["method"]), ()
            )
            if end["eta"] in (*tried[:1], *tried[-1:]):
                notes.append(f"{end['method']}: its step size is the first or the last tried.")
        lines = (json.dumps(point, ensure_ascii=False) + "\n" for point in points)
        atomic_write_text(folder / "records.jsonl", "".join(lines))
        study.model(last, first).save(folder / "model.json")
        shown: dict[str, Any] = {"command": command, "config": settings.model_dump()}
        report = write_report(
            folder, rows=rows, title=f"proxyprox: {file.name}", lead=[_sentence(ends, first)],
            notes=notes, labels={"tried": "step sizes tried"}, **shown,
        )  # fmt: skip
        done = {**shown, "methods": ends, "notes": notes, "optimum": study.optimum}
        done |= {"model": str(folder / "model.json"), "report": str(report)}
        write_json(folder / "summary.json", done)
    if as_json:
        console.emit(done)
        return
    screen = console.stdout()
    best = min((end["suboptimality_median"] or 0.0 for end in ends), default=0.0)
    cells = [
        (end["method"], _short(end["suboptimality_median"]), f"{end['proxy_gradients']:,.0f}",
         f"{end['seconds']:.2g}", _short(end["eta"]), str(end["tried"]))
        for end in ends
    ]  # fmt: skip
    headings = ("method", "above optimum", "proxy", "seconds", "step size", "tried")
    styles = ["bold" if end["suboptimality_median"] == best else "" for end in ends]
    console.say(screen, f"After {ends[0]['target_gradients']:,} target gradients", "bold")
    console.print_table(screen, headings, cells, styles)
    console.say(screen, f"\n{_sentence(ends, first)}")
    for note in notes:
        console.say(console.stderr(), f"Note: {note}", "yellow")
    console.tell_path(screen, f"Report: {report}")
    console.tell_path(screen, f"To use the weights of {first}:")
    console.tell_path(screen, f"  proxyprox predict {done['model']} NEW_FILE")


def _sentence(ends: list[dict[str, Any]], first: str) -> str:
    """Say which method ended lowest."""
    known = [end for end in ends if end["suboptimality_median"] is not None]
    if not known:
        return "Every method broke off."
    # What is left at the optimum is rounding.
    best = min(known, key=lambda end: max(end["suboptimality_median"], 1e-12))
    text = (
        f"{best['method']} ended lowest, {_short(best['suboptimality_median'])} above the optimum"
    )
    return f"{text} (medians over {best['seeds']} runs). The weights written are those of {first}."


def _short(value: float | None) -> str:
    return "–" if value is None else f"{value:.2g}"
