"""The thresholds of proxies that a run fits to its target."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SeveralPolicy:
    """What the weights of several proxies are fitted by.

    benchmarks/several_proxies.py set it on mushrooms and generated tables
    (docs/results/several_proxies).

    Attributes
    ----------
    ridge : float
        The price of a squared weight, in units of the median proxy's squared secants.
    share : float
        A proxy that explains a smaller share of the secants gets the weight 0: a stiff useless one
        costs tens of rounds even at a hundredth.
    fade : float
        What an exact secant counts one round later, and one of a batch at the next one.
    explained : float
        The least share of the secants that weights worth following explain.
    """

    ridge: float = 0.1
    share: float = 0.1
    fade: tuple[float, float] = (0.8, 0.97)
    explained: float = 0.5
