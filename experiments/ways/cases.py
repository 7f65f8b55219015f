"""The cases: data of target and proxy, networks, and what is measured."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from experiments import bytes_lm
from experiments.cuda_graphs import CapturedGradient, DeviceImages, Plans, image_layout
from proxyprox.torch import TeacherLoss, estimate_confusion, refreshed_batchnorm

FOLDER = Path(os.environ.get("PROXYPROX_WAYS", "runs/ways"))
"""Where :func:`pack` has put the data that any machine can read with NumPy alone."""
NETWORKS = ("cnn", "batchnorm", "transformer")
GENERATED = ("real", "generated", "both")
"""Proxies of 2,000 real images, of what a generator makes of them, and of both."""
REAL = 2000
SPLITS = {"a9a": (5000, 15_000, 20_000), "mushrooms": (1000, 5000, 5000)}
"""Tables: the first and last row of the proxy, and the first that tests."""
TUNING = (1001, 1002, 1003, 1004)
"""Seeds by which defaults are chosen: digits come in another order, so that other rows test."""
SMALL_BATCH = (16, 64)
"""Rows and bytes of a batch of text on the CPU."""
DIGITS_PROXIES = ("subset", "old", "synthetic")
"""The nine cases with right labels and fresh target rows."""


@dataclass
class Case:
    """A network, its data, and its losses.

    Attributes
    ----------
    steps : int
        Gradients of the target.
    kind : dict
        What a user can say of the data, as the arguments of ``default_way``.
    target, proxy : callable
        Return the next batch.
    target_loss, proxy_loss : callable
        The mean loss of a batch.
    rows : callable
        ``rows("validation" or "test")`` returns held-out losses row by row, and the accuracy.
    decay : float
        Weight decay of AdamW.
    clip : float
        Largest norm of a gradient; 0 for none.
    """

    model: Any
    steps: int
    kind: dict[str, str]
    target: Callable[[], Any]
    proxy: Callable[[], Any]
    target_loss: Callable[[Any], Any]
    proxy_loss: Callable[[Any], Any]
    rows: Callable[[str], tuple[Any, float]]
    decay: float = 0.0
    clip: float = 0.0

    def __post_init__(self) -> None:
        """Capture the gradients."""
        self.params = list(self.model.parameters())
        buffers = list(self.model.buffers())
        self.target_gradient = CapturedGradient(
            self.target_loss, self.params, self.target(), buffers=buffers
        )
        self.proxy_gradient = CapturedGradient(
            self.proxy_loss, self.params, self.proxy(), buffers=buffers
        )

    def backward(self, of: str, batch: Any) -> Any:
        """Put the gradient of a batch of the target, or the proxy, into ``.grad``."""
        value = getattr(self, f"{of}_gradient").backward(batch)
        if self.clip:
            nn.utils.clip_grad_norm_(self.params, self.clip)
        return value


class CapturedProxy:
    """The proxy of a case, for ``Proxied``."""

    sampled = static = True

    def __init__(self, case: Case) -> None:
        self.case = case
        self.sample = case.proxy

    def partial(self, batch: Any, params: Any) -> Any:
        """Set ``.grad`` and return the loss."""
        return self.case.backward("proxy", batch)

    def loss(self, batch: Any) -> Any:
        """Return the loss of a batch."""
        with torch.no_grad():
            return self.case.proxy_loss(batch)

    def full(self, params: Any) -> Any:
        """Refuse: no method here needs it."""
        raise NotImplementedError("only batches are used here")

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: runs are short."""
        return {}

    def load_state_dict(self, state: Any) -> None:
        """Take nothing back."""


# -- text -----------------------------------------------------------------------------------


