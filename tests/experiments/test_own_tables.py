"""Tables of one's own: columns matched by name, labels that suit the family."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from proxyprox.datasets import DataError
from proxyprox.experiments import study as own_data
from proxyprox.experiments.study_config import Config, parse_config

ROWS = """age,income,height,label
1,20,3,no
2,10,3,yes
4,30,2,yes
3,25,1,no
"""


def settings(family: str, file: str = "rows.csv", **sections: dict[str, Any]) -> Config:
    tree: dict[str, dict[str, Any]] = {
        "model": {"family": family, "l2": 1e-2},
        "target": {"file": file, "label": "label"},
    }
    for name, changes in sections.items():
        tree[name] = {**tree.get(name, {}), **changes}
    return parse_config(tree)


@pytest.mark.parametrize(
    ("proxy", "text", "words"),
    [
        ({"kind": "label-free"}, "age,income\n1,2\n", "no column 'height'"),
        ({"kind": "label-free"}, "age,income,height,x\n1,2,3,4\n", "'x' is not in rows.csv"),
        ({"kind": "labelled"}, "age,income,height\n1,2,3\n", "no column 'label'"),
        ({"kind": "labelled"}, "age,income,height,label\n1,2,3,maybe\n", "'maybe' is not one of"),
        ({"kind": "labelled"}, "age,income,height,label\n1,2,3,0\n", "Mind the quotes"),
    ],
)
def test_columns_and_labels_must_match(
    tmp_path: Path, proxy: dict[str, Any], text: str, words: str
) -> None:
    (tmp_path / "rows.csv").write_text(ROWS)
    (tmp_path / "other.csv").write_text(text)
    config = settings("logistic", proxy={**proxy, "file": "other.csv"})
    with pytest.raises(DataError, match=words):
        own_data.prepare(config, tmp_path)


def test_svmlight_files_may_end_before_the_last_column(tmp_path: Path) -> None:
    (tmp_path / "a.svm").write_text("1 1:1 2:2\n0 1:2\n1 2:1\n")
    (tmp_path / "b.svm").write_text("0 1:1 4:1\n")
    config = parse_config(
        {
            "model": {"family": "logistic"},
            "target": {"file": "a.svm"},
            "proxy": {"kind": "label-free", "file": "b.svm"},
        }
    )
    built = own_data.study(own_data.prepare(config, tmp_path), tmp_path)
    assert built.names == ("x1", "x2", "x3", "x4")
    assert built.target.design.columns == 4


@pytest.mark.parametrize(
    ("family", "y", "words"),
    [
        ("poisson", [1, -2, 3], "row 2: the label must be zero or more"),
        ("linear", [1, "two", 3], "row 2: the label 'two' is not a number"),
        ("logistic", [1, 1, 1], "every row has the label 1.0"),
        ("logistic", [1, 2, 3], 'use family = "softmax"'),
        ("softmax", ["a", "a", "a"], "every row has the label 'a'"),
    ],
)
def test_labels_that_do_not_suit(tmp_path: Path, family: str, y: list[Any], words: str) -> None:
    lines = [f"{i},{i * i},{2 * i},{label}" for i, label in enumerate(y)]
    (tmp_path / "rows.csv").write_text("\n".join(["age,income,height,label", *lines]) + "\n")
    with pytest.raises(DataError, match=words):
        own_data.prepare(settings(family), tmp_path)


def test_built_in_sets() -> None:
    for name, family in (("iris", "softmax"), ("diabetes", "linear")):
        config = settings(family, f"sklearn:{name}", target={"label": None})
        assert own_data.study(config, Path()).optimum >= 0
    with pytest.raises(DataError, match="sklearn: goes with"):
        own_data.prepare(settings("linear", "sklearn:iriss"), Path())


def test_text_in_a_column_points_to_the_key_that_leaves_it_out(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(ROWS.replace("\n", "\ntall", 1))
    with pytest.raises(
        DataError, match=r"out of \[target\] features\. That is the list of columns"
    ):
        own_data.prepare(settings("logistic"), tmp_path)


def test_a_forgotten_label_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(ROWS)
    with pytest.raises(DataError, match=r"'no' is not a number.*if this is it.*\[target\] label"):
        own_data.prepare(settings("logistic", target={"label": None}), tmp_path)
