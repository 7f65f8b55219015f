"""Settings of the CIFAR-10 experiment: who competes, on what, for how long."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from proxyprox._util.validation import fraction, message, nonnegative, positive, whole

OPTIMIZERS = ("proxyprox", "sgd", "adamw")
CORRECTIONS = ("plain", "ema", "mean")
SCHEDULES = ("cosine", "linear", "constant")


@dataclass(frozen=True)
class Recipe:
    """How one competitor trains.

    Attributes
    ----------
    name : str
        As in the figures.
    optimizer : str
        ``"proxyprox"``, ``"sgd"`` or ``"adamw"``.
    lr : float
        η, annealed by ``schedule``; the learning rate of the others.
    momentum : float
        Nesterov momentum of SGD.
    weight_decay : float
        Decoupled for AdamW and ProxyProx, coupled for SGD.
    batch_size : int
        Images of a target gradient; passes are counted in images, so a larger batch takes
        fewer steps.
    schedule : str
        ``"cosine"``, ``"linear"`` (both to 0) or ``"constant"``.
    warmup : float
        Share of the steps over which lr rises from 0.
    augment, proxy_augment : bool
        Crop and flip the target's, or the proxy's, images at random.
    label_smoothing : float
        Of both losses.
    average : float
        Decay of a moving average of the weights, which is then what is evaluated; 0 for none.
    refresh : int
        Proxy batches on which BatchNorm's statistics are measured for an evaluation; 0 uses the
        running ones.
    correction, a, correction_weight
        The correction ("plain", "ema", "mean"), its parameter and its weight.
    inner_steps, inner_lr, inner_momentum
        The inner solve; with momentum it is SGD on ∇φ, without it the implicit step.
    inner_steps_end, inner_lr_end : optional
        Where the two go, linearly over the run.
    anchor : str
        ``"full"`` or ``"paired"``.
    anchor_batch : int, optional
        Images of each batch of the full pass; by default as many as in an inner step. More are
        faster, but a bias that grows with BatchNorm.
    proxy_size : int
        Images of the proxy.
    resample_every : int
        Outer steps after which the proxy is drawn anew from the training images; 0 for never.
    proxy_mode : str
        BatchNorm during proxy passes, as the optimiser's.
    seeds : int, optional
        Runs of this recipe, where it is so long that fewer than the experiment's must do.
    """

    name: str
    optimizer: str = "proxyprox"
    lr: float = 0.25
    momentum: float = 0.0
    weight_decay: float = 0.0
    batch_size: int = 128
    schedule: str = "cosine"
    warmup: float = 0.0
    augment: bool = False
    proxy_augment: bool = False
    label_smoothing: float = 0.0
    average: float = 0.0
    refresh: int = 0
    correction: str = "plain"
    a: float = 0.1
    correction_weight: float = 1.0
    inner_steps: int = 20
    inner_lr: float = 0.01
    inner_momentum: float = 0.0
    inner_steps_end: int | None = None
    inner_lr_end: float | None = None
    anchor: str = "full"
    anchor_batch: int | None = None
    proxy_size: int = 2560
    resample_every: int = 0
    proxy_mode: str = "frozen"
    seeds: int | None = None

    def __post_init__(self) -> None:
        """Check what the optimiser does not check itself."""
        for field, choices in (
            ("optimizer", OPTIMIZERS),
            ("correction", CORRECTIONS),
            ("schedule", SCHEDULES),
        ):
            if getattr(self, field) not in choices:
                allowed = "one of " + ", ".join(choices)
                raise ValueError(message(field, getattr(self, field), allowed))
        for field in ("batch_size", "inner_steps", "proxy_size"):
            whole(field, getattr(self, field))
        for field in ("resample_every", "refresh"):
            whole(field, getattr(self, field), least=0)
        if self.seeds is not None:
            whole("seeds", self.seeds)
        positive("lr", self.lr)
        positive("inner_lr", self.inner_lr)
        if self.average:
            fraction("average", self.average)
        for field in ("warmup", "label_smoothing", "weight_decay", "momentum"):
            nonnegative(field, getattr(self, field))
        given = self.anchor_batch
        anchor_batch = self.inner_batch if given is None else whole("anchor_batch", given)
        if self.optimizer == "proxyprox" and self.proxy_size % anchor_batch:
            allowed = f"a divisor of the proxy's size, {self.proxy_size}"
            raise ValueError(message("anchor_batch", anchor_batch, allowed))

    @property
    def inner_batch(self) -> int:
        """Images of an inner step's minibatch."""
        return min(128, self.proxy_size, self.batch_size)


