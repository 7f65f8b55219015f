"""Outer methods: what is asked of the target, and what is done with the answer."""

from proxyprox.methods.base import Answers, Method, OuterStep, Request, State
from proxyprox.methods.proxyprox import DANE, AuxMom, AuxMVR, ProxyProx
from proxyprox.methods.quasi_newton import ProxyBFGS
from proxyprox.methods.sgd import SGD, Adagrad, Adam, Momentum
from proxyprox.methods.sliding import AcceleratedSliding

__all__ = [
    "DANE",
    "SGD",
    "AcceleratedSliding",
    "Adagrad",
    "Adam",
    "Answers",
    "AuxMVR",
    "AuxMom",
    "Method",
    "Momentum",
    "OuterStep",
    "ProxyBFGS",
    "ProxyProx",
    "Request",
    "State",
]
