from __future__ import annotations

from typing import Any

import pytest

from proxyprox_app.study.config import ConfigError, StudyConfig, parse_config
from proxyprox_app.study.problem import candidates


def settings(family: str, **sections: dict[str, Any]) -> StudyConfig:
    tree: dict[str, dict[str, Any]] = {"model": {"family": family}, "target": {"file": "rows.csv"}}
    for name, changes in sections.items():
        tree[name] = {**tree.get(name, {}), **changes}
    return parse_config(tree)


def test_defaults() -> None:
    config = settings("logistic")
    assert config.proxy.kind == "label-free"
    assert config.method.name == "proxyprox"
    assert config.method.eta is None
    assert config.run.tuning_budget == config.run.target_gradients // 4
    assert settings("linear", method={"eta": 2}).method.eta == (2,)
    assert settings("linear", target={"features": "age"}).target.features == ("age",)
    assert settings("linear", method={"eta": "auto"}).method.eta == ("auto",)


def test_candidates_name_each_method_once() -> None:
    run = {"compare": ["sgd", "erm", "proxyprox", "auxmom", "dane", "sgd"]}
    names = [candidate.name for candidate in candidates(settings("linear", run=run))]
    assert names == ["ProxyProx", "SGD", "ERM on the rows seen", "AuxMom", "DANE"]
    full = settings("linear", run={"compare": ["sgd"]}, method={"batch_size": "all"})
    assert [candidate.name for candidate in candidates(full)] == ["ProxyProx", "gradient descent"]


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"model": {"classes": [1, 2]}}, "does not apply to family 'linear'"),
        ({"target": {"features": [1]}}, "features must be text"),
        ({"proxy": {"kind": "labelled"}}, "file is missing"),
        ({"proxy": {"kind": "unlabelled"}}, "one of 'label-free'"),
        ({"proxy": {"weight": "w"}}, "file is missing"),
        ({"method": {"a": 0.5}}, "no effect on proxyprox"),
        ({"method": {"eta": []}}, r"eta .*got \[\]"),
        ({"method": {"eta": ["auto", 1.0]}}, 'write "auto", alone'),
        ({"run": {"weights": "best"}}, "weights .*'lowest'"),
        ({"method": {"batch_size": 0}}, 'Write "all"'),
        ({"method": {"averaging": "geometric"}, "model": {"l2": 0.0}}, 'use "uniform"'),
        ({"run": {"compare": ["sdg"]}}, "compare .*'sgd'"),
        ({"run": {"seconds": 0}}, "seconds"),
    ],
)
def test_settings_that_cannot_be(sections: dict[str, Any], words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        settings("linear", **sections)


def test_sections_must_be_sections() -> None:
    with pytest.raises(ConfigError, match="must be a section"):
        parse_config({"model": 3})
