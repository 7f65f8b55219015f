"""Fitted weights for the columns as they stand in the user's files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from proxyprox._files import atomic_output, atomic_write_text
from proxyprox.experiments.own_config import Config
from proxyprox.experiments.own_data import Study

_PREDICT = {
    "linear": "prediction = z",
    "logistic": "P({label} = {second}) = 1 / (1 + exp(-z))",
    "softmax": "P(class) = exp(z of the class) / sum of exp(z) over the classes",
    "poisson": "expected count = exp(z)",
}


def raw_weights(study: Study, w: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return coefficients and intercepts that apply to unscaled columns.

    Parameters
    ----------
    study : Study
        The problem, with the scaling its columns went through.
    w : array
        Parameters of the scaled model.

    Returns
    -------
    coefficients : array of shape (columns, outputs)
    intercepts : array of shape (outputs,)
        Zeros for a model without intercept.
    """
    outputs = study.target.family.outputs
    matrix = np.asarray(w, dtype=np.float64).reshape(study.target.design.width, outputs)
    columns = len(study.names)
    coefficients = matrix[:columns] / study.scale[:, None]
    intercepts = matrix[columns] if study.target.design.intercept else np.zeros(outputs)
    return coefficients, intercepts - study.centre @ coefficients


def prediction_rule(config: Config, study: Study) -> str:
    """Return how to predict from the weights, with the label and its classes by name."""
    rule = _PREDICT[config.model.family]
    if config.model.family == "logistic":
        second = str(_plain(study.classes[1]))
        rule = rule.format(label=config.target.label or "label", second=second)
    return f"z = intercept + sum of coefficient * column; {rule}"


def write_weights(folder: Path, config: Config, study: Study, fit: Mapping[str, Any]) -> list[Path]:
    """Write ``weights.json`` and ``weights.npz``, and return their paths.

    Parameters
    ----------
    folder : Path
        Existing folder.
    config : Config
        The settings.
    study : Study
        The problem.
    fit : mapping
        What :func:`~proxyprox.experiments.own_data.fit` returns.
    """
    coefficients, intercepts = raw_weights(study, fit["w"])
    classes = [_plain(value) for value in study.classes]
    many = study.target.family.outputs > 1

    def by_class(row: np.ndarray[Any, Any]) -> Any:
        if not many:
            return float(row[0])
        return {str(c): float(x) for c, x in zip(classes, row, strict=True)}

    content: dict[str, Any] = {
        "usable": fit["success"],
        "status": fit["message"],
        "family": config.model.family,
        "label": config.target.label,
        "predict": prediction_rule(config, study),
        "intercept": by_class(intercepts),
        "coefficients": {
            name: by_class(row) for name, row in zip(study.names, coefficients, strict=True)
        },
        "method": fit["method"],
        "eta": fit["eta"],
        "suboptimality": fit["suboptimality"],
        "run": f"the first of {config.run.seeds} seeds; tables show medians over all of them",
        "target_gradients": fit["ledger"]["target_gradients"],
        "inner": fit["inner"],
    }
    if classes:
        content["classes"] = classes
    as_json, as_arrays = folder / "weights.json", folder / "weights.npz"
    text = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)
    atomic_write_text(as_json, text + "\n")
    with atomic_output(as_arrays) as file:
        np.savez(
            file,
            coefficients=coefficients if many else coefficients[:, 0],
            intercept=intercepts if many else intercepts[0],
            feature_names=np.array(study.names, dtype=np.str_),
            classes=np.array(classes),
            usable=np.array(fit["success"]),
        )
    return [as_json, as_arrays]


def _plain(value: Any) -> Any:
    """Write the label 1.0 of a text file as 1, the way it stands there."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
