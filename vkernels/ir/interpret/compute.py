"""Joining, reducing, scanning and contracting tiles; printing and asserting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.interpreter import Interpreter, InterpreterFunctions, PythonValues, impl, register_impls
from xdsl.ir import SSAValue

from ..dialect import (
    AssertOp,
    BelowOp,
    BroadcastOp,
    DotOp,
    MaxOp,
    MaxUIOp,
    MinOp,
    MinUIOp,
    PositionOp,
    PrintOp,
    ProductOp,
    ReductionOp,
    ReloadOp,
    ScanOp,
    SpillOp,
    SumOp,
    arith,
    axes_of,
    element_of,
)
from .numbers import Array, dtype_of, is_float, round_significand, rounded, signed, unsigned, wrapped
from .state import InterpreterState, align

_COMBINE: dict[str, np.ufunc] = {"sum": np.add, "product": np.multiply, "max": np.maximum, "min": np.minimum}
_COMBINE |= {"maxui": np.maximum, "minui": np.minimum}


@register_impls
class ComputeFunctions(InterpreterFunctions):
    """The vk dialect's operations on values."""

    def __init__(self, state: InterpreterState):
        self.state = state

    @impl(BroadcastOp)
    def broadcast(self, interpreter: Interpreter, op: BroadcastOp, args: PythonValues) -> PythonValues:
        aligned = align(args[0], axes_of(op.source), axes_of(op.result))
        return (np.broadcast_to(aligned, self.state.shape_of(op.result)),)

    @impl(SpillOp)
    def spill(self, interpreter: Interpreter, op: SpillOp, args: PythonValues) -> PythonValues:
        return args

    @impl(ReloadOp)
    def reload(self, interpreter: Interpreter, op: ReloadOp, args: PythonValues) -> PythonValues:
        return args

    @impl(PositionOp)
    def position(self, interpreter: Interpreter, op: PositionOp, args: PythonValues) -> PythonValues:
        return (np.arange(*self.state.shape_of(op.result), dtype=np.int64),)

    @impl(BelowOp)
    def below(self, interpreter: Interpreter, op: BelowOp, args: PythonValues) -> PythonValues:
        return (np.arange(*self.state.shape_of(op.result)) < args[0],)

    @impl(SumOp)
    def sum(self, interpreter: Interpreter, op: SumOp, args: PythonValues) -> PythonValues:
        return (_reduce("sum", op, args[0]),)

    @impl(ProductOp)
    def product(self, interpreter: Interpreter, op: ProductOp, args: PythonValues) -> PythonValues:
        return (_reduce("product", op, args[0]),)

    @impl(MaxOp)
    def max(self, interpreter: Interpreter, op: MaxOp, args: PythonValues) -> PythonValues:
        return (_reduce("max", op, args[0]),)

    @impl(MinOp)
    def min(self, interpreter: Interpreter, op: MinOp, args: PythonValues) -> PythonValues:
        return (_reduce("min", op, args[0]),)

    @impl(MaxUIOp)
    def max_unsigned(self, interpreter: Interpreter, op: MaxUIOp, args: PythonValues) -> PythonValues:
        return (_reduce("maxui", op, args[0]),)

    @impl(MinUIOp)
    def min_unsigned(self, interpreter: Interpreter, op: MinUIOp, args: PythonValues) -> PythonValues:
        return (_reduce("minui", op, args[0]),)

    @impl(ScanOp)
    def scan(self, interpreter: Interpreter, op: ScanOp, args: PythonValues) -> PythonValues:
        tile, combine = _seen(op.kind.data, args[0]), _COMBINE[op.kind.data]
        result = combine.accumulate(tile, axis=axes_of(op.tile).index(op.axis.data), dtype=tile.dtype)
        return (_of_type(result, op.result),)

    @impl(DotOp)
    def dot(self, interpreter: Interpreter, op: DotOp, args: PythonValues) -> PythonValues:
        left, right, total = map(signed, args)
        if op.precision.data == "tf32" and left.dtype == np.float32:
            left, right = round_significand(left, 10), round_significand(right, 10)
        products = _contract(left, axes_of(op.left), right, axes_of(op.right), axes_of(op.result))
        return (_of_type(total + products, op.result),)

    @impl(PrintOp)
    def print(self, interpreter: Interpreter, op: PrintOp, args: PythonValues) -> PythonValues:
        bare = set() if op.unsigned is None else set(op.unsigned.get_values())
        arrays = [unsigned(array) if number in bare else array for number, array in enumerate(args)]
        shown = [self._shown(value, array) for value, array in zip(op.values, arrays, strict=True)]
        self.state.on_print(" ".join(filter(None, (op.prefix.data, *shown))))
        return ()

    def _shown(self, value: SSAValue, array: Array) -> str:
        """A value as text; elements that a ragged range has finished as `--`."""
        active = self.state.active(axes_of(value))
        if active is None or not axes_of(value):
            return str(array)
        return str(np.ma.masked_array(array, np.broadcast_to(~active, np.shape(array))))

    @impl(AssertOp)
    def assert_(self, interpreter: Interpreter, op: AssertOp, args: PythonValues) -> PythonValues:
        axes = axes_of(op.condition)
        failed = ~np.asarray(args[0])
        if (active := self.state.active(axes)) is not None:
            failed = failed & active
        if failed.any():
            where = np.unravel_index(int(np.argmax(failed)), failed.shape) if axes else ()
            raise self.state.fault(op, op.message.data, _facts_of(interpreter, op, axes, where))
        return ()


