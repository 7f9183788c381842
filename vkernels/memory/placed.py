"""Blocks with names and offsets: what a map of a pool shows, and what is exported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from .imports import Problem
from .layout import Piece, pieces_of
from .pool import place
from .schedule import SwapSchedule
from .trace import MemoryTrace, wrapped


@dataclass(frozen=True)
class PlacedBlock:
    """`size` bytes from `offset` on, from moment `start` until before `end`, which may wrap.

    `source`: the line of the program that makes it, `file.py:12 in forward`, if known. `is_global`: a weight or other
    tensor that outlives the iteration.
    """

    name: str
    start: int
    end: int
    size: int
    offset: int
    source: str = ""
    is_global: bool = False

    @property
    def top(self) -> int:
        """The first byte above it."""
        return self.offset + self.size


def placed_tensors(trace: MemoryTrace, offsets: Sequence[int]) -> Iterator[PlacedBlock]:
    """Yield a trace's tensors, then scratch, at offsets in the order of `MemoryTrace.blocks`. Empty ones are left
    out."""
    scratch = [op.name for op in trace.operations if op.scratch]
    names = [*(each.name for each in trace.tensors), *(f"scratch of {name}" for name in scratch)]
    are_global = [*(each.is_global for each in trace.tensors), *(False for _ in scratch)]
    for name, is_global, block, offset in zip(names, are_global, trace.blocks(), offsets, strict=True):
        source = "" if is_global else trace.operations[block.start].source
        if block.size:
            yield PlacedBlock(name, block.start, block.end, block.size, offset, source, is_global)


def placed_pieces(trace: MemoryTrace, schedule: SwapSchedule, seconds: float, alignment: int) -> list[PlacedBlock]:
    """Place a trace's tensors while they are on the device, and scratch, in one pool, in about so many seconds."""
    count, pieces = len(trace.operations), [*pieces_of(trace, schedule)]
    blocks = [wrapped(each.start, each.end, trace.tensors[each.tensor].size, count) for each in pieces]
    scratch = trace.blocks()[len(trace.tensors) :]
    offsets = place((*blocks, *scratch), count, seconds=seconds, alignment=alignment).offsets
    placed = [*named_pieces(trace, [replace(p, offset=at) for p, at in zip(pieces, offsets, strict=False)])]
    for block, offset in zip(scratch, offsets[len(pieces) :], strict=True):
        name = f"scratch of {trace.operations[block.start].name}"
        placed.append(PlacedBlock(name, block.start, block.end, block.size, offset))
    return placed


def named_pieces(trace: MemoryTrace, pieces: Iterable[Piece]) -> Iterator[PlacedBlock]:
    """Yield pieces that have offsets under the names of their tensors. Empty ones are left out."""
    for piece in pieces:
        tensor, start = trace.tensors[piece.tensor], trace.lifetimes()[piece.tensor].start
        source = "" if tensor.is_global else trace.operations[start].source
        life = wrapped(piece.start, piece.end, tensor.size, len(trace.operations))
        if life.size and life.end > life.start:
            yield PlacedBlock(tensor.name, life.start, life.end, life.size, piece.offset, source, tensor.is_global)


def placed_problem(problem: Problem, offsets: Sequence[int]) -> Iterator[PlacedBlock]:
    """Yield a problem's blocks. Empty ones are left out."""
    for number, (block, offset) in enumerate(zip(problem.blocks, offsets, strict=True)):
        if block.size:
            yield PlacedBlock(problem.name_of(number), block.start, block.end, block.size, offset)
