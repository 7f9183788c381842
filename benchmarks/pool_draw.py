"""Allocation problems like published ones, with solutions: blocks of a solution are cut and grown at random."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vkernels.memory.imports import Problem
from vkernels.memory.trace import Lifetime

CHANGED = 0.3
"""Changes for each block."""
Box = tuple[int, int, int, int]
"""A block at an offset: the moments and the bytes from and until which it is there."""


def drawn_like(problem: Problem, offsets: Sequence[int], seed: int) -> Problem:
    """A problem that fits within the same capacity. `offsets`: a solution."""
    assert problem.capacity is not None
    draw = np.random.default_rng(seed)
    boxes = [(b.start, b.end, at, at + b.size) for b, at in zip(problem.blocks, offsets, strict=True)]
    for _ in range(int(CHANGED * len(boxes))):
        n = int(draw.integers(len(boxes)))
        boxes[n : n + 1] = changed(boxes[n], boxes[:n] + boxes[n + 1 :], problem, draw)
    draw.shuffle(boxes)
    blocks = tuple(Lifetime(int(start), int(end), int(top - bottom)) for start, end, bottom, top in boxes)
    return Problem(f"{problem.name} {seed}", blocks, problem.count, problem.capacity)


def changed(box: Box, others: list[Box], problem: Problem, draw: np.random.Generator) -> list[Box]:
    """Cut a block in time or in two sizes, or grow it up or until later as far as there is room."""
    start, end, bottom, top = box
    kind = int(draw.integers(4))
    if kind == 0 and end - start > 1:
        at = int(draw.integers(start + 1, end))
        return [(start, at, bottom, top), (at, end, bottom, top)]
    if kind == 1 and top - bottom > 2048:
        at = int(draw.integers(bottom // 1024 + 1, top // 1024)) * 1024
        return [(start, end, bottom, at), (start, end, at, top)]
    if kind == 2:
        room = min((each[2] for each in others if each[0] < end and start < each[1] and each[2] >= top), default=None)
        room = problem.capacity if room is None else room
        return [(start, end, bottom, int(draw.integers(top, room + 1)))]
    if kind == 3:
        until = min((each[0] for each in others if each[2] < top and bottom < each[3] and each[0] >= end), default=None)
        return [(start, problem.count if until is None else until, bottom, top)]
    return [box]
