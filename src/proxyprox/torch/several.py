"""Several proxies as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from proxyprox._util.validation import Words, message
from proxyprox.torch.checks import length
from proxyprox.torch.distributed import full_value
from proxyprox.torch.proxy import Tensors, as_proxy, gradients


class SeveralProxies:
    """Proxies from which batches are drawn as often as their gradients agree with the target's.

    The weight of a proxy is the mean of the cosines between its gradients and the target's, or 0 if
    that is negative.
    """

    sampled = True

    def __init__(self, proxies: Sequence[Any]) -> None:
        found = [as_proxy(proxy) for proxy in proxies]
        if not found or None in found:
            got = Words(f"a list of {len(found)}, with None" if found else "an empty list")
            raise ValueError(message("proxy", got, "one proxy or more"))
        self.proxies: list[Any] = found
        self.cosines, self.looks = [0.0] * len(found), 0
        self.drawn = [0] * len(found)

    @property
    def weights(self) -> list[float]:
        """The share of each proxy in the batches; equal if none agrees, or none was compared."""
        useful = [max(0.0, cosine) for cosine in self.cosines]
        total = sum(useful)
        return [u / total for u in useful] if total else [1 / len(useful)] * len(useful)

    def compare(self, params: Tensors, target: Tensors) -> None:
        """Enter the cosine between a gradient of the target and one of each proxy."""
        self.looks += 1
        size = length(target)
        for i, proxy in enumerate(self.proxies):
            proxy.partial(proxy.sample(), params)
            found = gradients(params)
            product = sum(
                full_value((g * t).sum(dtype=torch.float64))
                for g, t in zip(found, target, strict=True)
            )
            cosine = float(product) / max(size * length(found), 1e-300)
            self.cosines[i] += (cosine - self.cosines[i]) / self.looks
        self.drawn = [0] * len(self.proxies)

    def sample(self) -> Any:
        """Draw a batch of the proxy that is furthest behind its share."""
        count, weights = sum(self.drawn) + 1, self.weights
        behind = [count * w - n for w, n in zip(weights, self.drawn, strict=True)]
        i = behind.index(max(behind))
        self.drawn[i] += 1
        return i, self.proxies[i].sample()

    def partial(self, batch: Any, params: Tensors) -> Any:
        """Set ``.grad`` to the gradient of a batch and return its loss."""
        return self.proxies[batch[0]].partial(batch[1], params)

    def loss(self, batch: Any) -> Any:
        """Return the loss of a batch, without gradient."""
        return self.proxies[batch[0]].loss(batch[1])

    def state_dict(self) -> dict[str, Any]:
        """Return weights and positions."""
        own = {"cosines": list(self.cosines), "looks": self.looks, "drawn": list(self.drawn)}
        return {**own, "proxies": [proxy.state_dict() for proxy in self.proxies]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back to saved weights and positions."""
        self.cosines, self.drawn = list(state["cosines"]), list(state["drawn"])
        self.looks = int(state["looks"])
        for proxy, saved in zip(self.proxies, state["proxies"], strict=True):
            proxy.load_state_dict(saved)