def text(name: str, seed: int, device: Any, *, validation: bool, tiny: bool) -> Case:
    """Return one of the three cases of byte-level text; ``bytes-…`` are small ones."""
    found = bytes_lm.texts(name, FOLDER / "corpus.npz", device)
    small = name.startswith("bytes")
    torch.manual_seed(seed)
    size: Any = (32, 1, 2) if tiny else (64, 2, 2) if small else ()
    model = bytes_lm.ByteTransformer(*size).to(device)
    size = SMALL_BATCH if small else ()
    target, proxy = (
        bytes_lm.Text(found[of], s, *size) for of, s in (("target", seed), ("proxy", seed + 50))
    )

    def loss(batch: Any) -> Any:
        return bytes_lm.row_losses(model, batch).mean()

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def rows(part: str) -> tuple[Any, float]:
        held = bytes_lm.Text(found[part], 5, *size)
        return torch.cat([bytes_lm.row_losses(model, held.next()) for _ in range(12)]), float("nan")

    kind = {
        "target_rows": "reused" if name.endswith("-reused") else "fresh",
        "proxy": "part" if name.endswith("-part") else "other data",
    }
    steps = 4 if tiny else target_steps(name)
    return Case(model, steps, kind, target.next, proxy.next, loss, loss, rows, 0.05, 1.0)


# -- CIFAR-10 -------------------------------------------------------------------------------


def as_tensors(images: Any) -> tuple[Any, Any, Any, Any]:
    """Return training and test images with their classes."""
    found = (images.train, images.train_labels, images.test, images.test_labels)
    train_x, train_y, test_x, test_y = map(torch.as_tensor, found)
    return train_x, train_y, test_x, test_y


def cifar_arrays() -> tuple[Any, Any, Any, Any]:
    """Return CIFAR-10, from a file after the first time: decoding takes longer than training."""
    cache = FOLDER / "cifar10.pt"
    if not cache.exists():
        from experiments.cifar10.data import load

        FOLDER.mkdir(parents=True, exist_ok=True)
        torch.save(as_tensors(load()), cache)
    train_x, train_y, test_x, test_y = torch.load(cache, weights_only=True)
    return train_x, train_y, test_x, test_y


@functools.cache
def cifar_images(*, tiny: bool) -> tuple[Any, Any, Any, Any]:
    """Return training and test images with their classes; a few that were drawn if tiny."""
    from experiments.cifar10.data import synthetic

    return as_tensors(synthetic(2000, 500)) if tiny else cifar_arrays()


