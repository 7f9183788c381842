"""Values of a kernel in the making: what is known of their numbers, and the operations that keep it known.

Floats are small integers as long as possible, so that sums are exact in any order. What comes after an inexact
operation carries a bound on its error, from which the comparison's tolerance follows.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from xdsl.dialects import math
from xdsl.dialects.builtin import BFloat16Type, FloatAttr, IntegerAttr, ModuleOp, f16, f32, f64, i1, i8, i16, i32, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from vkernels.ir.dialect import (
    BroadcastOp,
    CombinedOp,
    KernelOp,
    ScanByOp,
    ScanOp,
    SizeOp,
    TensorArgumentType,
    TileOp,
    WholeOp,
    arith,
    tile_type,
)
from vkernels.ir.dialect.combining import REDUCTION_OF

ELEMENTS: dict[str, Attribute] = {
    "f64": f64, "f32": f32, "f16": f16, "bf16": BFloat16Type(),
    "i1": i1, "i8": i8, "i16": i16, "i32": i32, "i64": i64,
}  # fmt: skip
DTYPES: dict[str, type[np.generic]] = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": np.uint16,
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
}  # fmt: skip
EPSILON = {"f64": 2.0**-52, "f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}
EXACT = {"f64": 2.0**50, "f32": 2.0**22}
"""Integers up to here are exact, sums of a few of them included."""

MOST_ELEMENTS = 1500


@dataclass(frozen=True)
class Value:
    """A tile or scalar. Of floats: `bound` of finite ones' magnitude, `error` at most, whether NaN and inf occur."""

    ssa: SSAValue
    axes: tuple[str, ...]
    element: str
    bound: float = 0.0
    error: float = 0.0
    special: bool = False

    @property
    def is_float(self) -> bool:
        return self.element[0] == "f"

    @property
    def is_exact(self) -> bool:
        return not self.is_float or (self.error == 0 and self.bound <= EXACT[self.element])


def _added(block: Block, op: Operation) -> SSAValue:
    """The result of an operation at the end of a block."""
    block.add_op(op)
    return op.results[0]


def _chosen(block: Block, mark: SSAValue, one: SSAValue, other: SSAValue) -> SSAValue:
    """`one` where a mark is not 0, else `other`."""
    zero = _added(block, arith.ConstantOp(IntegerAttr(0, mark.type)))
    return _added(block, arith.SelectOp(_added(block, arith.CmpiOp(mark, zero, "ne")), one, other))


@dataclass(frozen=True)
class Axis:
    """An axis, its size's name and its extent in this call."""

    name: str
    is_tile: bool
    size: str
    extent: int


@dataclass(frozen=True)
class Loaded:
    """A tensor and where a value was loaded from it, so that another may be stored there."""

    name: str
    tensor: SSAValue
    indices: list[Any]
    axes: tuple[str, ...]
    held: str


@dataclass(frozen=True)
class Scratch:
    """Scratchpad, and what is known of all that is ever in it."""

    memory: SSAValue
    value: Value


