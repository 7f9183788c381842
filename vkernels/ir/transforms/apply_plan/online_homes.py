"""Dots that go online and whose results are processed in chunks: accumulated in their homes.

The loop over the summed axis adds each of its chunks to all chunks of the result, one after another. As in
`block-sums`, long sums are added in blocks: the home holds the sum of a block, and memory beside it that of the blocks
before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.builder import Builder
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint

from ...analysis.block_lengths import chunks_a_block, sums_of_blocks
from ...analysis.schedule.nests import label_of
from ...dialect import DotOp, arith, element_of
from ..block_sums.blocks import compensated
from ..block_sums.paths import most_of
from .frames import LoopFrame, broadcast, conditional, filled
from .homes import home_axes, load_chunk, make_memory, memory_of, store_chunk
from .mapping_state import MappingState
from .words import dot_step

OverChunks = Callable[[LoopFrame, Sequence[str], Sequence[SSAValue], Callable[[LoopFrame], None]], None]
"""Emits loops over the chunks of axes, in which values are computed, and then fills the innermost one."""
Change = Callable[[LoopFrame, SSAValue], SSAValue]
"""Emits what replaces a chunk of a tile."""


@dataclass(eq=False)
class HomedDot:
    """One dot whose result is accumulated in its home."""

    state: MappingState
    dot: DotOp
    over_chunks: OverChunks

    @cached_property
    def _parts(self) -> list[SSAValue]:
        """The memory of the sum: of a block, then of the blocks before and of its rounding error, as far as needed."""
        state, result = self.state, self.dot.result
        home = memory_of(state, result)
        shape, kind = home_axes(state, result), state.schedule.homes[result]
        labels = [f"{label_of(result)}_{part}" for part in ("blocks", "error")[: self._levels]]
        return [home, *(make_memory(state, label, shape, element_of(result), kind) for label in labels)]

    @cached_property
    def _levels(self) -> int:
        """How many sums there are beside that of a block."""
        state, axis = self.state, self.state.axes[self.dot.axis.data]
        most = axis.known if axis.known is not None else most_of(state.extent_of(axis), state.facts)
        return sums_of_blocks(axis.size, most)

    def clear(self, frame: LoopFrame) -> None:
        """Set the sum to 0."""
        for part in self._parts:
            self._replace(frame, part, None)

    def rescale(self, frame: LoopFrame, scale: SSAValue) -> None:
        """Multiply the sum by a factor."""

        def scaled(inner: LoopFrame, before: SSAValue) -> SSAValue:
            return inner.make(arith.MulfOp, before, broadcast(inner, scale, before.type))

        for part in self._parts:
            self._replace(frame, part, scaled)

    def grow(self, frame: LoopFrame, sides: Callable[[LoopFrame], list[SSAValue]], roots: Sequence[SSAValue]) -> None:
        """Add a chunk: the dot of both sides, which a frame inside of the loops makes from `roots`."""

        def grown(inner: LoopFrame, before: SSAValue) -> SSAValue:
            left, right = sides(inner)
            return dot_step(self.state, inner, self.dot, left, right, before)

        self._replace(frame, self._parts[0], grown, roots)
        if self._levels:
            self._end_block(frame)

    def finish(self, frame: LoopFrame, change: Change, roots: Sequence[SSAValue]) -> None:
        """Leave the whole sum in the home, changed. `roots`: what the change needs."""

        def whole(inner: LoopFrame, block: SSAValue) -> SSAValue:
            for part in self._parts[1:2]:
                block = inner.make(arith.AddfOp, self._load(inner, part), block)
            return change(inner, block)

        self._replace(frame, self._parts[0], whole, roots)

    def _end_block(self, frame: LoopFrame) -> None:
        """After the last chunk of a block, add its sum to that of the blocks before, and begin another."""
        axis = self.state.axes[self.dot.axis.data]
        at = frame.holding(axis.name)
        base = at.spans[axis.name].base
        if base is None:  # a single chunk
            return
        chunks = chunks_a_block(axis.size)
        place = frame.make(arith.RemUIOp, base, frame.number(chunks * axis.size))
        is_last = frame.add(arith.CmpiOp(place, frame.number((chunks - 1) * axis.size), "sge"))
        inside = LoopFrame(Block(), frame)

        def add(inner: LoopFrame) -> None:
            home, total, *errors = self._parts
            block, before = self._load(inner, home), self._load(inner, total)
            if errors:
                error = self._load(inner, errors[0])
                after, error = compensated(Builder(InsertPoint.at_end(inner.block)), before, block, error)
                self._store(inner, errors[0], error)
            else:
                after = inner.make(arith.AddfOp, before, block)
            self._store(inner, total, after)
            self._store(inner, home, filled(inner, block.type, 0))

        self.over_chunks(inside, self._axes, (), add)
        conditional(frame, is_last, inside, [], [])

    @property
    def _axes(self) -> list[str]:
        chunked = self.state.analysis.chunks_of_value(self.dot.result)
        return [axis for axis in home_axes(self.state, self.dot.result) if axis in chunked]

    def _replace(self, frame: LoopFrame, part: SSAValue, change: Change | None, roots: Sequence[SSAValue] = ()) -> None:
        """Replace every chunk in memory by what `change` makes of it; None: by 0."""

        def fill(inner: LoopFrame) -> None:
            type_ = self.state.mapped_type(self.dot.result.type)
            made = filled(inner, type_, 0) if change is None else change(inner, self._load(inner, part))
            self._store(inner, part, made)

        self.over_chunks(frame, self._axes, roots, fill)

    def _load(self, frame: LoopFrame, part: SSAValue) -> SSAValue:
        return load_chunk(self.state, frame, self.dot.result, part, self._home(part))

    def _store(self, frame: LoopFrame, part: SSAValue, made: SSAValue) -> None:
        store_chunk(self.state, frame, self.dot.result, part, made, self._home(part))

    def _home(self, part: SSAValue) -> SSAValue | None:
        """What names a part that later launches may read."""
        return self.dot.result if part is self._parts[0] else None


__all__ = ["Change", "HomedDot", "OverChunks"]
