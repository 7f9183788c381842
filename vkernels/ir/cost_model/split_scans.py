"""The loops of launches that find what each part of a split axis combines to, of its scans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from xdsl.ir import Operation

from ..analysis.split_scans import scans_by_depth
from ..dialect import KernelOp, ScanOp
from .live_tiles import reduced_tile
from .loops import Loop, LoopStep


def with_totals(loops: Sequence[Loop], kernel: KernelOp, axis: str) -> tuple[Loop, ...]:
    """The loops, and before them those that scan an axis without using or storing what is scanned."""
    groups = scans_by_depth(kernel, axis)
    totals = [loop for scans, before in groups for loop in _totals(loops, {*scans}, before, axis)]
    return (*totals, *loops)


def _totals(loops: Sequence[Loop], scans: set[Operation], before: set[Operation], axis: str) -> Iterator[Loop]:
    left = set(scans)
    for loop in loops:
        found = left.intersection(step.origin for step in loop.steps if step.origin is not None)
        if axis in loop.axes and found:
            left -= found
            plain = [op for op in found if isinstance(op, ScanOp)]
            steps = [_reducing(step) if step.origin in plain else step for step in _needed(loop, found | before)]
            yield replace(
                loop, axes=(axis,), steps=tuple(steps), reduced=tuple(map(reduced_tile, plain)), rescaled=(), visits=(),
                times=(), numbers=(),
            )  # fmt: skip


def _needed(loop: Loop, ops: set[Operation]) -> Iterator[LoopStep]:
    return (step for step in loop.steps if step.origin in ops and not (step.touch is not None and step.touch.writes))


def _reducing(step: LoopStep) -> LoopStep:
    """A scan's step where only what is reached counts: elements are combined across chunks, then along the axis."""
    return replace(step, operations=1, reduced=None, scans=False)