@dataclass
class Kernel:
    """A kernel in the making and the arguments for its call. `tolerances`: of each output, absolute."""

    random: random.Random
    sizes: dict[str, int] = field(default_factory=dict)
    axes: dict[str, Axis] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)
    tolerances: dict[str, float] = field(default_factory=dict)
    loaded: list[Loaded] = field(default_factory=list)
    scratches: list[Scratch] = field(default_factory=list)
    online: set[str] = field(default_factory=set)
    """Axes along which a sum of exp(x - maximum) follows the maximum."""
    masked: set[str] = field(default_factory=set)
    """Axes whose positions are compared, so that masks may leave out products with NaN and infinity."""
    labels: set[str] = field(default_factory=set)
    """Names of scratchpads that operations of the language made."""

    def __post_init__(self) -> None:
        self.op = KernelOp("random", [])
        self.block: Block = self.op.body.block
        self.live: list[Value] = []
        self.numbers = np.random.default_rng(self.random.getrandbits(32))
        self.count = 0

    # Parameters and axes

    def parameter(self, type_: Attribute, argument: Any, stem: str) -> SSAValue:
        """A new parameter of the kernel, with its argument."""
        name = f"{stem}{len(self.arguments)}"
        block = self.op.body.block
        made = block.insert_arg(type_, len(block.args))
        made.name_hint = name
        self.arguments[name] = argument
        return made

    def tensor(self, element: str, dimensions: Sequence[str | int], array: np.ndarray[Any, Any], stem: str) -> SSAValue:
        return self.parameter(TensorArgumentType(dimensions, ELEMENTS[element]), array, stem)

    def size(self, extent: int) -> str:
        """A new size."""
        name = f"S{len(self.sizes)}"
        self.sizes[name] = extent
        return name

    def axis(self, is_tile: bool, size: str) -> None:
        name = ("ij" if is_tile else "uvw")[sum(axis.is_tile == is_tile for axis in self.axes.values())]
        extent = self.add(SizeOp(size))
        self.add(TileOp(name, extent) if is_tile else WholeOp(name, extent))
        self.axes[name] = Axis(name, is_tile, size, self.sizes[size])

    def extent(self, axes: Sequence[str]) -> int:
        """Elements of a tile with these axes."""
        return int(np.prod([self.axes[axis].extent for axis in axes], dtype=np.int64))

    def module(self) -> ModuleOp:
        """The finished kernel."""
        from xdsl.dialects.builtin import ArrayAttr, StringAttr

        self.op.properties["parameters"] = ArrayAttr(map(StringAttr, self.arguments))
        module = ModuleOp([self.op])
        module.verify()
        return module

    # Operations

    def add(self, op: Operation) -> Any:
        """Append an operation to the current block; its first result, named."""
        self.block.add_op(op)
        for result in op.results:
            result.name_hint = f"t{self.count}"
            self.count += 1
        return op.results[0] if op.results else None

    def number(self, value: float, element: str) -> Value:
        """A constant scalar."""
        type_ = ELEMENTS[element]
        attribute = FloatAttr(value, type_) if element[0] == "f" else IntegerAttr(int(value), type_)
        return Value(self.add(arith.ConstantOp(attribute)), (), element, abs(value))

    def broadcast(self, value: Value, axes: Sequence[str]) -> Value:
        if value.axes == tuple(axes):
            return value
        type_ = tile_type(ELEMENTS[value.element], axes)
        return replace(value, ssa=self.add(BroadcastOp(value.ssa, type_)), axes=tuple(axes))

    def together(self, *values: Value) -> list[Value]:
        """The values with the same axes, in any order."""
        axes = list(dict.fromkeys(axis for value in values for axis in value.axes))
        if not any(value.axes == tuple(axes) for value in values):
            self.random.shuffle(axes)
        return [self.broadcast(value, axes) for value in values]

    def apply(self, op: type[Any], *values: Value, bound: float = 0.0, error: float = 0.0) -> Value:
        """An elementwise operation whose result is of its operands' type; rounding is added to a float's error."""
        values = tuple(self.together(*values))
        return self.made(self.add(op(*(value.ssa for value in values))), values, bound, error)

    def made(self, ssa: SSAValue, values: Sequence[Value], bound: float, error: float, inexact: bool = False) -> Value:
        first = values[0]
        special = any(value.special for value in values)
        if first.is_float and (error > 0 or inexact or bound > EXACT[first.element]):
            error += 4 * EPSILON[first.element] * bound
        return Value(ssa, first.axes, first.element, bound, error, special)

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        condition, a, b = self.together(condition, a, b)
        made = self.add(arith.SelectOp(condition.ssa, a.ssa, b.ssa))
        return self.made(made, [a, b], max(a.bound, b.bound), max(a.error, b.error))

    def clamped(self, value: Value, limit: float) -> Value:
        """A float between -limit and limit; NaN stays."""
        if value.bound <= limit and not value.special:
            return value
        low, high = self.number(-limit, value.element), self.number(limit, value.element)
        a = self.apply(arith.MaximumfOp, value, low, bound=max(limit, value.bound), error=value.error)
        return self.apply(arith.MinimumfOp, a, high, bound=limit, error=a.error)

    def finite(self, value: Value) -> Value:
        """A float with 0 for NaN, and without infinities."""
        if not value.special:
            return value
        value = self.clamped(value, max(16.0, value.bound))
        zero = self.broadcast(self.number(0, value.element), value.axes)
        is_number = self.add(arith.CmpfOp(value.ssa, value.ssa, "ord"))
        return replace(value, ssa=self.add(arith.SelectOp(is_number, value.ssa, zero.ssa)), special=False)

    def maths(self, op: type[Any], value: Value, bound: float, slope: float) -> Value:
        """A function whose derivative is at most `slope` where the value may be."""
        made = self.add(op(value.ssa))
        return self.made(made, [value], bound, slope * value.error + 8 * EPSILON[value.element] * bound, inexact=True)

    def reduce(self, kind: str, value: Value, axis: str) -> Value:
        extent = max(1, self.axes[axis].extent)
        op, axes = REDUCTION_OF[kind], tuple(a for a in value.axes if a != axis)
        made = replace(self.accumulated(kind, value, extent), ssa=self.add(op(value.ssa, axis)), axes=axes)
        empty = kind in ("max", "min") and self.axes[axis].extent == 0
        return replace(made, special=made.special or empty)

    def scan(self, kind: str, value: Value, axis: str) -> Value:
        made = self.accumulated(kind, value, max(1, self.axes[axis].extent))
        return replace(made, ssa=self.add(ScanOp(kind, value.ssa, axis)))

    def last_that_counts(self, value: Value, axis: str) -> Value:
        """Of integers, the last one so far that is not 0."""

        def body(block: Block) -> list[SSAValue]:
            before, after = block.args
            return [_chosen(block, after, after, before)]

        return replace(value, ssa=self._scan_by([value], axis, body))

    def restarting_sums(self, value: Value, mark: Value, axis: str) -> Value:
        """Running sums that begin anew where a mark is not 0."""

        def body(block: Block) -> list[SSAValue]:
            total, started, more, starts = block.args
            summed = _added(block, (arith.AddfOp if value.is_float else arith.AddiOp)(total, more))
            return [_chosen(block, starts, more, summed), _added(block, arith.OrIOp(started, starts))]

        made = self.accumulated("sum", value, max(1, self.axes[axis].extent))
        return replace(made, ssa=self._scan_by([value, mark], axis, body))

    def _scan_by(self, values: Sequence[Value], axis: str, body: Callable[[Block], list[SSAValue]]) -> Any:
        """The first result of a scan; the element before the first is 0."""
        block = Block(arg_types=[ELEMENTS[value.element] for value in values] * 2)
        block.add_op(CombinedOp(body(block)))
        zeros = [self.number(0, value.element).ssa for value in values]
        return self.add(ScanByOp([value.ssa for value in values], zeros, axis, Region(block)))

    def accumulated(self, kind: str, value: Value, terms: int) -> Value:
        """What is known of that many of a value's elements combined."""
        if not value.is_float or kind in ("max", "min"):
            return value
        bound = max(1.0, value.bound) ** terms if kind == "product" else value.bound * terms
        return self.made(value.ssa, [value], bound, value.error * terms * (1 if kind == "sum" else bound), False)

    def root(self, value: Value) -> Value:
        """The square root of the magnitude and 1."""
        a = self.apply(math.AbsFOp, value, bound=value.bound, error=value.error)
        b = self.apply(arith.AddfOp, a, self.number(1, value.element), bound=a.bound + 1, error=a.error)
        return self.maths(math.SqrtOp, b, b.bound**0.5, 0.5)
