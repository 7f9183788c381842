"""What it takes to move the operands of dots to where a GPU's tensor cores read them, beside what other loads take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ..limits import Limits
from .loops import MOST_ALIGNED, Loop, LoopAccess
from .plan_batch import Numbers

AT_ONCE = 16
"""Bytes that a thread loads at once, and that a copy to shared memory past the registers can have."""
LEAST_AT_ONCE = 4
"""Bytes of such a copy at least: narrower elements go through registers, one by one (`cp.async`, PTX ISA)."""
OF_A_VECTOR = 3.0
"""Instructions of a load or a copy of one vector: its address, its mask, itself."""
OF_AN_ELEMENT = 5.0
"""The same of an element that goes through registers: it is put in its place and stored, too."""
TURNED = 3.0
"""Instructions of an element that is turned on its way: bytes that are taken from a register and put into another."""

DESCRIBED_PART = 0.75
"""Part of a dot operand's operations that remain where descriptors move it. In loops of products on sm_90, threads
issue 106 instructions for 96 elements, with descriptors 84; 130 for 128 elements, and 93; on sm_100 93 for 96, and 69
(Triton 3.9, tiles of 128 x 256 and 128 x 128 x 64)."""
THROUGH_REGISTERS = 1.15
"""How much longer the operations of a loop take that could copy operands ahead and does not: what threads load is
stored by them, between two barriers. On an H200 products in f32 of 64 x 64 x 16 by four warps take 1.16 times the
modelled time so, and 0.98 times with four stages (docs/measurements/2026-11-26-h200.md)."""


def through_registers(stages: Numbers) -> Numbers:
    """How many times as long the operations of a pipelined loop take, by its stages."""
    return np.where(np.asarray(stages) > 1, 1.0, THROUGH_REGISTERS)


def more_instructions(touch: LoopAccess, limits: Limits, bytes_any_way: Numbers = False) -> Numbers:
    """What an element of an operand takes beyond the one operation that each element of a load counts as.

    `bytes_any_way`: whether tensor cores take bytes whichever axis is contiguous (`gpu_dots.takes_bytes_any_way`).
    """
    if not _is_operand(touch):
        return 0.0
    together = _together(touch)
    each = OF_AN_ELEMENT if together < LEAST_AT_ONCE else OF_A_VECTOR * touch.element_bytes / together
    turned = TURNED * np.asarray(_is_turned(touch, limits, bytes_any_way))
    return (max(0.0, each - 1) + turned) * _lanes_of_floats(limits)


def is_copied_ahead(touch: LoopAccess, limits: Limits, bytes_any_way: Numbers = False) -> Numbers:
    """Whether pipelined loops can have a load under way: NVIDIA's not of what goes through registers."""
    if not limits.copies_ahead or not _is_operand(touch):
        return True
    turned = limits.dots_from_shared & np.asarray(_is_turned(touch, limits, bytes_any_way))
    return (_together(touch) >= LEAST_AT_ONCE) & ~turned


def _is_operand(touch: LoopAccess) -> bool:
    return touch.contracted is not None and not touch.writes and touch.home is None


def _together(touch: LoopAccess) -> int:
    """Bytes that are moved at once."""
    aligned = touch.alignment if touch.run is not None else 0
    return max(touch.element_bytes, min(AT_ONCE, aligned))


def _lanes_of_floats(limits: Limits) -> float:
    """Lanes of float32 for each of integers, of which addresses are: two at most, since AMD's integer units are slower
    in multiplications alone."""
    floats = limits.multiply_adds["float32"]
    return min(2.0, floats / limits.multiply_adds.get("int32", floats))


def _is_turned(touch: LoopAccess, limits: Limits, bytes_any_way: Numbers) -> Numbers:
    """Whether an operand is turned on its way, where elements along the contracted axis are not side by side: bytes
    are, as no instruction reads them across rows but `tcgen05.mma`, and 4 bytes where tensor cores read shared memory,
    as Triton has no layout for them that `tcgen05.mma` takes either way, and `wgmma` takes none (PTX ISA, matrix
    descriptors)."""
    if touch.run == touch.contracted:
        return False
    if touch.element_bytes == 1:
        return np.logical_not(bytes_any_way)
    return touch.element_bytes > 2 and limits.dots_from_shared


def with_copies(loops: Sequence[Loop], copied: Sequence[str]) -> Iterator[Loop]:
    """Loops that read K-major copies of tensors."""
    for loop in loops:
        steps = tuple(
            replace(step, touch=replace(step.touch, run=step.touch.contracted, alignment=MOST_ALIGNED, spread=None))
            if step.touch is not None and step.touch.home is None and step.touch.place in copied
            else step
            for step in loop.steps
        )
        yield loop if loop.places.isdisjoint(copied) else replace(loop, steps=steps)
