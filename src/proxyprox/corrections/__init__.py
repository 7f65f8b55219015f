"""Estimates of ∇h = ∇L − ∇L̂: what a method adds to its proxy to aim at the target."""

from proxyprox.corrections.base import Correction
from proxyprox.corrections.mean import Mean
from proxyprox.corrections.momentum import EMA
from proxyprox.corrections.plain import Plain
from proxyprox.corrections.storm import Storm

__all__ = ["EMA", "Correction", "Mean", "Plain", "Storm"]