def _reduce(kind: str, op: ReductionOp, tile: Array) -> Array:
    """A tile reduced in its own dtype; the neutral element where the axis has no positions."""
    is_bool, tile, axis = np.asarray(tile).dtype == np.bool_, _seen(kind, tile), axes_of(op.tile).index(op.axis.data)
    least, greatest = _extremes(tile.dtype, is_bool)
    initial = {"sum": 0, "product": 1}.get(kind, least if kind.startswith("max") else greatest)
    result = _COMBINE[kind].reduce(tile, axis=axis, dtype=tile.dtype, initial=tile.dtype.type(initial))
    return _of_type(result, op.result)


def _seen(kind: str, tile: Array) -> Array:
    """A tile's numbers with the sign, or without one, that combining them looks at."""
    return unsigned(np.asarray(tile)) if kind.endswith("ui") else signed(tile)


def _extremes(dtype: np.dtype[Any], is_bool: bool) -> tuple[Any, Any]:
    if dtype.kind == "f":
        return -np.inf, np.inf
    if is_bool:
        return (0, 1) if dtype.kind == "u" else (-1, 0)
    return np.iinfo(dtype).min, np.iinfo(dtype).max


def _of_type(array: Array, value: SSAValue) -> Array:
    element = element_of(value)
    return rounded(array, element) if is_float(element) else wrapped(array, dtype_of(element))


def _contract(
    left: Array, left_axes: Sequence[str], right: Array, right_axes: Sequence[str], result: Sequence[str]
) -> Array:
    """Products of the elements, summed along the axis that the result lacks; floats are added up in their own dtype."""
    numbers = {axis: n for n, axis in enumerate(dict.fromkeys((*left_axes, *right_axes)))}
    subscripts = [[numbers[axis] for axis in axes] for axes in (left_axes, right_axes, result)]
    return np.asarray(np.einsum(left, subscripts[0], right, subscripts[1], subscripts[2]))


def _facts_of(interpreter: Interpreter, op: AssertOp, axes: Sequence[str], where: Sequence[Any]) -> str:
    """Where an assertion fails first, and the values there that its condition was computed from."""
    position = ", ".join(f"{axis} = {int(p)}" for axis, p in zip(axes, where, strict=True))
    values, made = [], op.condition.owner
    bare = isinstance(made, arith.CmpiOp) and made.relation.startswith("u")
    for value in getattr(made, "operands", ()):
        array = np.asarray(interpreter.get_values((value,))[0])
        array = unsigned(array) if bare else array
        at = dict(zip(axes, where, strict=True))
        if all(axis in at for axis in axes_of(value)):
            name = f"`{value.name_hint}`" if value.name_hint else "a value"
            values.append(f"{name} is {array[tuple(at[axis] for axis in axes_of(value))]}")
    return "; ".join(filter(None, (f"at {position}" if position else "", ", ".join(values))))