# Between two target batches the weights move far: running statistics must follow the inner steps.
_PLAIN: dict[str, Any] = {"proxy_mode": "train"}

PAPER = (
    Recipe("SGD", "sgd", lr=0.1),
    Recipe("AdamW", "adamw", lr=1e-3, weight_decay=0.1),
    Recipe("SGD, Nesterov momentum", "sgd", lr=0.02, momentum=0.9),
    Recipe("ProxyProx, 20 inner steps", inner_steps=20, **_PLAIN),
    Recipe("ProxyProx, 40 inner steps", inner_steps=40, seeds=1, **_PLAIN),
)
"""The paper's competitors, and SGD with momentum."""

_REFINED: dict[str, Any] = {"augment": True, "label_smoothing": 0.1, "refresh": 20}
_TUNED: dict[str, Any] = {**_REFINED, "warmup": 0.15, "average": 0.98}

BEYOND = (
    Recipe("AdamW, refined", "adamw", lr=2e-3, weight_decay=0.1, **_TUNED),
    Recipe("Nesterov, refined", "sgd", lr=0.05, momentum=0.9, weight_decay=5e-4, **_TUNED),
    Recipe(
        "ProxyProx EMA, refined",
        lr=0.5,
        weight_decay=1e-3,
        correction="ema",
        a=0.2,
        inner_lr=0.02,
        inner_lr_end=0.004,
        average=0.95,
        proxy_augment=True,
        **_REFINED,
    ),
)
"""With augmentation, label smoothing and averaged weights: the best found of each for 5 passes."""


@dataclass(frozen=True)
class Config:
    """Settings of the experiment; the defaults are the paper's, for a short schedule.

    Attributes
    ----------
    recipes : tuple of Recipe
        The competitors.
    passes : float
        Passes over the target data.
    seeds : int
        Runs of each.
    points_per_pass : int
        Evaluations in a pass.
    width : int
        Channels of the network's first stage.
    train_evaluation : int
        Training images on which the train loss is measured.
    data : str
        ``"cifar10"`` or ``"synthetic"``.
    train_images, test_images : int, optional
        Use only so many; all by default.
    image_size : int
        32, or a divisor of it: images are thinned out, for trials.
    compile, graphs : bool
        On CUDA, compile the network and replay gradients from graphs.
    """

    recipes: tuple[Recipe, ...] = (*PAPER, *BEYOND)
    passes: float = 5.0
    seeds: int = 3
    points_per_pass: int = 4
    width: int = 64
    train_evaluation: int = 10_000
    data: str = "cifar10"
    train_images: int | None = None
    test_images: int | None = None
    image_size: int = 32
    compile: bool = True
    graphs: bool = True

    def __post_init__(self) -> None:
        """Check the numbers."""
        positive("passes", self.passes)
        for field in ("seeds", "points_per_pass", "width", "train_evaluation"):
            whole(field, getattr(self, field))
        if self.data not in ("cifar10", "synthetic"):
            raise ValueError(message("data", self.data, 'one of "cifar10", "synthetic"'))
        if 32 % whole("image_size", self.image_size):
            raise ValueError(message("image_size", self.image_size, "a divisor of 32"))
        names = [recipe.name for recipe in self.recipes]
        if not names or len(set(names)) < len(names):
            raise ValueError(message("recipes", names, "one or more, of different names"))

    def jobs(self) -> list[tuple[Recipe, int]]:
        """Return every recipe with every of its seeds, the first seed of all of them first."""
        return [
            (recipe, seed)
            for seed in range(self.seeds)
            for recipe in self.recipes
            if recipe.seeds is None or seed < recipe.seeds
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as JSON values."""
        return asdict(self)


TINY = Config(
    recipes=tuple(
        replace(
            recipe,
            name=recipe.name.replace("20", "4"),
            batch_size=32,
            proxy_size=128,
            inner_steps=4,
        )
        for recipe in (*PAPER, *BEYOND)
        if recipe.inner_steps == 20
    ),
    passes=2.0,
    seeds=1,
    points_per_pass=2,
    width=8,
    train_evaluation=256,
    data="synthetic",
    train_images=640,
    test_images=256,
    image_size=16,
)
"""The whole experiment in about a minute on a CPU, on synthetic images."""
