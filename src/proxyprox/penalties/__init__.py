"""Convex terms that objective and proxy share: value, prox and distance to the subdifferential."""

from proxyprox.penalties.elastic_net import ElasticNet
from proxyprox.penalties.l1 import L1

__all__ = ["L1", "ElasticNet"]
