"""Where an inner solve stands: ‖∇φ(w)‖ and ‖w − c‖, measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from proxyprox._arrays import LEAST_SQUARE, norm
from proxyprox._ledger import Ledger
from proxyprox._subproblem import NonFiniteError
from proxyprox._trace import StepRecord
from proxyprox.stopping import Criterion, Progress
from proxyprox.torch._block import Block


def progress(
    blocks: Sequence[Block],
    corrections: Sequence[Sequence[Any]],
    weight: float,
    steps: int,
    start_residual: float | None,
    proxy_decrease: Callable[[], float],
) -> Progress:
    """Measure, with the full ∇L̂(w) in ``.grad``.

    One parameter at a time: the temporary is then one layer, not a fourth copy of the network.

    Parameters
    ----------
    blocks : list of Block
        The subproblem.
    corrections : list of lists of tensors
        m on each block; unlike ``Block.linear`` it is relative to the full ∇L̂(w_k).
    weight : float
        Weight of the correction.
    steps : int
        Inner steps taken.
    start_residual : float, optional
        The residual of the start; this one's if it is the start.
    proxy_decrease : callable
        Returns L̂(w_k) − L̂(w).
    """
    residual, displacement, slope = _sums(blocks, corrections, weight)
    squares = float(residual), float(sum(displacement))
    size, moved = (math.sqrt(square) for square in squares)
    if not (_safe(squares[0]) and (_safe(squares[1]) or _unmoved(blocks))):
        size, moved = _sizes(blocks, corrections, weight)
    if not (math.isfinite(size) and math.isfinite(moved)):
        raise NonFiniteError("the proxy's gradient is not finite at a trial point")

    def decrease() -> float:
        quadratic = sum(
            block.pull / 2 * float(square)
            for block, square in zip(blocks, displacement, strict=True)
        )
        return proxy_decrease() - weight * float(slope) - quadratic

    return Progress(
        steps=steps,
        residual=size,
        displacement=moved,
        # Several step sizes: the largest makes every rule stricter, never laxer.
        eta=max(block.eta for block in blocks),
        start_residual=size if start_residual is None else start_residual,
        decrease=decrease,
    )


def step_record(
    k: int, eta: float, steps: int, seen: Progress | None, rule: Criterion, ledger: Ledger
) -> StepRecord:
    """Return an outer step's numbers; NaN and None where nothing was measured."""
    bound = None if seen is None else rule.threshold(seen)
    verdict = None if seen is None else rule.holds(seen)
    return StepRecord(
        k=k,
        eta=eta,
        residual=math.nan if seen is None else seen.residual,
        threshold=math.nan if bound is None else bound,
        held=verdict,
        inner_steps=steps,
        displacement=math.nan if seen is None else seen.displacement,
        target_gradients=ledger.target_gradients,
        proxy_gradients=ledger.proxy_gradients,
        seconds=ledger.seconds,
    )


def _sums(
    blocks: Sequence[Block], corrections: Sequence[Sequence[Any]], weight: float
) -> tuple[Any, list[Any], Any]:
    """Return ‖∇φ(w)‖², each block's ‖w − c‖², and ⟨m, w − c⟩, in double precision."""
    residual: Any = 0.0
    slope: Any = 0.0
    displacement: list[Any] = []
    for block, correction in zip(blocks, corrections, strict=True):
        square: Any = 0.0
        for p, c, m in zip(block.params, block.centre, correction, strict=True):
            away = p - c
            slope = _plus(slope, _dot(m, away))
            square = _plus(square, _dot(away, away))
            gradient = away.mul_(block.pull).add_(m, alpha=weight)
            if p.grad is not None:
                gradient.add_(p.grad)
            residual = _plus(residual, _dot(gradient, gradient))
        displacement.append(square)
    return residual, displacement, slope


def _safe(square: float) -> bool:
    """Tell whether a square in single precision has neither under- nor overflowed."""
    return LEAST_SQUARE <= square < math.inf


def _unmoved(blocks: Sequence[Block]) -> bool:
    """Tell whether w is the centre, as it is at the start of every solve."""
    return all(
        torch.equal(p, c)
        for block in blocks
        for p, c in zip(block.params, block.centre, strict=True)
    )


def _sizes(
    blocks: Sequence[Block], corrections: Sequence[Sequence[Any]], weight: float
) -> tuple[float, float]:
    """Return ‖∇φ(w)‖ and ‖w − c‖, right for all finite numbers, in double precision."""
    residuals, moves = [0.0], [0.0]
    for block, correction in zip(blocks, corrections, strict=True):
        for p, c, m in zip(block.params, block.centre, correction, strict=True):
            away = _double(p) - _double(c)
            moves.append(norm(away))
            gradient = away.mul_(block.pull).add_(_double(m), alpha=weight)
            if p.grad is not None:
                gradient.add_(_double(p.grad))
            residuals.append(norm(gradient))
    return math.hypot(*residuals), math.hypot(*moves)


def _double(x: Any) -> Any:
    x = x.detach()
    return (torch.view_as_real(x) if x.is_complex() else x).double().reshape(-1)


def _dot(x: Any, y: Any) -> Any:
    if x.is_complex():  # pairs of real numbers, as torch's gradients have it
        x, y = torch.view_as_real(x), torch.view_as_real(y)
    if x.dtype not in (torch.float32, torch.float64):
        x, y = x.float(), y.float()  # products of half-precision numbers overflow
    return torch.sum(x * y, dtype=torch.float64)


def _plus(total: Any, term: Any) -> Any:
    # Layers may lie on several devices; on one, nothing waits for the device here.
    return total + (term.to(total.device) if isinstance(total, torch.Tensor) else term)