def shuffled(count: int) -> Any:
    """Return the order of the training images, whose first are the proxy."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(123))


def cifar(name: str, seed: int, device: Any, *, validation: bool, tiny: bool) -> Case:
    """Return a case of CIFAR-10 by its name.

    ``cifar-<passes>``; ``cifar-<passes>-real``, ``-generated`` or ``-both`` with 2,000 images, or
    those that :mod:`experiments.generator` has made of them, as the proxy;
    ``cifar-<right labels>-<pair or uniform>[-matrix]``.
    """
    from experiments.cifar10.model import ResNet18

    parts = name.split("-")[1:]
    train_x, train_y, test_x, test_y = cifar_images(tiny=tiny)
    order = shuffled(len(train_x))
    data = DeviceImages(train_x[order], train_y[order], device=device)
    test = DeviceImages(test_x, test_y, pad=0, mean=data.mean, std=data.std, device=device)
    torch.manual_seed(seed)
    model = ResNet18(8 if tiny else 64).to(device=device, memory_format=image_layout(device))
    batch, n = 32 if tiny else 128, len(train_x)
    held = torch.arange(n - n // 10, n)
    cheap = data
    if len(parts) == 1:
        last = n - n // 10 if validation else n
        target_rows, proxy_rows = torch.arange(last), torch.arange(min(2560, n // 4))
        kind = {"target_rows": "fresh", "proxy": "part"}
    elif parts[1] in GENERATED:
        last = n - n // 10 if validation else n
        target_rows, real = torch.arange(last), order[:REAL]
        x, y = train_x[real], train_y[real]
        if parts[1] != "real":
            drawn = np.load(FOLDER / "generated.npz")
            ours = torch.tensor(drawn["images"]), torch.tensor(drawn["labels"])
            both = parts[1] == "both"
            x, y = (torch.cat([a, b]) if both else b for a, b in zip((x, y), ours, strict=True))
        cheap = DeviceImages(x, y, mean=data.mean, std=data.std, device=device)
        proxy_rows = torch.arange(len(y))
        what = "part" if parts[1] == "real" else "other data"
        kind = {"target_rows": "fresh", "proxy": what}
    else:
        count, wrong = int(parts[0]) // (20 if tiny else 1), parts[1]
        own = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
        target_rows, proxy_rows = own[: count - count // 5], own[count:]
        held = own[count - count // 5 : count]
        labels = wrong_labels(data.labels.cpu(), wrong, 0.45, seed)
        cheap, kind = data.with_labels(labels), {"target_rows": "reused", "proxy": "wrong labels"}

    def loss_on(images: DeviceImages, matrix: Any = None) -> Callable[[Any], Any]:
        def scores(x: Any) -> Any:
            with torch.autocast(x.device.type, torch.bfloat16, enabled=x.is_cuda):
                return model(x).float()

        taught = None if matrix is None else TeacherLoss(scores, confusion=matrix)

        def loss(plan: Any) -> Any:
            x, y = images.batch(plan)
            return cross_entropy(scores(x), y) if taught is None else taught((x, y))

        return loss

    matrix = None
    if parts[-1] == "matrix":
        right, said = data.labels.cpu()[target_rows], cheap.labels.cpu()[target_rows]
        matrix = estimate_confusion(labels=right, answers=said, classes=10).to(device)
    target = Plans(data, target_rows, batch, augment=True, seed=seed)
    proxy = Plans(cheap, proxy_rows, batch, augment=True, seed=seed + 50)
    plain = loss_on(data)
    proxy_loss = loss_on(cheap, matrix) if cheap is not data or matrix is not None else plain

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def rows(part: str) -> tuple[Any, float]:
        source, where = (test, torch.arange(len(test))) if part == "test" else (data, held)

        def forward(plan: Any) -> Any:
            return model(data.batch(plan)[0])

        fresh = [target.next() for _ in range(2 if tiny else 20)]
        with refreshed_batchnorm(model, fresh, forward):
            model.eval()
            found = [source.batch(source.plain_plan(i)) for i in where.split(1000)]
            scored = [(model(x), y) for x, y in found]
        model.train()
        losses = torch.cat([cross_entropy(s, y, reduction="none") for s, y in scored])
        right = torch.cat([s.argmax(1) == y for s, y in scored]).float().mean()
        return losses, float(right)

    steps = 4 if tiny else target_steps(name)
    return Case(model, steps, kind, target.next, proxy.next, plain, proxy_loss, rows, 0.1)


def make_images(device: Any, *, tiny: bool) -> None:
    """Write the images that a generator makes of real ones."""
    from experiments.generator import generate

    x, y, *_ = cifar_images(tiny=tiny)
    first = shuffled(len(x))[:REAL]
    steps, count = (3, 64) if tiny else (target_steps("generator"), 10_000)
    images, labels = generate(
        x[first], y[first], steps=steps, count=count, tiny=tiny, device=device
    )
    FOLDER.mkdir(parents=True, exist_ok=True)
    np.savez(FOLDER / "generated.npz", images=images, labels=labels)


def wrong_labels(labels: Any, noise: str, rate: float, seed: int) -> Any:
    """Return labels of which a share is wrong: the next class, or any other."""
    draw = torch.Generator().manual_seed(1000 + seed)
    wrong = torch.rand(len(labels), generator=draw) < rate
    by = torch.randint(1, 10, (len(labels),), generator=draw) if noise == "uniform" else 1
    return torch.where(wrong, (labels + by) % 10, labels)


# -- digits and tables ----------------------------------------------------------------------


class Transformer(nn.Module):  # type: ignore[misc]
    """One layer over the eight rows of an image, normalised first, without Dropout."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embed = nn.Linear(8, width)
        self.position = nn.Parameter(torch.randn(8, width) * 0.1)
        self.layer = nn.TransformerEncoderLayer(
            width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.head = nn.Linear(width, 10)

    def forward(self, images: Any) -> Any:
        """Return the scores."""
        return self.head(self.layer(self.embed(images[:, 0]) + self.position).mean(1))


def network(name: str) -> Any:
    """Return a new network for digits."""
    if name == "transformer":
        return Transformer()
    normalised = name == "batchnorm"
    norms = [[nn.BatchNorm2d(c)] if normalised else [] for c in (8, 16)]
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), *norms[0], nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), *norms[1], nn.ReLU(), nn.Flatten(),
        *([nn.Dropout(0.2)] if normalised else []), nn.Linear(256, 10),
    )  # fmt: skip


