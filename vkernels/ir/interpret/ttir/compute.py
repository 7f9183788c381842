"""The tt dialect's operations on values: shapes, pointers, reductions, scans, products of matrices."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import Float32Type
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    PythonValues,
    ReturnedValues,
    TerminatorValue,
    impl,
    impl_terminator,
    register_impls,
)
from xdsl.ir import Operation, Region

from ...dialect import arith, tt
from ..elementwise import ArithFunctions
from ..numbers import (
    Array,
    dtype_of,
    from_storage,
    is_float,
    round_significand,
    rounded,
    storage_of,
    to_storage,
    wrapped,
)
from ..state import InterpreterState


@register_impls
class ComputeFunctions(InterpreterFunctions):
    """Operations without effects. `programs`: of the launch, along the grid's first dimension."""

    def __init__(self, state: InterpreterState, programs: int):
        self.state, self.programs = state, programs
        self._constants: dict[Operation, PythonValues] = {}
        self._arith = ArithFunctions()

    @impl(arith.ConstantOp)
    def constant(self, interpreter: Interpreter, op: arith.ConstantOp, args: PythonValues) -> PythonValues:
        """Made once: loops come by again and again."""
        if op not in self._constants:
            self._constants[op] = self._arith.constant(interpreter, op, args).values
        return self._constants[op]

    @impl(tt.ProgramIdOp)
    def program_id(self, interpreter: Interpreter, op: tt.ProgramIdOp, args: PythonValues) -> PythonValues:
        program = self.state.program
        return (np.int32(program.number if program is not None and op.axis.value.data == 0 else 0),)

    @impl(tt.NumProgramsOp)
    def num_programs(self, interpreter: Interpreter, op: tt.NumProgramsOp, args: PythonValues) -> PythonValues:
        return (np.int32(self.programs if op.axis.value.data == 0 else 1),)

    @impl(tt.MakeRangeOp)
    def make_range(self, interpreter: Interpreter, op: tt.MakeRangeOp, args: PythonValues) -> PythonValues:
        return (np.arange(op.start.value.data, op.end.value.data, dtype=np.int32),)

    @impl(tt.SplatOp)
    def splat(self, interpreter: Interpreter, op: tt.SplatOp, args: PythonValues) -> PythonValues:
        return (np.broadcast_to(args[0], tt.shape(op.result.type)),)

    @impl(tt.ExpandDimsOp)
    def expand_dims(self, interpreter: Interpreter, op: tt.ExpandDimsOp, args: PythonValues) -> PythonValues:
        return (np.expand_dims(args[0], op.axis.value.data),)

    @impl(tt.BroadcastOp)
    def broadcast(self, interpreter: Interpreter, op: tt.BroadcastOp, args: PythonValues) -> PythonValues:
        return (np.broadcast_to(args[0], tt.shape(op.result.type)),)

    @impl(tt.TransOp)
    def trans(self, interpreter: Interpreter, op: tt.TransOp, args: PythonValues) -> PythonValues:
        return (np.transpose(args[0], [int(d) for d in op.order.get_values()]),)

    @impl(tt.ReshapeOp)
    def reshape(self, interpreter: Interpreter, op: tt.ReshapeOp, args: PythonValues) -> PythonValues:
        return (np.reshape(args[0], tt.shape(op.result.type)),)

    @impl(tt.AddPtrOp)
    def add_pointer(self, interpreter: Interpreter, op: tt.AddPtrOp, args: PythonValues) -> PythonValues:
        pointed = tt.element(op.ptr.type)
        assert isinstance(pointed, tt.PointerType), "addptr moves pointers"
        width = storage_of(pointed.pointee).itemsize
        return (args[0] + np.asarray(args[1]).astype(np.int64) * width,)

    @impl(tt.BitcastOp)
    def bitcast(self, interpreter: Interpreter, op: tt.BitcastOp, args: PythonValues) -> PythonValues:
        source, target = tt.element(op.src.type), tt.element(op.result.type)
        if isinstance(source, tt.PointerType):
            return (args[0],)
        stored = np.ascontiguousarray(to_storage(args[0], source)).reshape(tt.shape(op.src.type))
        return (from_storage(stored.view(storage_of(target)), target),)

    @impl(tt.FpToFpOp)
    def convert(self, interpreter: Interpreter, op: tt.FpToFpOp, args: PythonValues) -> PythonValues:
        return (rounded(args[0], tt.element(op.result.type)),)

    @impl(tt.DotOp)
    def dot(self, interpreter: Interpreter, op: tt.DotOp, args: PythonValues) -> PythonValues:
        """Summed in f64 and rounded once: closer to the exact sum than any GPU comes. tf32 operands lose 13 bits."""
        a, b, c = args
        is_tf32 = op.input_precision.value.data == tt.DotOp.PRECISIONS["tf32"]
        if is_tf32 and isinstance(tt.element(op.a.type), Float32Type):
            a, b = round_significand(a, 10), round_significand(b, 10)
        if is_float(tt.element(op.c.type)):
            return (rounded(c + np.matmul(a.astype(np.float64), b.astype(np.float64)), tt.element(op.c.type)),)
        products = np.matmul(a.astype(np.int64), b.astype(np.int64))
        return (wrapped(c + products, dtype_of(tt.element(op.c.type))),)

    @impl(tt.PreciseSqrtOp)
    def sqrt(self, interpreter: Interpreter, op: tt.PreciseSqrtOp, args: PythonValues) -> PythonValues:
        return (np.sqrt(args[0]),)

    @impl(tt.PreciseDivOp)
    def divide(self, interpreter: Interpreter, op: tt.PreciseDivOp, args: PythonValues) -> PythonValues:
        return (np.divide(*args),)

    @impl(tt.ReduceOp)
    def reduce(self, interpreter: Interpreter, op: tt.ReduceOp, args: PythonValues) -> PythonValues:
        """The first half with the second, again and again: sizes are powers of two."""
        axis = op.axis.value.data
        tiles = [np.moveaxis(tile, axis, 0) for tile in args]
        while (half := len(tiles[0]) // 2) > 0:
            tiles = _combined(interpreter, op.body, [t[:half] for t in tiles], [t[half:] for t in tiles])
        return tuple(tile[0] for tile in tiles)

    @impl(tt.ScanOp)
    def scan(self, interpreter: Interpreter, op: tt.ScanOp, args: PythonValues) -> PythonValues:
        """Each element with the sum of those before it, spans of 1, 2, 4, … at a time."""
        axis, reverse = op.axis.value.data, bool(op.reverse.value.data)
        tiles = [np.moveaxis(tile, axis, 0)[:: -1 if reverse else 1] for tile in args]
        span = 1
        while span < len(tiles[0]):
            later = _combined(interpreter, op.body, [t[:-span] for t in tiles], [t[span:] for t in tiles])
            tiles = [np.concatenate([t[:span], new]) for t, new in zip(tiles, later, strict=True)]
            span *= 2
        return tuple(np.moveaxis(tile[:: -1 if reverse else 1], 0, axis) for tile in tiles)

    @impl_terminator(tt.ReduceReturnOp)
    def end_reduce(
        self, interpreter: Interpreter, op: tt.ReduceReturnOp, args: PythonValues
    ) -> tuple[TerminatorValue, PythonValues]:
        return ReturnedValues(args), ()

    @impl_terminator(tt.ScanReturnOp)
    def end_scan(
        self, interpreter: Interpreter, op: tt.ScanReturnOp, args: PythonValues
    ) -> tuple[TerminatorValue, PythonValues]:
        return ReturnedValues(args), ()

    @impl_terminator(tt.ReturnOp)
    def end(
        self, interpreter: Interpreter, op: tt.ReturnOp, args: PythonValues
    ) -> tuple[TerminatorValue, PythonValues]:
        return ReturnedValues(args), ()


def _combined(interpreter: Interpreter, body: Region, left: list[Array], right: list[Array]) -> list[Array]:
    """A body of two scalars run on whole tensors of them."""
    return [np.asarray(value) for value in interpreter.run_ssacfg_region(body, (*left, *right), "combine")]
