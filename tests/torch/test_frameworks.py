"""The loops and tools that people use around an optimiser."""

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, TensorDataset

from proxyprox.torch import EMA, ImplicitStep, Plain, Proxy, ProxyAdamW, ProxyProx, read_metrics

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(32, 4, generator=GENERATOR)
Y = X.sum(1, keepdim=True) + 0.1 * torch.randn(32, 1, generator=GENERATOR)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))


def optimizer_for(model, called=None, **options):
    batches, called = [(X[:8], Y[:8]), (X[8:16], Y[8:16])], called or model
    proxy = Proxy(batches, lambda batch: mse_loss(called(batch[0]), batch[1]))
    options = {"correction": EMA(0.3), "inner": ImplicitStep(0.02), "stop": 3, **options}
    return ProxyProx(model.parameters(), 0.5, proxy=proxy, model=model, **options)


def loader():
    return DataLoader(TensorDataset(X, Y), batch_size=8)


def plain_loop(model, optimizer, epochs=2):
    for _ in range(epochs):
        for x, y in loader():
            optimizer.zero_grad()
            mse_loss(model(x), y).backward()
            optimizer.step()
    return [p.detach().clone() for p in model.parameters()]


def check_against_plain_loop(model, epochs=2, **options):
    reference = network()
    expected = plain_loop(reference, optimizer_for(reference, **options), epochs)
    torch.testing.assert_close(
        [p.detach() for p in model.parameters()], expected, rtol=1e-4, atol=1e-5
    )


@pytest.mark.filterwarnings("ignore")  # of Lightning's own, about workers and loggers
@pytest.mark.parametrize(("automatic", "correction"), [(True, Plain()), (False, EMA(0.3))])
def test_lightning(tmp_path, automatic, correction):
    lightning = pytest.importorskip("lightning")

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = network()
            self.automatic_optimization = automatic

        def training_step(self, batch, index):
            loss = mse_loss(self.model(batch[0]), batch[1])
            if not automatic:
                optimizer = self.optimizers()
                optimizer.zero_grad()
                self.manual_backward(loss)
                optimizer.step()
            return loss

        def on_train_batch_end(self, *_):
            self.log_dict(read_metrics(self.optimizers()))

        def configure_optimizers(self):
            optimizer = optimizer_for(self.model, correction=correction)
            return [optimizer], [torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)]

    module = Module()
    trainer = lightning.Trainer(
        max_epochs=2, logger=False, enable_progress_bar=False, enable_model_summary=False,
        accelerator="cpu", default_root_dir=tmp_path,
    )  # fmt: skip
    trainer.fit(module, loader())
    assert trainer.callback_metrics["proxyprox/target_gradients"] == 8
    check_against_plain_loop(module.model, correction=correction)
    saved = torch.load(next(tmp_path.rglob("*.ckpt")), weights_only=False, map_location="cpu")
    again = optimizer_for(model := network(), correction=correction)
    again.load_state_dict(saved["optimizer_states"][0])
    # The trainer's wrapper is of the optimiser's class, but not the optimiser.
    given = {"proxy": again.proxy, "way": "late", "target_steps": 2}
    adamw = ProxyAdamW(model.parameters(), **given)
    wrapped = lightning.pytorch.core.optimizer.LightningOptimizer(adamw)
    assert wrapped.pretrain(5) == 1 + adamw.pretrain(1) == 11


@pytest.mark.filterwarnings("ignore")  # of Accelerate's own
def test_accelerate():
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True)
    model = network()
    optimizer = optimizer_for(model)
    prepared, wrapped, batches = accelerator.prepare(model, optimizer, loader())
    for _ in range(2):
        for x, y in batches:
            with accelerator.accumulate(prepared):
                loss = mse_loss(prepared(x), y)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(prepared.parameters(), 1e6)
                wrapped.step()
                assert read_metrics(wrapped) == read_metrics(optimizer)
                wrapped.zero_grad()
    check_against_plain_loop(model)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the compiler's own
def test_a_compiled_model():
    torch._dynamo.reset()
    model = network()
    compiled = torch.compile(model, backend="aot_eager")
    optimizer = optimizer_for(model, compiled)
    for x, y in loader():
        optimizer.zero_grad()
        mse_loss(compiled(x), y).backward()
        optimizer.step()
    check_against_plain_loop(model, 1)
    assert int(model[1].num_batches_tracked) == 4, "the proxy's passes are not counted"


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


# -- numbers for loggers ------------------------------------------------------------

NAMES = ["theta", "displacement", "residual", "lr"]
PAID = ["target_gradients", "proxy_gradients", "proxy_sampled_gradients", "seconds"]


def test_the_newest_numbers_with_a_prefix(toy):
    proxy = Proxy(toy.batches(), toy.batch_loss)
    optimizer = toy.optimizer(proxy=proxy, measure_residual=True, correction_weight=0.75)
    assert "proxyprox/residual" not in read_metrics(optimizer), "nothing is measured yet"
    toy.train(optimizer, 3)
    metrics = read_metrics(optimizer, prefix="run")
    assert set(metrics) == {f"run/{name}" for name in [*NAMES, *PAID]}
    assert (metrics["run/theta"], metrics["run/lr"]) == (0.75, 0.3)
    paid = [metrics[f"run/{name}"] for name in PAID]
    assert paid == [3, 6, 15, pytest.approx(optimizer.ledger.seconds)]
    assert metrics["run/residual"] == optimizer.record.residual
    assert metrics["run/displacement"] == optimizer.record.displacement
    for other in (torch.optim.AdamW(toy.params), None):
        with pytest.raises(TypeError, match="optimizer"):
            read_metrics(other)