def digits_proxies(X: Any, y: Any) -> dict[str, tuple[Any, Any]]:
    """Return the proxies of digits: a part, other images, other labels, a teacher's answers."""
    from scipy.ndimage import rotate, shift
    from sklearn.linear_model import LogisticRegression

    turned = [rotate(x[0], 25, reshape=False, order=1) for x in X[:600]]
    moved = np.stack([shift(x, (1, 0), order=1) for x in turned])[:, None]
    rng, drawn = np.random.default_rng(1), []
    for label in range(10):
        own = X[:300][y[:300] == label]
        drawn.append(rng.normal(own.mean(0), own.std(0) + 0.05, size=(60, 1, 8, 8)))
    # The teacher sees the upper half of the images, and was fitted to the last 300 rows.
    seen = X.reshape(len(X), -1)[:, :32]
    teacher = LogisticRegression(max_iter=1000).fit(seen[-300:], y[-300:])
    labels = torch.as_tensor(y)
    return {
        "subset": (X[:150], y[:150]),
        "old": (moved.astype(np.float32), y[:600]),
        "synthetic": (np.concatenate(drawn).astype(np.float32), np.arange(10).repeat(60)),
        "useless": (X[150:750], np.random.default_rng(2).integers(10, size=600)),
        "pair": (X[150:1200], wrong_labels(labels, "pair", 0.45, 2)[150:1200].numpy()),
        "uniform": (X[150:1200], wrong_labels(labels, "uniform", 0.45, 2)[150:1200].numpy()),
        "teacher": (X[150:1200], teacher.predict_proba(seen[150:1200]).astype(np.float32)),
    }


def pack() -> None:
    """Write the data of all cases but CIFAR-10 to ``FOLDER``."""
    from sklearn.datasets import load_digits

    from experiments.datasets import load

    FOLDER.mkdir(parents=True, exist_ok=True)
    bytes_lm.pack(FOLDER / "corpus.npz")
    images, classes = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    found: dict[str, Any] = {}
    for order in (0, *TUNING):
        rows = np.random.default_rng(order).permutation(len(classes))
        X, y = images[rows], classes[rows]
        for name, (inputs, labels) in {"digits": (X, y), **digits_proxies(X, y)}.items():
            found |= {f"{name}{order or ''}_X": inputs, f"{name}{order or ''}_y": labels}
    for name in SPLITS:
        data = load(name)
        dense = data.X.toarray() if hasattr(data.X, "toarray") else np.asarray(data.X)
        found |= {f"{name}_X": dense.astype(np.uint8), f"{name}_y": (data.y > 0).astype(np.int64)}
    np.savez_compressed(FOLDER / "tables.npz", **found)


@functools.cache
def packed(name: str) -> tuple[Any, Any]:
    """Return a table: inputs and labels."""
    arrays = np.load(FOLDER / "tables.npz")
    return torch.tensor(arrays[f"{name}_X"]), torch.tensor(arrays[f"{name}_y"])


def draws(rows: int, size: int, seed: int) -> Callable[[], Any]:
    """Return a function that draws the indices of a batch."""
    generator = torch.Generator().manual_seed(seed)
    return lambda: torch.randint(rows, (size,), generator=generator)


