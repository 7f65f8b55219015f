"""Which images are the target and which the proxy, with which labels."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import log_softmax

from experiments.cifar10.config import Config, Recipe
from experiments.cuda_graphs import DeviceImages
from proxyprox._util.validation import message
from proxyprox.torch import estimate_confusion

CLASSES = 10


def wrong_labels(labels: Any, noise: str | None, rate: float, generator: Any) -> Any:
    """Return labels of which a share is wrong.

    Parameters
    ----------
    labels : integer tensor
        The right ones, on the CPU.
    noise : {"pair", "uniform", None}
        A class is taken for the next one, for any other, or for itself.
    rate : float
        Probability of a wrong label.
    generator : torch.Generator
        Of the draws.
    """
    if noise is None:
        return labels.clone()
    wrong = torch.rand(len(labels), generator=generator) < rate
    shift = torch.ones_like(labels)
    if noise == "uniform":
        shift = torch.randint(1, CLASSES, labels.shape, generator=generator)
    return torch.where(wrong, (labels + shift) % CLASSES, labels)


class Task:
    """The images of one run: target, proxy, validation.

    Parameters
    ----------
    config : Config
        The experiment.
    recipe : Recipe
        The competitor; it says how many images the proxy has where the experiment does not.
    seed : int
        Of everything that is drawn.
    train : DeviceImages
        The training images, with their right labels.

    Attributes
    ----------
    data : DeviceImages
        The training images with the labels that a learner is given.
    target, proxy, validation : integer tensors
        Indices into them.
    """

    def __init__(self, config: Config, recipe: Recipe, seed: int, train: DeviceImages) -> None:
        self.chooser = torch.Generator().manual_seed(1000 + seed)
        self.config, self.recipe = config, recipe
        everyone, device = torch.arange(len(train)), train.device
        self.data = train
        self._forward: tuple[Any, Any] | None = None
        if config.clean is None:
            self._refuse_other_sources()
            order = everyone
            if config.held_out_share:
                order = torch.randperm(len(train), generator=torch.Generator().manual_seed(seed))
            self._split(order)
            self.proxy = self.subset()
            if recipe.source == "proxy":  # on L̂ alone, for as many gradients
                self.target = self.proxy
            return
        if config.clean >= len(train):
            allowed = f"less than the number of training images, {len(train)}"
            raise ValueError(message("clean", config.clean, allowed))
        # The seed alone decides, so that all recipes see the same images and labels.
        order = torch.randperm(len(train), generator=self.chooser)
        right = train.labels.cpu()
        given = wrong_labels(right, config.noise, config.noise_rate, self.chooser)
        chosen, others = order[: config.clean], order[config.clean :]
        self._split(chosen)
        batch = recipe.inner_batch
        self.proxy = others[: len(others) // batch * batch]
        labels = given.clone()
        labels[chosen] = right[chosen]
        self.data = train.with_labels(labels)
        if not recipe.forward:
            return
        is_clean = torch.zeros(len(train), dtype=torch.bool)
        is_clean[chosen] = True
        # The clean images have a wrong copy of their label too: what the matrix is estimated from.
        pair = {"labels": right[self.target], "answers": given[self.target]}
        matrix = estimate_confusion(**pair, classes=CLASSES)
        self._forward = matrix.to(device), is_clean.to(device)

    def subset(self) -> Any:
        """Draw a proxy from the target's images."""
        chosen = torch.randperm(len(self.target), generator=self.chooser)
        return self.target[chosen[: self.recipe.proxy_size]]

    def forward(self, scores: Any, plan: Any) -> Any:
        """Return scores of the labels as they are given: wrong ones by the transition matrix."""
        if self._forward is None:
            return scores
        matrix, is_clean = self._forward
        right = log_softmax(scores, dim=1)
        given = (right.exp() @ matrix).log()
        return torch.where(is_clean[plan[:, 0]][:, None], right, given)

    def _split(self, chosen: Any) -> None:
        held = round(self.config.held_out_share * len(chosen))
        self.validation, self.target = chosen[:held], chosen[held:]

    def _refuse_other_sources(self) -> None:
        if self.recipe.source not in ("target", "proxy"):
            remedy = "Set Config.clean, so that target and proxy are different images."
            raise ValueError(message("source", self.recipe.source, '"target" or "proxy"', remedy))
