import numpy as np
import pytest

from experiments.comparison import panels
from experiments.report.summary import last_rows, summarise


def losses(values, method="m"):
    return [{"panel": "p", "method": method, "t": 0, "loss": value} for value in values]


LOSSES = {"metric": "loss", "x": "t", "constant": (), "costs": ("seconds",)}


def test_quartiles_and_divergence():
    for size in (1, 2, 5, 9):
        values = np.random.default_rng(size).lognormal(size=size, sigma=9).tolist()
        (row,) = summarise(losses(values), **LOSSES)
        got = [row["loss_q25"], row["loss_median"], row["loss_q75"]]
        np.testing.assert_allclose(got, np.quantile(values, [0.25, 0.5, 0.75]), rtol=1e-12)
    # A diverged seed counts as infinitely bad.
    (row,) = summarise(losses((1.0, 2.0, None)), **LOSSES)
    assert (row["loss_median"], row["loss_q25"], row["loss_q75"]) == (2.0, 1.5, None)
    assert (row["seconds"], row["seeds"]) == (None, 3)
    two = [{**point, "eta": eta} for eta, point in enumerate(losses((1.0, 1.0)))]
    with pytest.raises(ValueError, match="eta"):
        summarise(two, **LOSSES | {"constant": ("eta",)})


def test_ends_and_levels(records):
    rows = summarise(records)
    ends = last_rows(rows)
    assert len(ends) == 12
    assert {row["target_gradients"] for row in ends} == {1100}
    found = {panel["panel"]: panel for panel in panels(rows)}["batch 256"]
    assert found["baseline"] == "SGD"
    reached = {end["method"]: end["target_gradients_to_level"] for end in found["methods"]}
    assert reached["ProxyProx, 20 GD steps"] > reached["ProxyProx, exact"] > 0
    for method, spent in reached.items():
        own = [row for row in rows if (row["panel"], row["method"]) == ("batch 256", method)]
        low = [r for r in own if r["suboptimality_median"] <= found["level"]]
        assert spent == min((r["target_gradients"] for r in low), default=None)
