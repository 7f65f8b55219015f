"""How each competitor takes a step: the gradients of which batches, and what moves the weights."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import cross_entropy
from torch.optim.lr_scheduler import LambdaLR

from experiments.cifar10.config import Config, Recipe
from experiments.cifar10.model import Network, half_precision
from experiments.cifar10.task import Task
from experiments.cuda_graphs import CapturedGradient, GraphedProxy, Plans
from proxyprox.corrections import Correction
from proxyprox.torch import EMA, ImplicitStep, Mean, Plain, ProxyAdamW, ProxyProx, Way


@dataclass(frozen=True)
class Parts:
    """What a method is made from; ``total`` is the number of steps."""

    config: Config
    recipe: Recipe
    seed: int
    task: Task
    network: Network
    total: int

    @property
    def model(self) -> Any:
        """The network as a module."""
        return self.network.model

    @property
    def params(self) -> list[Any]:
        """The weights."""
        return list(self.model.parameters())

    def plans(self, of: str, batch_size: int) -> Plans:
        """Return minibatches of the task's "target", "proxy" or "validation" images."""
        offset = {"target": 2000, "proxy": 3000, "validation": 4000}[of]
        recipe = self.recipe
        return Plans(
            self.task.data, getattr(self.task, of), batch_size,
            augment=recipe.proxy_augment if of == "proxy" else recipe.augment,
            seed=offset + self.seed,
        )  # fmt: skip

    def loss(self, plan: Any, weights: Any | None = None, *, plain: bool = False) -> Any:
        """Return the mean loss of a batch, or its weighted sum; ``plain``, without the compiler."""
        x, y = self.task.data.batch(plan)
        with half_precision(x.device):
            scores = self.model(x) if plain else self.network.forward(x)
        scores = scores.float()
        if self.recipe.forward:
            scores = self.task.forward(scores, plan)
        smoothing = self.recipe.label_smoothing
        if weights is None:
            return cross_entropy(scores, y, label_smoothing=smoothing)
        return weights @ cross_entropy(scores, y, label_smoothing=smoothing, reduction="none")

    def gradient(self, batch_size: int, loss: Callable[[Any], Any]) -> CapturedGradient:
        """Return the gradient of a loss of plans of this many images."""
        example = self.task.data.plain_plan(self.task.target[:1].repeat(batch_size))
        return CapturedGradient(
            loss, self.params, example,
            graph=self.config.graphs, buffers=list(self.model.buffers()),
        )  # fmt: skip

    def optimizer(self) -> Any:
        """Return SGD or AdamW, as the recipe has it."""
        recipe = self.recipe
        if recipe.optimizer == "sgd" or recipe.momentum:
            return torch.optim.SGD(
                self.params, lr=recipe.lr, momentum=recipe.momentum,
                nesterov=recipe.momentum > 0, weight_decay=recipe.weight_decay,
            )  # fmt: skip
        return self.adamw(self.params)

    def adamw(self, params: Any) -> Any:
        """Return AdamW, fused on CUDA."""
        recipe = self.recipe
        return torch.optim.AdamW(
            params, lr=recipe.lr, betas=recipe.betas, weight_decay=recipe.weight_decay,
            fused=self.fused,
        )  # fmt: skip

    @property
    def fused(self) -> bool | None:
        """AdamW's option: on CUDA."""
        return True if self.task.data.device.type == "cuda" else None


def schedule(recipe: Recipe, k: float, total: float) -> float:
    """Return lr's factor at step k of this many."""
    progress = min(1.0, k / total)
    if recipe.warmup and progress < recipe.warmup:
        return (k + 1) / (recipe.warmup * total + 1)
    if recipe.schedule == "cosine":
        return (1 + math.cos(math.pi * progress)) / 2
    return 1 - progress if recipe.schedule == "linear" else 1.0


