"""Settings of the CIFAR-10 experiment: who competes, on what, for how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from proxyprox._util.validation import below_one, fraction, message, nonnegative, positive, whole

OPTIMIZERS = ("proxyprox", "proxyadamw", "interleaved", "sgd", "adamw")
SOURCES = ("target", "proxy", "fine-tuned", "mixed")
NOISES = ("pair", "uniform")
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
        ``"proxyprox"``; ``"proxyadamw"``; ``"sgd"`` or ``"adamw"``, on the
        batches of ``source``; ``"interleaved"``, after each target batch ``interleave`` proxy
        batches, each a step of one AdamW (of SGD if there is a momentum).
    lr : float
        η of ProxyProx, or the learning rate of the others; annealed by
        ``schedule``.
    momentum : float
        Nesterov momentum of SGD.
    betas : pair of float
        Of AdamW.
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
    source : str
        What SGD and AdamW are trained on: the ``"target"``, the ``"proxy"``, ``"fine-tuned"`` (the
        proxy first, then the target) or ``"mixed"`` (both in every batch). All but the first need
        :attr:`Config.clean`.
    interleave : int
        Proxy batches after each target batch.
    mix : float
        Share of target images in a mixed batch.
    mix_weight : float, optional
        Their share of the loss; by default as large as of the batch.
    pretrain : float
        Share of the steps that fine-tuning spends on the proxy.
    tune_lr : float, optional
        Learning rate after that, with a schedule of its own; by default ``lr``.
    forward : bool
        Correct the loss of wrongly labelled images by the transition matrix between right and
        wrong labels (Patrini et al., 2017), which is estimated on the clean ones.
    average : float
        Decay of a moving average of the weights, which is then what is evaluated; 0 for none.
    refresh : int
        Proxy batches on which BatchNorm's statistics are measured for an evaluation; 0 uses the
        running ones.
    correction, a, correction_weight
        The correction ("plain", "ema", "mean"), its parameter and its weight.
    corrected, target_weight
        Whether ProxyAdamW corrects its proxy steps, and how often it counts the target's gradient.
    inner_steps, inner_lr, inner_momentum
        The inner solve: SGD on ∇φ with momentum, the implicit step without it; ``inner_steps`` are
        also the proxy steps of ProxyAdamW.
    inner_steps_end, inner_lr_end : optional
        Values of the two at the end of the run; between, they change linearly.
    anchor_batch : int, optional
        Images of each batch of the full pass; by default as many as in an inner step. More are
        faster, but a bias that grows with BatchNorm.
    proxy_size : int
        Images of the proxy, unless :attr:`Config.clean` makes it all others.
    proxy_mode : str
        BatchNorm during proxy passes, as the optimiser's.
    seeds : int, optional
        Runs of this recipe, where it is so long that fewer than the experiment's must do.
    """

    name: str
    optimizer: str = "proxyprox"
    lr: float = 0.25
    momentum: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.0
    batch_size: int = 128
    schedule: str = "cosine"
    warmup: float = 0.0
    augment: bool = False
    proxy_augment: bool = False
    label_smoothing: float = 0.0
    source: str = "target"
    interleave: int = 5
    mix: float = 0.25
    mix_weight: float | None = None
    pretrain: float = 0.5
    tune_lr: float | None = None
    forward: bool = False
    average: float = 0.0
    refresh: int = 0
    correction: str = "plain"
    a: float = 0.1
    correction_weight: float = 1.0
    corrected: bool = False
    target_weight: float = 3.0
    inner_steps: int = 20
    inner_lr: float = 0.01
    inner_momentum: float = 0.0
    inner_steps_end: int | None = None
    inner_lr_end: float | None = None
    anchor_batch: int | None = None
    proxy_size: int = 2560
    proxy_mode: str = "frozen"
    seeds: int | None = None

    def __post_init__(self) -> None:
        """Check what the optimiser does not check itself."""
        for field, choices in (
            ("optimizer", OPTIMIZERS),
            ("source", SOURCES),
            ("correction", CORRECTIONS),
            ("schedule", SCHEDULES),
        ):
            if getattr(self, field) not in choices:
                allowed = "one of " + ", ".join(choices)
                raise ValueError(message(field, getattr(self, field), allowed))
        if self.source != "target" and self.optimizer not in ("sgd", "adamw"):
            allowed = '"target" unless optimizer is "sgd" or "adamw"'
            raise ValueError(message("source", self.source, allowed))
        # Lists, as files of settings have them.
        object.__setattr__(self, "betas", tuple(self.betas))
        for field in ("batch_size", "inner_steps", "proxy_size", "interleave"):
            whole(field, getattr(self, field))
        whole("refresh", self.refresh, least=0)
        if self.seeds is not None:
            whole("seeds", self.seeds)
        positive("lr", self.lr)
        positive("inner_lr", self.inner_lr)
        for field in ("mix", "pretrain"):
            fraction(field, getattr(self, field))
        if self.mix_weight is not None:
            fraction("mix_weight", self.mix_weight)
        if self.tune_lr is not None:
            positive("tune_lr", self.tune_lr)
        if self.average:
            fraction("average", self.average)
        for field in ("warmup", "label_smoothing", "weight_decay", "momentum"):
            nonnegative(field, getattr(self, field))
        given = self.anchor_batch
        anchor_batch = self.inner_batch if given is None else whole("anchor_batch", given)
        if self.needs_full_pass and self.proxy_size % anchor_batch:
            allowed = f"a divisor of the proxy's size, {self.proxy_size}"
            raise ValueError(message("anchor_batch", anchor_batch, allowed))

    @property
    def inner_batch(self) -> int:
        """Images of an inner step's minibatch."""
        return min(128, self.proxy_size, self.batch_size)

    @property
    def needs_full_pass(self) -> bool:
        """Whether the optimiser goes over the whole proxy at every step."""
        return self.optimizer == "proxyprox"


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

