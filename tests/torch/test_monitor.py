"""The optimiser's numbers in TensorBoard, Lightning and Hugging Face's Trainer."""

from __future__ import annotations

import copy
import csv
import pickle

import pytest
import torch
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, TensorDataset

from proxyprox.torch import lightning_monitor, log_metrics, read_metrics

PAID = {"target_gradients", "proxy_gradients", "proxy_sampled_gradients", "seconds"}


class Writer:
    def __init__(self):
        self.written = []

    def add_scalar(self, name, value, step):
        self.written.append((name, value, step))


def test_the_newest_numbers_with_a_prefix(toy):
    optimizer = toy.optimizer(measure_residual=True, correction_weight=0.75)
    toy.train(optimizer, 3)
    metrics = read_metrics(optimizer, prefix="run")
    assert set(metrics) == {
        f"run/{name}" for name in {"theta", "displacement", "residual", "lr"} | PAID
    }
    assert metrics["run/theta"] == 0.75
    assert metrics["run/lr"] == 0.3
    assert metrics["run/target_gradients"] == 3
    assert metrics["run/residual"] == optimizer.record.residual
    assert metrics["run/displacement"] == optimizer.record.displacement


def test_other_optimisers_are_refused(toy):
    with pytest.raises(TypeError, match=r"optimizer must be .*proxyprox.torch.*AdamW"):
        read_metrics(torch.optim.AdamW(toy.params))
    with pytest.raises(TypeError, match="optimizer must be"):
        log_metrics(Writer(), None)


@pytest.mark.filterwarnings("ignore")  # of the frameworks' own
@pytest.mark.parametrize("framework", ["lightning", "accelerate"])
def test_wrapped_optimisers(toy, framework):
    pytest.importorskip(framework)
    optimizer = toy.optimizer(measure_residual=True)
    if framework == "lightning":
        from lightning.pytorch.core.optimizer import LightningOptimizer

        wrapped = LightningOptimizer(optimizer)
    else:
        import accelerate

        wrapped = accelerate.Accelerator(cpu=True).prepare(optimizer)
    toy.train(optimizer, 2)
    assert read_metrics(wrapped) == read_metrics(optimizer)
    assert read_metrics(wrapped)["proxyprox/target_gradients"] == 2


def test_a_writer_of_scalars(toy):
    optimizer, writer = toy.optimizer(), Writer()
    toy.train(optimizer, 2)
    log_metrics(writer, optimizer)
    log_metrics(writer, optimizer, step=7, prefix="again")
    assert {step for name, _, step in writer.written if name.startswith("proxyprox/")} == {2}
    assert ("again/theta", 1.0, 7) in writer.written
    with pytest.raises(TypeError, match=r"writer must be .*add_scalar"):
        log_metrics(print, optimizer)


def test_tensorboard_itself(toy, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    optimizer = toy.optimizer(measure_residual=True)
    with SummaryWriter(tmp_path) as writer:
        for _ in range(3):
            toy.train(optimizer, 1)
            log_metrics(writer, optimizer)
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [event.step for event in events.Scalars("proxyprox/residual")] == [1, 2, 3]


def fit(toy, tmp_path, optimizers, **options):
    """Fit with Lightning, two epochs of three batches, and return the rows of its log."""
    lightning = pytest.importorskip("lightning")
    from lightning.pytorch.loggers import CSVLogger

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = toy.model

        def training_step(self, batch, index):
            return mse_loss(self.model(batch[0]), batch[1])

        def configure_optimizers(self):
            return optimizers

    trainer = lightning.Trainer(
        max_epochs=2, logger=CSVLogger(tmp_path), callbacks=[lightning_monitor()],
        enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
        accelerator="cpu", **options,
    )  # fmt: skip
    trainer.fit(Module(), DataLoader(TensorDataset(toy.x, toy.y), batch_size=8))
    with next(tmp_path.rglob("metrics.csv")).open() as file:
        return list(csv.DictReader(file)), trainer.callback_metrics


@pytest.mark.filterwarnings("ignore")  # of Lightning's own, about workers
def test_lightning_logs_as_often_as_its_trainer_says(toy, tmp_path):
    optimizer = toy.optimizer(measure_residual=True, lr=0.1)
    rows, known = fit(toy, tmp_path, optimizer, log_every_n_steps=2)
    assert [row["proxyprox/target_gradients"] for row in rows] == ["2.0", "4.0", "6.0"]
    assert {row["proxyprox/theta"] for row in rows} == {"1.0"}
    assert float(rows[-1]["proxyprox/residual"]) == pytest.approx(optimizer.record.residual)
    assert known["proxyprox/displacement"] == pytest.approx(optimizer.record.displacement)


@pytest.mark.filterwarnings("ignore")
def test_a_fit_without_proxyprox_is_refused_before_it_begins(toy, tmp_path):
    before = toy.flat()
    with pytest.raises(TypeError, match=r"optimizers .*got \['SGD'\]"):
        fit(toy, tmp_path, torch.optim.SGD(toy.params, lr=0.1))
    assert torch.equal(toy.flat(), before)


def test_the_callback_can_be_copied():
    pytest.importorskip("lightning")
    callback = lightning_monitor("mine")
    for copied in (pickle.loads(pickle.dumps(callback)), copy.deepcopy(callback)):
        assert type(copied).__name__ == type(callback).__name__


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