def small(name: str, seed: int, device: Any, *, validation: bool, tiny: bool) -> Case:
    """Return ``digits-<network>-<proxy>`` or ``<table>-<wrong or drifted>``, on the CPU.

    Fresh target rows of digits are drawn from 1300; reused ones are 150, of which 50 are held out
    when settings are chosen.
    """
    torch.manual_seed(seed)
    first, *rest = name.split("-")
    if first in SPLITS:
        X, y, cheap = table(first, rest[0], seed)
        model: Any = nn.Sequential(nn.Linear(X.shape[1], 64), nn.ReLU(), nn.Linear(64, 2))
        own, held, last = slice(200), slice(200, 300), slice(SPLITS[first][2], None)
        own = own if validation else slice(300)
        what, reused = "wrong labels", True
    else:
        order = seed if seed in TUNING else ""
        (X, y), cheap = packed(f"digits{order}"), packed(f"{rest[1]}{order}")
        model, reused = network(rest[0]), rest[1] not in DIGITS_PROXIES
        own, held, last = slice(1300), slice(1300, 1400), slice(1400, None)
        if reused:
            own, held, last = slice(100 if validation else 150), slice(100, 150), slice(1200, 1497)
        kinds = dict.fromkeys(("old", "synthetic"), "other data")
        kinds |= {"subset": "part", "teacher": "teacher"}
        what = kinds.get(rest[1], "wrong labels")

    def loss_on(X: Any, y: Any) -> Callable[[Any], Any]:
        return lambda at: cross_entropy(model(X[at]), y[at])

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def rows(part: str) -> tuple[Any, float]:
        at = held if part == "validation" else last
        with refreshed_batchnorm(model, X[own].split(100), model):
            model.eval()
            scores = model(X[at])
        model.train()
        right = (scores.argmax(1) == y[at]).float().mean()
        return cross_entropy(scores, y[at], reduction="none"), float(right)

    kind = {"target_rows": "reused" if reused else "fresh", "proxy": what}
    target, proxy_rows = draws(len(y[own]), 64, seed), draws(len(cheap[1]), 50, seed + 50)
    losses = loss_on(X[own], y[own]), loss_on(*cheap)
    steps = 4 if tiny else target_steps(name)
    return Case(model, steps, kind, target, proxy_rows, *losses, rows)


@functools.cache
def table(name: str, kind: str, seed: int) -> tuple[Any, Any, tuple[Any, Any]]:
    """Return a table, and as the proxy rows with 30 % wrong labels or of another population.

    The drifted proxy has the labels of one sixth of its rows turned, those of one group: in a9a,
    of one occupation.
    """
    X, y = packed(name)
    first, last, _ = SPLITS[name]
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))
    rows, labels = X[order].float(), y[order]
    cheap, said = rows[first:last], labels[first:last].clone()
    if kind == "wrong":
        flipped = torch.rand(len(said), generator=torch.Generator().manual_seed(seed)) < 0.3
    else:
        shares = cheap.mean(0)
        flipped = cheap[:, int((shares - 1 / 6).abs().argmin())] > 0
    return rows, labels, (cheap, torch.where(flipped, 1 - said, said))


def target_steps(name: str) -> int:
    """Return how many gradients of the target a case has."""
    first, *rest = name.split("-")
    if first in ("text", "bytes"):
        return (400 if rest == ["reused"] else 300) // (1 if first == "text" else 6)
    if first == "generator":
        return 8000
    if first == "cifar":
        return 390 * (1 if rest[1:] and rest[1] not in GENERATED else int(rest[0]))
    return 200 if first in SPLITS else 60


def make(name: str, seed: int, device: Any, **options: Any) -> Case:
    """Return a case by its name."""
    makers = {"text": text, "bytes": text, "cifar": cifar}
    return makers.get(name.partition("-")[0], small)(name, seed, device, **options)
