"""Outer methods: what is asked of the target, and what is done with the answer."""

from proxyprox.methods.base import Answers, Defaults, Method, OuterStep, Request, State
from proxyprox.methods.mapping import ManifoldMapping
from proxyprox.methods.proxyprox import DANE, ProxyProx
from proxyprox.methods.quasi_newton import ProxyBFGS
from proxyprox.methods.sgd import SGD, Adam
from proxyprox.methods.values import ValueMapping

__all__ = [
    "DANE", "SGD", "Adam", "Answers", "Defaults", "ManifoldMapping", "Method",
    "OuterStep", "ProxyBFGS", "ProxyProx", "Request", "State", "ValueMapping",
]  # fmt: skip
