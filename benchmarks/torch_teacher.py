"""A network, 100 labels and a teacher's answers on 1200 rows: what to do with them?

    python benchmarks/torch_teacher.py --json docs/results/torch/teacher.json

Digits. The teachers are logistic regressions on 300 other rows: one sees the upper half of the
images, one all of them, one has its classes permuted. 240 target gradients of 25 labels each. Every
method has six settings, and the best by the log-loss of two other seeds is reported. *The way
chosen*: ``choose_way`` trains each way of ``ProxyAdamW``, at its setting, in full on 80 of the
labels and asks the other 20; the chosen one is trained again on all 100. What the JSON file has is
not run again.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import time
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from torch.nn.functional import cross_entropy
from torch.optim import AdamW
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

from proxyprox.torch import Proxy, ProxyAdamW, ProxyProx, TeacherLoss, choose_way

STEPS, LABELLED, ALL, TEST = 240, (300, 400), (300, 1500), slice(1500, None)
FIRST, HELD_OUT = (300, 380), slice(380, 400)
TEACHERS = ("half of the image", "all of it", "classes permuted")


class Task:
    """The data of a seed, with what a teacher said about every row."""

    def __init__(self, teacher, seed):
        X, y = map(torch.tensor, load_digits(return_X_y=True))
        order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))
        self.X, self.y, self.seed = X[order].float() / 16, y[order], seed
        columns = slice(32) if teacher == TEACHERS[0] else slice(64)
        seen = self.X[:, columns]
        model = LogisticRegression().fit(seen[:300], self.y[:300])
        self.said = torch.tensor(model.predict_proba(seen)).float()
        if teacher == TEACHERS[2]:
            self.said = self.said.roll(1, 1)
        self.generator = torch.Generator().manual_seed(seed)
        self.way = ""

    def network(self):
        torch.manual_seed(self.seed)
        return torch.nn.Sequential(
            torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)
        )

    def loss(self, model, answers, rows, size):
        drawn = torch.randint(*rows, (size,), generator=self.generator)
        return cross_entropy(model(self.X[drawn]), answers[drawn])

    def measure(self, scores):
        y = self.y[TEST]
        right = (scores.argmax(1) == y).float().mean()
        return {"loss": float(cross_entropy(scores, y)), "accuracy": float(right)}


def train(task, model, optimizer, steps=STEPS, weight=1.0, labelled=LABELLED):
    """Take steps on labels (weight 1), on the teacher's answers (0), or on a mixture."""
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        if weight > 0:
            (weight * task.loss(model, task.y, labelled, 25)).backward()
        if weight < 1:
            ((1 - weight) * task.loss(model, task.said, ALL, 50)).backward()
        optimizer.step()
        scheduler.step()
    return model


def teacher_itself(task):
    return task.said[TEST].log()


def labels_alone(task, lr, decay):
    model = task.network()
    optimizer = AdamW(model.parameters(), lr, weight_decay=decay)
    return train(task, model, optimizer)(task.X[TEST])


def imitate(task, lr, decay=0.01):
    model = task.network()
    optimizer = AdamW(model.parameters(), lr, weight_decay=decay)
    return train(task, model, optimizer, 2 * STEPS, weight=0)


def teacher_alone(task, lr, decay):
    return imitate(task, lr, decay)(task.X[TEST])


def fine_tuned(task, first, lr):
    model = imitate(task, first)
    return train(task, model, AdamW(model.parameters(), lr))(task.X[TEST])


def mixed(task, lr, weight):
    model = task.network()
    optimizer = AdamW(model.parameters(), lr)
    return train(task, model, optimizer, 2 * STEPS, weight)(task.X[TEST])


def teacher_proxy(task, model):
    rows = TensorDataset(task.X[slice(*ALL)], task.said[slice(*ALL)])
    draws = RandomSampler(rows, generator=torch.Generator().manual_seed(task.seed))
    # Batches are taken from the tensors at once rather than row by row.
    batches = DataLoader(rows, batch_size=None, sampler=BatchSampler(draws, 50, False))
    return Proxy(batches, TeacherLoss(model))


def proxyadamw(task, way, lr, proxy_steps=8, decay=0.01, labelled=LABELLED):
    model = task.network()
    optimizer = ProxyAdamW(
        model.parameters(), lr, proxy=teacher_proxy(task, model), way=way, model=model,
        proxy_steps=proxy_steps, weight_decay=decay,
    )  # fmt: skip
    return train(task, model, optimizer, labelled=labelled)


def in_way(task, way, **setting):
    return proxyadamw(task, way, **setting)(task.X[TEST])


