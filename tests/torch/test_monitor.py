"""The optimiser's numbers for loggers."""

from __future__ import annotations

import pytest
import torch

from proxyprox.torch import read_metrics

NAMES = {"theta", "displacement", "residual", "lr"}
PAID = {"target_gradients", "proxy_gradients", "proxy_sampled_gradients", "seconds"}


def test_the_newest_numbers_with_a_prefix(toy):
    optimizer = toy.optimizer(measure_residual=True, correction_weight=0.75)
    assert "proxyprox/residual" not in read_metrics(optimizer), "nothing is measured yet"
    toy.train(optimizer, 3)
    metrics = read_metrics(optimizer, prefix="run")
    assert set(metrics) == {f"run/{name}" for name in NAMES | PAID}
    assert (metrics["run/theta"], metrics["run/lr"]) == (0.75, 0.3)
    assert metrics["run/target_gradients"] == 3
    assert metrics["run/residual"] == optimizer.record.residual
    assert metrics["run/displacement"] == optimizer.record.displacement
    for other in (torch.optim.AdamW(toy.params), None):
        with pytest.raises(TypeError, match="optimizer"):
            read_metrics(other)


@pytest.mark.filterwarnings("ignore")  # of Hugging Face's own
def test_hugging_face_trainer_as_in_the_example():
    pytest.importorskip("transformers")
    import huggingface_trainer as example

    model = example.make_network()
    optimizer = example.make_proxyprox(model)
    history = example.train(model, optimizer, example.RIGHT, epochs=2).state.log_history
    assert history[0]["proxyprox/target_gradients"] == 16
    assert {"loss", "learning_rate", "proxyprox/theta"} <= set(history[0])
    assert optimizer.ledger.target_gradients == 16
