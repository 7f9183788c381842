"""The builder of one kernel, which operations call; it declares axes, scratchpads, ranges and phases."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from xdsl.dialects import scf
from xdsl.dialects.builtin import i1, i64
from xdsl.ir import Block, Region

from vkernels.ir.dialect import (
    AssertOp,
    BoundaryOp,
    PrintOp,
    RangeOp,
    ScratchOp,
    ScratchType,
    TileOp,
    WholeOp,
    YieldOp,
)
from vkernels.ir.errors import AxisError, TypeMismatchError, UnsupportedError

from ..dtypes import DEFAULT, DType, bool_, int64
from ..operation import Mistake
from ..values import Axis, Extent, Range, Scratch, Tile
from .arithmetic import is_number
from .describe import describe, require_dtype
from .fetches import Fetches
from .types import memory_element

_DECLARE = {"tile": TileOp, "whole": WholeOp}


class KernelBuilder(Fetches):
    """Builds the body of one `vk.kernel`.

    `target`: the variable that the current call is assigned to, which names axes and scratchpads. `path`: the open
    calls of helper functions and the current call. A declaration with the same path is the same declaration: a loop's
    body is built again if its variables get more axes. `statement`: the call that is a statement of its own, so
    that nothing uses its result; `is_result_used`: of the current call.
    """

    def __init__(self, top: Block, sizes: Sequence[str]):
        super().__init__(top, sizes)
        self.target: str | None = None
        self.path: tuple[Any, ...] = ()
        self.in_helper = False
        self.statement: ast.expr | None = None
        self.is_result_used = True
        self.labels: set[str] = set()
        self._declared: dict[Any, tuple[Any, Axis | Scratch]] = {}

    def declare_axis(self, kind: str, extent: Any) -> Axis:
        """Declare an axis, named after the variable that it is assigned to."""
        known, count = self._extent(extent)
        found = self._declared.get(self.path)
        if found is not None and isinstance(found[1], Axis) and found[1].extent == known:
            return found[1]
        name = self._label(f"vk.{kind}", "axis", "i")
        self.insert_at_top(_DECLARE[kind](name, count.ssa))
        axis = Axis(name, kind, known, count)
        self._declared[self.path] = (known, axis)
        return axis

    def _extent(self, extent: Any) -> tuple[Extent, Tile]:
        """An extent as known while building, and its value as an i64 in the kernel's own block."""
        if isinstance(extent, str):
            return extent, self.size(extent)
        if isinstance(extent, int) and not isinstance(extent, bool):
            if extent < 0:
                raise Mistake(AxisError, f"an axis cannot have {extent} positions", culprit=extent)
            return extent, Tile(self.constant_at_top(extent), int64, weak=True)
        if isinstance(extent, Tile) and extent.dtype.is_int and not extent.axes:
            if extent.size is not None:
                return extent.size, extent
            if self.is_nested:
                raise Mistake(
                    UnsupportedError,
                    "an axis's extent cannot be computed in a loop or branch",
                    "Declare the axis before the loop, or give it a size's name.",
                    extent,
                )
            return None, self.convert(extent, int64)
        raise Mistake(
            TypeMismatchError,
            f"expected an extent, found {describe(extent)}",
            'It is a size\'s name, as in `vk.tile("M")`, or an integer.',
            extent,
        )

    def scratch(self, axes: Any, dtype: Any) -> Scratch:
        """Declare a scratchpad, named after the variable that it is assigned to."""
        axes = axes if isinstance(axes, tuple) else (axes,)
        for axis in axes:
            if not isinstance(axis, Axis):
                raise Mistake(
                    TypeMismatchError,
                    f"expected an axis, found {describe(axis)}",
                    "The dimensions of a scratchpad are axes: `vk.scratch((n, i), vk.float32)`.",
                    axis,
                )
        if len(set(axes)) < len(axes):
            raise Mistake(AxisError, "an axis appears twice in the scratchpad's dimensions")
        require_dtype(dtype)
        found = self._declared.get(self.path)
        if found is not None and found[0] == (axes, dtype) and isinstance(found[1], Scratch):
            return found[1]
        name = self._label("vk.scratch", "scratchpad", "buffer")
        type_ = ScratchType([axis.name for axis in axes], memory_element(dtype))
        scratch = Scratch(name, self.insert_at_top(ScratchOp(name, type_)).results[0], dtype, axes)
        self._declared[self.path] = ((axes, dtype), scratch)
        return scratch

    def _label(self, operation: str, what: str, example: str) -> str:
        name = self.target
        if name is None:
            raise Mistake(
                UnsupportedError,
                f"the {what} has no name",
                f"Assign it to a variable, which names the {what}: `{example} = {operation}(…)`.",
            )
        if not name.isascii():
            raise Mistake(UnsupportedError, f"the name `{name}` of an {what} has letters outside of ASCII")
        if name in self.labels:
            if not self.in_helper:
                raise Mistake(AxisError, f"`{name}` already names an axis or a scratchpad", "Choose another name.")
            number = 1
            while f"{name}{number}" in self.labels:
                number += 1
            name = f"{name}{number}"
        self.labels.add(name)
        return name

    def range(self, start: Any, stop: Any) -> Range:
        """The positions from `start` (None: 0) to `stop` - 1; bounds are names of sizes, integers, or integer tiles."""
        covers: Extent = None
        if isinstance(stop, Axis):
            stop = stop.extent if isinstance(stop.extent, int) else stop.size
        if isinstance(stop, str) or is_number(stop):
            covers = stop
        elif isinstance(stop, Tile):
            covers = stop.size
        first, last = self._bound(0 if start is None else start), self._bound(stop)
        first, last = self.joined([first, last])
        return Range(first, last, covers if start is None or (is_number(start) and start == 0) else None)

    def repeat(
        self, count: Any, initial: Sequence[Tile], body: Callable[[Tile, Sequence[Tile]], Sequence[Tile]]
    ) -> tuple[Tile, ...]:
        """A sequential loop of an operation's own. `count`: its steps; `body`: takes the step, from 0 on, and the
        carried tiles, and gives as many with the same dtypes and axes."""
        bounds = self.range(None, count)
        block = Block(arg_types=[i64, *(tile.ssa.type for tile in initial)])
        step = Tile(block.args[0], int64, weak=True, covers=count.extent if isinstance(count, Axis) else bounds.covers)
        carried = [Tile(arg, t.dtype, t.axes) for arg, t in zip(block.args[1:], initial, strict=True)]
        with self.inside(block):
            ends = body(step, carried)
            self.insert(YieldOp([tile.ssa for tile in ends]))
        op = RangeOp("step", bounds.start.ssa, bounds.stop.ssa, [tile.ssa for tile in initial], Region(block))
        self.insert(op)
        return tuple(Tile(ssa, t.dtype, t.axes) for ssa, t in zip(op.results, initial, strict=True))

    def when(self, condition: Tile, yes: Callable[[], None], no: Callable[[], None]) -> None:
        """A conditional of an operation's own, on a scalar; its branches compute nothing but what they store."""
        blocks = Block(), Block()
        for block, branch in zip(blocks, (yes, no), strict=True):
            with self.inside(block):
                branch()
                self.insert(scf.YieldOp.create())
        operands = [self.condition(condition).ssa]
        self.insert(scf.IfOp.create(operands=operands, regions=[Region(block) for block in blocks]))

    def _bound(self, value: Any) -> Tile:
        if isinstance(value, str):
            return self.size(value)
        operand = self.operand(value)
        if self.meet(operand)[0].is_int:
            return self.convert(operand, int64)
        raise Mistake(
            TypeMismatchError, f"expected an integer or a size's name, found {describe(value)}", culprit=value
        )

    def boundary(self, name: str | None, grid: bool = False) -> None:
        """End the phase: everything before is complete before anything after begins; `grid`: in all programs."""
        if grid and self.is_nested:
            raise Mistake(
                UnsupportedError,
                "programs cannot wait for one another in a loop or branch, which each of them runs by itself",
                "Call `vk.phase(grid=True)` outside of it, or the kernel several times.",
            )
        self.insert(BoundaryOp(name, grid))

    def show(self, prefix: str, values: Sequence[Any]) -> None:
        """Print values if the kernel is interpreted or checked."""
        tiles = [self.tile(value) for value in values]
        self.insert(PrintOp(prefix, [tile.ssa for tile in tiles], [tile.dtype.is_uint for tile in tiles]))

    def require(self, condition: Any, message: str) -> None:
        """Stop if a condition is false and the kernel is interpreted or checked."""
        tile = self.tile(condition)
        if tile.dtype is not bool_:
            raise Mistake(TypeMismatchError, f"expected a condition of bool, found {describe(tile)}", culprit=condition)
        self.insert(AssertOp(tile.ssa, message))

    def condition(self, value: Tile) -> Tile:
        """A scalar as the i1 condition of `if` and `while`."""
        return value if value.ssa.type == i1 else self.convert(value, bool_)

    def settled(self, dtype: DType, weak: bool) -> DType:
        """A strong dtype for a value that may be weak: torch's default for its kind."""
        return DEFAULT[dtype.kind] if weak else dtype

    def full(self, value: Any, axes: tuple[Axis, ...], dtype: Any) -> Tile:
        """A tile of one scalar along axes."""
        require_dtype(dtype)
        if isinstance(value, Tile) and value.axes:
            raise Mistake(
                TypeMismatchError,
                f"expected a number or a scalar, found {describe(value)}",
                "To repeat a tile along more axes, use `vk.broadcast`.",
                value,
            )
        return self.broadcast(self.convert(self.operand(value), dtype), axes)

    def unnamed_scratch(self, axes: tuple[Axis, ...], dtype: DType, name: str = "through") -> Scratch:
        """Declare a scratchpad for an operation's own use; those of one operation differ in their names."""
        with self._for_itself(name):
            return self.scratch(axes, dtype)

    def unnamed_axis(self, kind: str, extent: Any, name: str) -> Axis:
        """Declare an axis for an operation's own use; those of one operation differ in their names."""
        with self._for_itself(name):
            return self.declare_axis(kind, extent)

    @contextmanager
    def _for_itself(self, name: str) -> Iterator[None]:
        """What is declared within a `with` gets this name, with a number where it is taken."""
        before = self.target, self.in_helper, self.path
        self.target, self.in_helper, self.path = name, True, (*self.path, name)
        try:
            yield
        finally:
            self.target, self.in_helper, self.path = before
