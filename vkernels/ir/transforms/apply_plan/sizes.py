"""Emit sizes and the i64 arithmetic on them, once before all launches."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import i64
from xdsl.ir import Operation, SSAValue

from ...analysis.axes import known_value
from ...dialect import AccessOp, SizeOp, TensorArgumentType
from .emit import emit_here
from .mapping_state import MappingState
from .planned_kernel import PlannedKernel


def values_outside_launches(planned: PlannedKernel) -> set[SSAValue]:
    """The kernel's parameters, and values computed only from sizes."""
    return {*planned.kernel.body.block.args, *(op.results[0] for op in _size_arithmetic(planned))}


def emit_sizes(state: MappingState) -> None:
    """Compute sizes at the top level; those that facts give are constants."""
    for op in _size_arithmetic(state):
        result = op.results[0]
        known = known_value(result, state.facts)
        if known is not None:
            state.top.values[result] = state.top.number(known)
        elif isinstance(op, SizeOp):
            made = state.top.values[result] = state.top.add(SizeOp(op.size.data))
            made.name_hint = op.size.data
        else:
            state.top.location = op.location
            emit_here(state, state.top, op)
    _emit_guarded_sizes(state)


def _size_arithmetic(planned: PlannedKernel) -> Iterator[Operation]:
    """The operations that compute sizes from sizes, in program order."""
    found: set[SSAValue] = set(planned.kernel.body.block.args)
    for op in planned.kernel.body.block.ops:
        if isinstance(op, SizeOp) or (
            _is_integer_arithmetic(op)
            and (known_value(op.results[0], planned.facts) is not None or all(v in found for v in op.operands))
        ):
            found.add(op.results[0])
            yield op


def _emit_guarded_sizes(state: MappingState) -> None:
    """The sizes that guards compare with and that descriptors have, unless facts give them or the kernel names them."""
    named = {op.size.data for op in state.kernel.body.block.ops if isinstance(op, SizeOp)} | set(state.facts.sizes)
    for op in state.kernel.walk():
        if isinstance(op, AccessOp) and isinstance(op.base.type, TensorArgumentType):
            described = op.base.name_hint in state.plan.descriptors
            for dimension in range(len(op.index)) if described else op.guarded_dimensions:
                size = op.base.type.shape[dimension]
                if isinstance(size, str) and size not in named:
                    named.add(size)
                    state.top.add(SizeOp(size)).name_hint = size


def _is_integer_arithmetic(op: Operation) -> bool:
    is_arith = op.name.startswith("arith.") and len(op.results) == 1 and not op.regions
    return is_arith and all(value.type == i64 for value in (*op.operands, *op.results))
