"""ProxyProx in Hugging Face's ``Trainer``: few right labels, many of another model's.

A small transformer, made from a configuration, says which of two kinds of tokens a sequence has
more of. 256 sequences have right labels: they are the target, the Trainer's own data. 4096 have the
answers of a teacher that counts the first half of a sequence only: they are the proxy.

It shows how the parts fit together, not a gain: after as many target gradients (64) AdamW on the
right labels ends at an accuracy of .70, ProxyProx with a fixed weight θ = 1 at .89, and AdamW on
the teacher's answers and then on the right labels at .93, which is what ``Proxied(optimizer,
proxy=..., way="fine-tuned")`` does in the same place.

    python examples/huggingface_trainer.py        # seconds on a CPU; needs transformers, accelerate
"""

from __future__ import annotations

import functools
import tempfile
from typing import Any

import torch
from torch.utils.data import DataLoader
from transformers import (
    DistilBertConfig,
    DistilBertForSequenceClassification,
    Trainer,
    TrainingArguments,
)

from proxyprox.torch import Proxy, ProxyProx, read_metrics

LENGTH, TOKENS = 16, 32


class ProxyProxTrainer(Trainer):
    """Adds the optimiser's numbers to whatever the Trainer logs, wherever it logs to."""

    # A callback would be too late: its on_log runs after those of TensorBoard and the others.
    def log(self, logs: dict[str, float], *args: Any, **options: Any) -> None:
        numbers = {} if self.optimizer is None else read_metrics(self.optimizer)
        super().log({**logs, **numbers}, *args, **options)


def draw_rows(count: int, seed: int, seen: int = LENGTH) -> list[dict[str, Any]]:
    """Return sequences, labelled by the majority of their first ``seen`` tokens."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(TOKENS, (count, LENGTH), generator=generator)
    labels = ((tokens[:, :seen] < TOKENS // 2).double().mean(1) > 0.5).long()
    return [{"input_ids": x, "labels": y} for x, y in zip(tokens, labels, strict=True)]


def make_network() -> Any:
    """Return a transformer of one layer, the same in every call."""
    torch.manual_seed(0)
    return DistilBertForSequenceClassification(
        DistilBertConfig(
            vocab_size=TOKENS, max_position_embeddings=LENGTH,
            dim=32, hidden_dim=64, n_layers=1, n_heads=2,
        )
    )  # fmt: skip


def make_adamw(model: Any) -> torch.optim.Optimizer:
    """Return the rival."""
    return torch.optim.AdamW(model.parameters(), lr=3e-3)


def make_proxyprox(model: Any) -> ProxyProx:
    """Return the optimiser; the proxy's batches are ours to move to the model's device."""

    def loss(batch: dict[str, Any]) -> Any:
        return model(**{name: tensor.to(model.device) for name, tensor in batch.items()}).loss

    shuffled = torch.Generator().manual_seed(3)
    batches = DataLoader(TEACHER, batch_size=32, shuffle=True, generator=shuffled)  # type: ignore[arg-type]
    return ProxyProx(
        model.parameters(), lr=10, proxy=Proxy(batches, loss), stop=8,
        inner=functools.partial(torch.optim.AdamW, lr=3e-3, weight_decay=0),
        model=model, proxy_mode="no_dropout",
    )  # fmt: skip


def accuracy(outputs: Any) -> dict[str, float]:
    """Return the share of right answers."""
    scores, labels = outputs
    return {"accuracy": float((scores.argmax(1) == labels).mean())}


def train(model: Any, optimizer: Any, rows: list[dict[str, Any]], epochs: float) -> Trainer:
    """Train with the Trainer's own schedule, clipping and logging; evaluate at the end."""
    kind = ProxyProxTrainer if isinstance(optimizer, ProxyProx) else Trainer
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, num_train_epochs=epochs, per_device_train_batch_size=32,
            logging_steps=16, save_strategy="no", report_to="none", disable_tqdm=True, seed=1,
        )  # fmt: skip
        trainer = kind(
            model, arguments, train_dataset=rows, optimizers=(optimizer, None),
            eval_dataset=draw_rows(1000, seed=1), compute_metrics=accuracy,
        )  # fmt: skip
        trainer.train()
        trainer.evaluate()
    return trainer


RIGHT, TEACHER = draw_rows(256, seed=0), draw_rows(4096, seed=2, seen=LENGTH // 2)

if __name__ == "__main__":
    model = make_network()
    train(model, make_adamw(model), RIGHT, 8)
    model = make_network()
    train(model, make_adamw(model), TEACHER, 4)
    train(model, make_adamw(model), RIGHT, 8)
    model = make_network()
    train(model, make_proxyprox(model), RIGHT, 8)