class Method:
    """A competitor: minibatches of target and proxy, and the optimiser that moves the weights.

    A subclass takes the step.

    Attributes
    ----------
    plans : dict of str to Plans
        Minibatches of the target and of the proxy, and whatever else is drawn.
    images, counts : dict of str to int
        Images that gradients were taken of, and those gradients, by kind.
    """

    def __init__(self, parts: Parts) -> None:
        self.parts, self.recipe = parts, parts.recipe
        self.images = {"target": 0, "proxy": 0}
        self.counts = {"target_gradients": 0, "proxy_gradients": 0, "proxy_sampled_gradients": 0}
        sizes = self.batch_sizes()
        self.plans = {name: parts.plans(name, size) for name, size in sizes.items()}
        # Captured before the proxy's, so that the weights' first use is in training mode.
        self.gradient = parts.gradient(self.recipe.batch_size, self.loss)
        self.optimizer = self.make_optimizer()
        self.scheduler = LambdaLR(self.paced, self.factor)

    @property
    def paced(self) -> Any:
        """The optimiser whose lr follows the schedule."""
        return self.optimizer

    @staticmethod
    def images_per_step(recipe: Recipe, proxy_size: int) -> float:
        """Return of how many images a step takes gradients, of the target and of the proxy."""
        raise NotImplementedError("a method must define images_per_step(recipe, proxy_size)")

    def step(self, k: int, *, measured: bool) -> None:
        """Take step k; ``measured`` says that its numbers are recorded."""
        raise NotImplementedError("a method must define step(k, measured=...)")

    def batch_sizes(self) -> dict[str, int]:
        """Return of what minibatches are drawn, and their sizes."""
        return {"target": self.recipe.batch_size, "proxy": self.recipe.inner_batch}

    def loss(self, plan: Any) -> Any:
        """Return the loss of a plan of ``batch_size`` images."""
        return self.parts.loss(plan)

    def make_optimizer(self) -> Any:
        """Return what moves the weights."""
        return self.parts.optimizer()

    def factor(self, k: int) -> float:
        """Return the learning rate's factor at step k."""
        return schedule(self.recipe, k, self.parts.total)

    def measurements(self) -> dict[str, Any]:
        """Return what the method tells about its last step."""
        return {"residual": None, "theta": None}

    def graphed_proxy(self) -> GraphedProxy:
        """Return the proxy for an optimiser that takes its gradients itself."""
        parts, recipe = self.parts, self.recipe
        return GraphedProxy(
            self.plans["proxy"], parts.loss, parts.params, full_batch=recipe.anchor_batch,
            model=parts.model, mode=recipe.proxy_mode, graph=parts.config.graphs,
            full=recipe.needs_full_pass,
        )  # fmt: skip

    def read_ledger(self) -> None:
        """Take over the counts of an optimiser that keeps a ledger."""
        ledger, recipe = self.optimizer.ledger, self.recipe
        self.counts = {name: getattr(ledger, name) for name in self.counts}
        self.images["target"] = ledger.target_gradients * recipe.batch_size
        sampled = ledger.proxy_sampled_gradients * recipe.inner_batch
        full = ledger.proxy_gradients * len(self.plans["proxy"].indices)
        self.images["proxy"] = sampled + full

    def count(self, of: str, images: int) -> None:
        """Enter a gradient of a batch of the target or of the proxy."""
        self.images[of] += images
        self.counts["target_gradients" if of == "target" else "proxy_sampled_gradients"] += 1

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the rest of a run depends on, except the network's state."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "plans": {name: plans.state_dict() for name, plans in self.plans.items()},
            "images": self.images,
            "counts": self.counts,
            "chooser": self.parts.task.chooser.get_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back to a saved state."""
        self.scheduler.load_state_dict(state["scheduler"])
        self.optimizer.load_state_dict(state["optimizer"])
        for name, plans in self.plans.items():
            plans.load_state_dict(state["plans"][name])
        self.images, self.counts = dict(state["images"]), dict(state["counts"])
        self.parts.task.chooser.set_state(state["chooser"])


class Single(Method):
    """One batch, one step: on the target, the proxy, one after the other, or both mixed."""

    @staticmethod
    def images_per_step(recipe: Recipe, proxy_size: int) -> float:
        """Return the images of a batch."""
        return recipe.batch_size

    @property
    def mixed(self) -> int:
        """Target images in a mixed batch."""
        size = self.recipe.batch_size
        return min(size - 1, max(1, round(self.recipe.mix * size)))

    @property
    def switch(self) -> int:
        """The step at which fine-tuning begins."""
        return max(1, round(self.recipe.pretrain * self.parts.total))

    def batch_sizes(self) -> dict[str, int]:
        """Return sizes that add up to a batch, where it is mixed."""
        size, source = self.recipe.batch_size, self.recipe.source
        if source == "mixed":
            return {"target": self.mixed, "proxy": size - self.mixed}
        return super().batch_sizes() if source == "target" else {"target": size, "proxy": size}

    def loss(self, plan: Any) -> Any:
        """Return the mean loss, or that of a mixed batch with its weights."""
        return self.parts.loss(plan, self.weights)

    @functools.cached_property
    def weights(self) -> Any | None:
        """The weight of each image in a mixed batch; None if all are equal."""
        weight, size = self.recipe.mix_weight, self.recipe.batch_size
        if self.recipe.source != "mixed" or weight is None:
            return None
        rest = size - self.mixed
        each = [weight / self.mixed] * self.mixed + [(1 - weight) / rest] * rest
        return torch.tensor(each, device=self.parts.task.data.device)

    def step(self, k: int, *, measured: bool) -> None:
        """Take a gradient of the next batch and a step."""
        source, size = self.recipe.source, self.recipe.batch_size
        if source == "mixed":
            plan = torch.cat([self.plans["target"].next(), self.plans["proxy"].next()])
            self.count("target", self.mixed)
            self.images["proxy"] += size - self.mixed
        else:
            if source == "fine-tuned":
                source = "proxy" if k < self.switch else "target"
            plan = self.plans[source].next()
            self.count(source, size)
        self.gradient.backward(plan)
        self.optimizer.step()

    def factor(self, k: int) -> float:
        """Return the schedule's factor; fine-tuning has a schedule and a rate of its own."""
        if self.recipe.source != "fine-tuned":
            return super().factor(k)
        if k < self.switch:
            return schedule(self.recipe, k, self.switch)
        relative = (self.recipe.tune_lr or self.recipe.lr) / self.recipe.lr
        left = max(1, self.parts.total - self.switch)
        return relative * schedule(self.recipe, k - self.switch, left)


