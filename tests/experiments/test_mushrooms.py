import json

import pytest
from typer.testing import CliRunner

from experiments import mushrooms
from experiments.compare import Job
from experiments.shared import application


@pytest.fixture
def invoke(no_figures):
    app = application(mushrooms.mushrooms)
    return lambda *args: CliRunner().invoke(app, [str(arg) for arg in args])


TINY = mushrooms.Config(
    dataset=mushrooms.BUILT_IN,
    batch_sizes=(256,),
    fractions=(0.1, 0.3),
    subsample_batch=None,
    relative_l2=1e-4,
    inner_steps=2,
    budget=10,
    tuning_budget=3,
    seeds=2,
)


def job(config, method, panel="batch 256", **changes):
    curve = next(e for e in mushrooms.curves(config) if (e.panel, e.method) == (panel, method))
    fields = {"eta": curve.etas[len(curve.etas) // 2], "seed": 0, "budget": 10, **changes}
    return Job(panel, method, curve.batch_size, effort=1.0, **fields)


def test_one_full_gradient_solves_it_at_the_price_of_all_rows():
    points = mushrooms.run_job(TINY, job(TINY, mushrooms.ONE_GRADIENT))
    lows = {point["target_gradients"]: point["suboptimality"] for point in points}
    # 569 rows are three minibatches of 256.
    assert lows[2] == lows[0] > 0.1
    assert abs(lows[3]) <= 1e-14
    assert points[-1]["target_samples"] == 569


SMALL = ["--seeds", "1", "--budget", "8", "--tuning-budget", "2", "--inner-steps", "2"]
PANELS = ["--batch-sizes", "16", "--fractions", "0.5"]


def test_own_set(invoke, data_folder, tmp_path):
    folder = tmp_path / "out"
    result = invoke(
        "--dataset", "tiny", "--output", folder, *SMALL, *PANELS,
        "--workers", "1", "--no-download", "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    answer = json.loads(result.stdout)
    assert [panel["panel"] for panel in answer["panels"]] == ["batch 16", "subsampled proxy"]
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["config"]["data"]["rows"] == 160
    assert "--dataset tiny" in summary["command"]
    fields = {
        "panel", "method", "batch_size", "eta", "target_gradients", "suboptimality_median",
        "suboptimality_q25", "suboptimality_q75", "proxy_gradients", "seconds",
    }  # fmt: skip
    assert all(fields <= row.keys() for row in summary["rows"])
