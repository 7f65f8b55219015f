"""One's own tables as a problem: a target, a proxy, and the model that weights make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.datasets

import proxyprox as pp
from proxyprox.inner.exact import minimise_exactly
from proxyprox.problems import FAMILIES
from proxyprox_app.study.columns import Columns, plain_object, yes_or_no
from proxyprox_app.study.config import StudyConfig
from proxyprox_app.study.tables import (
    DataError,
    Finding,
    as_text,
    load_cells,
    no_column,
    to_numbers,
)

# How the name of a set that ships with scikit-learn begins, in place of a file.
BUILT_IN = "sklearn:"
_LOADERS = ("breast_cancer", "diabetes", "digits", "iris", "wine")


@dataclass(frozen=True)
class Study:
    """The problem that a configuration describes.

    Attributes
    ----------
    target, other : GLM
        The loss on the target's rows and, if the proxy has rows of its own, on those.
    penalty : L1 or None
        The non-smooth term.
    columns, findings : Columns and list of Finding
        What the table's columns became, and what was odd about them.
    classes : tuple
        The classes of the labels.
    optimum : float
        The lowest loss.
    """

    config: StudyConfig
    target: pp.GLM
    other: pp.GLM | None
    penalty: Any
    columns: Columns
    findings: Sequence[Finding]
    classes: tuple[str, ...]
    optimum: float

    def problem(self, seed: int = 0) -> pp.Problem:
        """Return target, proxy and penalty of a run."""
        run, part = self.config.run, self.config.proxy
        proxy: Any = self.other or self.target.label_free()
        if part.fraction is not None:
            rows = max(1, round(part.fraction * self.target.design.rows))
            proxy = self.target.subsample(rows, rng=np.random.default_rng([run.seed, seed, 1]))
        size = None if run.batch_size == "all" else run.batch_size
        return pp.Problem(self.target.with_batch_size(size), proxy, self.penalty)


def read_study(config: StudyConfig, base: Path) -> Study:
    """Build the problem that a configuration describes from its files.

    Raises
    ------
    DataError
        For a file that cannot be used, or labels that do not suit the family.
    """
    import pandas as pd

    model, target, part = config.model, config.target, config.proxy
    frame, findings, decimal = _read(target.file, config, base)
    frames, names = [frame], [part.label or target.label]
    if part.file:
        frames.append(_read(part.file, config, base)[0])
    roles = {target.label, part.label, target.weight}
    used = target.features or [name for name in frame if name not in roles]
    label = str(target.label)
    for at, (each, file) in enumerate(zip(frames, (target.file, part.file), strict=False)):
        wanted = [*used, *([target.weight] if at == 0 and target.weight else [])]
        wanted += [label] if at == 0 else [str(names[0])] * (part.kind == "labelled")
        for name in wanted:
            if name not in each:
                raise DataError(f"{file}: {no_column(name, each)}")
    both = pd.concat([each[used] for each in frames], ignore_index=True)
    try:
        columns = Columns(target.columns, scale=model.standardize, decimal=decimal).fit(both)
    except DataError as error:
        raise DataError(f"{target.file}: {error}") from error
    y = _labels(frame[label], model.family, label)
    known = np.array([value is not None for value in y])
    if not known.any():
        raise DataError(f"{target.file}: no row has a label in {label!r}.")
    kind: Any = FAMILIES[model.family]
    classes = tuple(sorted(set(y[known]))) if kind.classifier else ()
    if kind.classifier and (len(classes) < 2 or (model.family == "logistic" and len(classes) > 2)):
        raise DataError(
            f"{target.file}: the labels are of {len(classes)} classes, {', '.join(classes[:5])}; "
            'logistic takes two: use family = "softmax" for three or more.'
        )
    weights = None
    if target.weight:
        weights = to_numbers(plain_object(frame[target.weight])).to_numpy()
        if not (weights >= 0).all() or not weights.any():
            raise DataError(f"a weight in {target.weight!r} is negative, missing or no number.")

    def loss(rows: Any, y: Any, weights: Any = None) -> pp.GLM:
        family = kind(classes) if kind.classifier else kind()
        options: dict[str, Any] = {"l2": model.l2, "intercept": model.intercept}
        try:
            return pp.GLM(columns.transform(rows), y, family, sample_weight=weights, **options)
        except (ValueError, TypeError) as error:
            raise DataError(f"label: {error}") from error

    rows = frame if known.all() else frame[known]
    whole = loss(rows, np.array(y[known].tolist()), None if weights is None else weights[known])
    other, findings = None, [*findings, *columns.findings]
    if part.file:
        labelled = part.kind == "labelled"
        old = _labels(frames[1][names[0]], model.family, label) if labelled else None
        there = [True] * len(frames[1]) if old is None else [y is not None for y in old]
        other = loss(frames[1][there], None if old is None else np.array(old[there].tolist()))
    elif not known.all():
        what = f"{int((~known).sum()):,} rows without a label are "
        ours = part.kind == "label-free"
        findings.append(Finding(label, what + ("the proxy's." if ours else "left out.")))
        other = loss(frame, None) if ours else None
    penalty = None
    if model.l1:
        strength = np.full((whole.design.width, whole.family.outputs), model.l1)
        strength[len(columns.feature_names) :] = 0.0  # the intercept
        penalty = pp.L1(strength.ravel())
    # The proximal gradient method is not worth pushing to the last digit.
    best = minimise_exactly(whole, whole.zeros(), tol=1e-9 if penalty else 1e-12, penalty=penalty)
    optimum = pp.Problem(whole, pp.problems.Zero(), penalty).value(best)
    return Study(config, whole, other, penalty, columns, findings, classes, optimum)


def _read(file: str, config: StudyConfig, base: Path) -> Any:
    """Return a table, what was odd about it, and its decimal mark."""
    target = config.target
    if not file.startswith(BUILT_IN):
        if target.label is None:
            raise DataError(f"{file}: name the column of the label: [target] label.")
        path = base / Path(file).expanduser()
        return load_cells(path, target.encoding, target.separator, target.sheet).parse()
    name = file.removeprefix(BUILT_IN)
    if name not in _LOADERS:
        raise DataError(f"{file}: {BUILT_IN} is followed by one of {', '.join(_LOADERS)}.")
    bunch = getattr(sklearn.datasets, f"load_{name}")(as_frame=True)
    classes = np.asarray(getattr(bunch, "target_names", [0]))
    y = classes[bunch.target] if classes.dtype.kind == "U" else bunch.target
    return bunch.data.assign(label=y), [], ""


def _labels(cells: Any, family: str, name: str) -> Any:
    """Return labels as numbers or text in an array of objects, None if there is none."""
    text = as_text(cells)
    if FAMILIES[family].classifier:
        return yes_or_no(text).astype(object).where(text.notna(), None).to_numpy()
    values = to_numbers(plain_object(cells))
    if len(bad := text[values.isna()].dropna()):
        raise DataError(f"label: {bad.iloc[0]!r} in {name!r} is not a number.")
    return values.astype(object).where(values.notna(), None).to_numpy()
