"""One's own files as a problem: families, proxies, settings that are checked."""

import numpy as np
import pytest

from proxyprox.problems import FAMILIES
from proxyprox_app.problem import ConfigError, StudyConfig, example, read_config, read_study
from proxyprox_app.tables import DataError

pd = pytest.importorskip("pandas")


def rows(family, count=60, seed=0):
    """Return a table whose column `label` depends on two of the others."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((count, 3))
    noisy = X[:, 0] - X[:, 1] + rng.standard_normal(count)
    y = {
        "linear": noisy,
        "logistic": np.where(noisy > 0, "yes", "no"),
        "softmax": np.array(["a", "b", "c"])[np.digitize(noisy, [-1, 1])],
        "poisson": rng.poisson(np.exp(0.5 * noisy)),
        "gamma": rng.gamma(3.0, np.exp(0.5 * noisy) / 3),
    }[family]
    return pd.DataFrame(X, columns=["age", "income", "height"]).assign(label=y)


def settings(family="logistic", **sections):
    tree = {
        "model": {"family": family, "l2": 1e-2},
        "target": {"file": "rows.csv", "label": "label"},
        "run": {"batch_size": 16},
    }
    return StudyConfig.model_validate(
        tree | {name: {**tree.get(name, {}), **keys} for name, keys in sections.items()}
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_a_problem(tmp_path, family):
    rows(family).to_csv(tmp_path / "rows.csv", index=False)
    problem = read_study(settings(family), tmp_path).problem()
    assert problem.objective.design.rows == 60
    slope = problem.objective.with_batch_size(None).gradient(problem.objective.zeros())
    assert np.isfinite(slope).all()
    rows("softmax").to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(DataError, match="logistic takes two"):
        read_study(settings(), tmp_path)


def test_proxies(tmp_path):
    frame = rows("logistic")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    other = rows("logistic", 40, seed=1).rename(columns={"label": "then"})
    other.to_csv(tmp_path / "old.csv", index=False)
    kinds = [
        ({"kind": "label-free"}, 60),
        ({"kind": "label-free", "file": "old.csv"}, 40),
        ({"kind": "labelled", "file": "old.csv", "label": "then"}, 40),
        ({"kind": "subsample", "fraction": 0.5}, 30),
    ]
    for keys, count in kinds:
        study = read_study(settings(proxy=keys), tmp_path)
        assert study.problem().proxy.design.rows == count, keys
    frame.loc[10:, "label"] = None
    frame.to_csv(tmp_path / "rows.csv", index=False)
    study = read_study(settings(), tmp_path)
    assert (study.target.design.rows, study.problem().proxy.design.rows) == (10, 60)
    assert "50 rows without a label are the proxy's" in str(study.findings[0])


@pytest.mark.parametrize(
    ("section", "keys", "words"),
    [
        ("target", {"label": "lable"}, "did you mean 'label'"),
        ("target", {"label": None}, "[target] label"),
        ("target", {"features": ["agee"]}, "did you mean 'age'"),
        ("target", {"file": "absent.csv"}, "does not exist"),
        ("target", {"file": "sklearn:mnist"}, "breast_cancer"),
        ("model", {"family": "linear"}, "is not a number"),
        ("proxy", {"file": "other.csv"}, "no column 'age'"),
    ],
)  # fmt: skip
def test_mistakes_in_the_data(tmp_path, section, keys, words):
    rows("logistic").to_csv(tmp_path / "rows.csv", index=False)
    pd.DataFrame({"x": [1, 2]}).to_csv(tmp_path / "other.csv", index=False)
    with pytest.raises(DataError) as caught:
        read_study(settings(**{section: keys}), tmp_path)
    assert words in str(caught.value)


def test_settings_are_checked_by_name(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text(example())
    assert read_config(path).run.batch_size == 64
    start = '[model]\nfamily = "logistic"\n[target]\nfile = "a.csv"\n'
    for text, words in {
        start.replace("logistic", "logistc"): "[model] family must be 'linear', 'logistic'",
        start.replace("family", "famly"): "[model] family is missing",
        start + "lable = 'y'\n": "[target] lable is no known key; there are file, label",
        start + "[modle]\nl2 = 1\n": "no known section; there are model, target",
        start + "[run]\nseed = 1.5\n": "[run] seed must be a valid integer, got 1.5",
        start + "[run]\nbatch_size = 0\n": "[run] batch_size",
        start + "[proxy]\nkind = 'labelled'\n": "[proxy] file is missing",
        start + "[proxy]\nkind = 'subsample'\n": "[proxy] fraction goes with",
        start + "columns = {zip = 'code'}\n": "[target] columns.zip must be 'number'",
        "model = 3\n" + start.partition("[target]")[2]: "[model] must be",
        "l2 = \n": "not TOML",
    }.items():
        path.write_text(text)
        with pytest.raises(ConfigError) as caught:
            read_config(path)
        assert words in str(caught.value), text
    for name, words in (("table.csv", "run table.csv --target"), ("none.toml", "No such file")):
        with pytest.raises(ConfigError, match=words):
            read_config(tmp_path / name)