class Interleaved(Method):
    """After each target batch a few proxy batches, each a step of the same optimiser."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        recipe = parts.recipe
        # Plans of one size replay one graph, whatever they are plans of.
        alike = recipe.inner_batch == recipe.batch_size
        self.proxy_gradient = (
            self.gradient if alike else parts.gradient(recipe.inner_batch, self.loss)
        )

    @staticmethod
    def images_per_step(recipe: Recipe, proxy_size: int) -> float:
        """Return the images of the target's batch and of the proxy's."""
        return recipe.batch_size + recipe.interleave * recipe.inner_batch

    def step(self, k: int, *, measured: bool) -> None:
        """Take a step on the target, then the others."""
        self.gradient.backward(self.plans["target"].next())
        self.optimizer.step()
        self.count("target", self.recipe.batch_size)
        for _ in range(self.recipe.interleave):
            self.proxy_gradient.backward(self.plans["proxy"].next())
            self.optimizer.step()
            self.count("proxy", self.recipe.inner_batch)


class Proximal(Method):
    """ProxyProx."""

    @staticmethod
    def images_per_step(recipe: Recipe, proxy_size: int) -> float:
        """Return the images of the target's batch, the inner steps and the full pass."""
        end = recipe.inner_steps if recipe.inner_steps_end is None else recipe.inner_steps_end
        inner = (recipe.inner_steps + end) / 2 * recipe.inner_batch
        return recipe.batch_size + inner + proxy_size

    def make_optimizer(self) -> Any:
        """Return ProxyProx with everything that the recipe says."""
        parts, recipe = self.parts, self.recipe
        corrections: dict[str, Correction] = {
            "plain": Plain(),
            "ema": EMA(recipe.a),
            "mean": Mean(),
        }
        steps = self._between(recipe.inner_steps, recipe.inner_steps_end)
        inner: Any = ImplicitStep(self._between(recipe.inner_lr, recipe.inner_lr_end))
        if recipe.inner_momentum:
            inner = functools.partial(
                torch.optim.SGD, lr=recipe.inner_lr, momentum=recipe.inner_momentum
            )
        options: dict[str, Any] = {
            "lr": recipe.lr, "weight_decay": recipe.weight_decay, "decoupled_weight_decay": True,
            "correction_weight": recipe.correction_weight, "inner": inner,
        }  # fmt: skip
        return ProxyProx(
            parts.params,
            proxy=self.graphed_proxy(),
            correction=corrections[recipe.correction],
            stop=lambda k: max(1, round(steps(k))),
            model=parts.model,
            proxy_mode=recipe.proxy_mode,
            probe=False,
            **options,
        )

    def step(self, k: int, *, measured: bool) -> None:
        """Take an outer step."""
        self.optimizer.measure_residual = measured and self.parts.config.clean is None
        self.gradient.backward(self.plans["target"].next())
        self.optimizer.step()
        self.read_ledger()

    def measurements(self) -> dict[str, Any]:
        """Return ‖∇φ‖ and the weight of the correction."""
        record = self.optimizer.record
        known = record is not None and math.isfinite(record.residual)
        residual = record.residual if known else None
        return {"residual": residual, "theta": self.optimizer.correction_weight}

    def _between(self, begin: float, end: float | None) -> Callable[[int], float]:
        last = begin if end is None else end
        total = self.parts.total
        return lambda k: begin + (last - begin) * min(1.0, k / max(1, total - 1))


class AdamWithProxy(Method):
    """ProxyAdamW."""

    @staticmethod
    def images_per_step(recipe: Recipe, proxy_size: int) -> float:
        """Return the images of a step."""
        return recipe.batch_size + (recipe.inner_steps + recipe.corrected) * recipe.inner_batch

    def make_optimizer(self) -> Any:
        """Return ProxyAdamW with everything that the recipe says."""
        parts, recipe = self.parts, self.recipe
        theta = recipe.correction_weight if recipe.corrected else 0.0
        return ProxyAdamW(
            parts.params,
            recipe.lr,
            proxy=self.graphed_proxy(),
            way=Way(
                recipe.inner_steps, weight=recipe.target_weight, theta=theta, averaging=recipe.a
            ),
            model=parts.model,
            proxy_mode=recipe.proxy_mode,
            probe=False,
            betas=recipe.betas,
            weight_decay=recipe.weight_decay,
            fused=parts.fused,
        )

    def step(self, k: int, *, measured: bool) -> None:
        """Take an outer step."""
        self.gradient.backward(self.plans["target"].next())
        self.optimizer.step()
        self.read_ledger()

    def measurements(self) -> dict[str, Any]:
        """Return the weight of the target beside the proxy."""
        return {"residual": None, "theta": self.optimizer.metrics()["theta"]}


METHODS: dict[str, type[Method]] = {
    "sgd": Single,
    "adamw": Single,
    "interleaved": Interleaved,
    "proxyprox": Proximal,
    "proxyadamw": AdamWithProxy,
}
"""By the recipe's optimiser."""