ALONE = Recipe("SGD on the proxy alone", "sgd", lr=0.1, source="proxy")
"""What the proxy is worth without the target."""

_REFINED: dict[str, Any] = {"augment": True, "label_smoothing": 0.1, "refresh": 20}
_TUNED: dict[str, Any] = {**_REFINED, "warmup": 0.15, "average": 0.98}

_ADAM: dict[str, Any] = {"lr": 2e-3, "weight_decay": 0.1, "proxy_augment": True, **_TUNED}
_OURS: dict[str, Any] = {**_ADAM, "correction_weight": 0.3, "a": 0.2, "inner_steps": 8}

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
    Recipe("AdamW, interleaved", "interleaved", **_ADAM),
    Recipe("ProxyAdamW, mixed", "proxyadamw", **_OURS),
    Recipe("ProxyAdamW, corrected", "proxyadamw", corrected=True, **_OURS),
)
"""With augmentation, label smoothing and averaged weights: the best found of each for 5 passes."""

WRONG_LABELS = (
    Recipe("clean images alone", "adamw", **_ADAM),
    Recipe("noisy images alone", "adamw", source="proxy", **_ADAM),
    Recipe("fine-tuned", "adamw", source="fine-tuned", tune_lr=5e-4, **_ADAM),
    Recipe("mixed", "adamw", source="mixed", **_ADAM),
    Recipe("mixed, forward correction", "adamw", source="mixed", forward=True, **_ADAM),
    Recipe("ProxyAdamW, mixed", "proxyadamw", **_OURS),
    Recipe("ProxyAdamW, corrected", "proxyadamw", corrected=True, **_OURS),
)
"""Competitors where few images have right labels and many have wrong ones."""


@dataclass(frozen=True)
class Config:
    """Settings of the experiment; the defaults are the paper's, for a short schedule.

    Attributes
    ----------
    recipes : tuple of Recipe
        The competitors.
    passes : float
        Passes over the target data. With ``clean``, all gradients count, of the target and of the
        proxy, and a pass is as many images as there are for training.
    seeds : int
        Runs of each.
    points_per_pass : int
        Evaluations in a pass.
    width : int
        Channels of the network's first stage.
    train_evaluation : int
        Target images on which the train loss is measured.
    clean : int, optional
        Only this many images, drawn by the seed, are the target, with right labels; all others are
        the proxy. By default all are the target and ``proxy_size`` of them the proxy.
    noise : str, optional
        How the labels of the others are wrong: ``"pair"``, a class is taken for the next one;
        ``"uniform"``, for any other.
    noise_rate : float
        Share of labels that are wrong.
    validation : float, optional
        Share of the target images that are held out, for tuning; by default 0, with ``clean`` a
        fifth.
    data : str
        ``"cifar10"`` or ``"synthetic"``.
    train_images, test_images : int, optional
        How many to use; all by default.
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
    clean: int | None = None
    noise: str | None = None
    noise_rate: float = 0.45
    validation: float | None = None
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
        if self.clean is not None:
            whole("clean", self.clean)
        if self.noise is not None and (self.noise not in NOISES or self.clean is None):
            allowed = "None, or one of " + ", ".join(NOISES) + " if clean is given"
            raise ValueError(message("noise", self.noise, allowed))
        if self.noise is not None:
            fraction("noise_rate", self.noise_rate)
        below_one("validation", self.held_out_share)
        if self.data not in ("cifar10", "synthetic"):
            raise ValueError(message("data", self.data, 'one of "cifar10", "synthetic"'))
        if 32 % whole("image_size", self.image_size):
            raise ValueError(message("image_size", self.image_size, "a divisor of 32"))
        names = [recipe.name for recipe in self.recipes]
        if not names or len(set(names)) < len(names):
            raise ValueError(message("recipes", names, "one or more, of different names"))

    @property
    def held_out_share(self) -> float:
        """Share of the target images that are held out."""
        default = 0.0 if self.clean is None else 0.2
        return default if self.validation is None else self.validation

    @property
    def task(self) -> tuple[Any, ...]:
        """What a run depends on besides its recipe."""
        noise = (self.clean, self.noise, self.noise_rate, self.held_out_share)
        return self.passes, self.data, self.train_images, self.image_size, self.width, *noise

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


def tiny(recipes: Sequence[Recipe]) -> tuple[Recipe, ...]:
    """Return the recipes with small batches and few inner steps."""
    return tuple(
        replace(
            recipe,
            name=recipe.name.replace("20", "4"),
            batch_size=32,
            proxy_size=128,
            inner_steps=min(4, recipe.inner_steps),
            interleave=2,
        )
        for recipe in recipes
        if recipe.inner_steps <= 20
    )


FIGURE2 = Config(recipes=(*PAPER[:3], ALONE, *PAPER[3:]), passes=25.0, seeds=1)
"""The paper's Figure 2 as it is there: its own method over 25 passes, 40 inner steps last."""

TINY = Config(
    recipes=tiny((*PAPER, *BEYOND)),
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

TINY_FIGURE2 = replace(TINY, recipes=tiny(FIGURE2.recipes))
"""The paper's Figure 2 in miniature."""
