"""ResNet-18 for small images."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.nn import functional


class Residual(nn.Module):  # type: ignore[misc]
    """Two 3×3 convolutions with normalisation, and a way around them."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(after)
        self.second = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(after)
        self.around: Any = nn.Identity()
        if stride != 1 or before != after:
            self.around = nn.Sequential(
                nn.Conv2d(before, after, 1, stride=stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x: Any) -> Any:
        """Return the block's output."""
        y = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(self.second_norm(self.second(y)) + self.around(x))


class ResNet18(nn.Module):  # type: ignore[misc]
    """The network of He et al. with a stem for 32 × 32 images: one 3×3 convolution, no pooling.

    Parameters
    ----------
    width : int
        Channels of the first stage; 64 is the published network, with 11.2 million weights.
    classes : int
        Outputs.
    """

    def __init__(self, width: int = 64, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.stem_norm = nn.BatchNorm2d(width)
        blocks, before = [], width
        for stage in range(4):
            for position in range(2):
                after = width * 2**stage
                stride = 2 if stage > 0 and position == 0 else 1
                blocks.append(Residual(before, after, stride))
                before = after
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(before, classes)

    def forward(self, x: Any) -> Any:
        """Return the class scores."""
        y = functional.relu(self.stem_norm(self.stem(x)))
        return self.head(self.blocks(y).mean(dim=(2, 3)))
