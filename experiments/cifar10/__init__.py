"""The paper's second experiment: ResNet-18 on CIFAR-10, with a few of its images as the proxy."""

from experiments.cifar10.config import PAPER, TINY, Config, Recipe

__all__ = ["PAPER", "TINY", "Config", "Recipe"]