def way_chosen(task, **settings):
    def held_out_losses(way):
        model = proxyadamw(task, way, **settings[way], labelled=FIRST)
        return cross_entropy(model(task.X[HELD_OUT]), task.y[HELD_OUT], reduction="none")

    task.way = choose_way(held_out_losses, tuple(settings)).way
    return in_way(task, task.way, **settings[task.way])


def proxyprox(task, inner, lr, theta):
    model = task.network()
    optimizer = ProxyProx(
        model.parameters(), lr=lr, proxy=teacher_proxy(task, model), model=model,
        inner=functools.partial(AdamW, lr=inner, weight_decay=0), keep_inner_state=True,
        stop=4, anchor="paired", correction_weight=theta,
    )  # fmt: skip
    return train(task, model, optimizer)(task.X[TEST])


def grid(**values):
    return [dict(zip(values, found, strict=True)) for found in itertools.product(*values.values())]


RATES, DECAYS, INNER = (
    (0.003, 0.01, 0.03),
    (0.01, 0.1),
    {"inner": (0.001, 0.003, 0.01), "lr": (3, 30)},
)
STEPPED = {"lr": (0.003, 0.01), "proxy_steps": (1, 2, 8)}
METHODS = {
    "the teacher itself": (teacher_itself, [{}]),
    "labels alone": (labels_alone, grid(lr=RATES, decay=DECAYS)),
    "teacher alone": (teacher_alone, grid(lr=RATES, decay=DECAYS)),
    "fine-tuned": (fine_tuned, grid(first=(0.003, 0.01), lr=(0.001, 0.003, 0.01))),
    "mixed": (mixed, grid(lr=(0.003, 0.01), weight=(0.5, 0.8, 0.95))),
    "ProxyProx, θ = 1": (proxyprox, grid(theta=(1.0,), **INNER)),
    "ProxyProx, θ = ½": (proxyprox, grid(theta=(0.5,), **INNER)),
    "ProxyAdamW, mixed": (functools.partial(in_way, way="mixed"), grid(**STEPPED)),
    "ProxyAdamW, corrected": (functools.partial(in_way, way="corrected"), grid(**STEPPED)),
    "ProxyAdamW, fine-tuned": (functools.partial(in_way, way="fine-tuned"), grid(**STEPPED)),
}
WAYS = {"target alone": "labels alone"} | {
    way: f"ProxyAdamW, {way}" for way in ("mixed", "corrected", "fine-tuned")
}


def run(method, setting, teacher, seed):
    begun = time.perf_counter()
    with torch.no_grad():
        task = Task(teacher, seed)
        with torch.enable_grad():
            scores = method(task, **setting)
        paid = {"seconds": time.perf_counter() - begun}
        return {**task.measure(scores), **paid, **({"way": task.way} if task.way else {})}


def fill(name, method, settings, teacher, seeds):
    """Choose among the settings on two other seeds, and return the cell of the table."""
    setting = settings[0]
    if len(settings) > 1:
        tried = [
            np.mean([run(method, setting, teacher, k)["loss"] for k in (100, 101)])
            for setting in settings
        ]
        setting = settings[int(np.argmin(tried))]
    seen = [run(method, setting, teacher, seed) for seed in range(seeds)]
    keys = ("loss", "accuracy", "seconds")
    mean = {key: float(np.mean([one[key] for one in seen])) for key in keys}
    return {"teacher": teacher, "method": name, "setting": setting, **mean, "seeds": seen}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    cells = []
    if options.json and options.json.exists():
        cells = json.loads(options.json.read_text())
    known = {(cell["teacher"], cell["method"]): cell for cell in cells}

    def tell(name, method, settings_for):
        for teacher in TEACHERS:
            if (teacher, name) not in known:
                settings = settings_for(teacher)
                known[teacher, name] = fill(name, method, settings, teacher, options.seeds)
                if options.json:
                    options.json.write_text(json.dumps(list(known.values()), indent=1) + "\n")
        found = (known[teacher, name] for teacher in TEACHERS)
        shown = " | ".join(f"{cell['accuracy']:.3f}, {cell['loss']:.3f}" for cell in found)
        print(f"| {name} | {shown} |", flush=True)

    print("| method |", " | ".join(TEACHERS), "|")
    for name, (method, settings) in METHODS.items():
        tell(name, method, lambda teacher, settings=settings: settings)
    tell(
        "the way chosen",
        way_chosen,
        lambda teacher: [{way: known[teacher, name]["setting"] for way, name in WAYS.items()}],
    )


if __name__ == "__main__":
    main()
