"""scf loops and branches: what a tile or scratchpad is carried as, register by register."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from xdsl.dialects.scf import ConditionOp, ForOp, IfOp, WhileOp
from xdsl.ir import Block, Operation, SSAValue

from ...dialect import MemoryType
from .state import AddressedMemory, LlvmState

Walk = Callable[[LlvmState, Block], None]
"""Lowers every operation of a block but its terminator."""


def lower_for(state: LlvmState, operation: ForOp, walk: Walk) -> None:
    """`scf.for`."""
    emit = state.emit
    block = operation.body.block
    initial = [name for value in operation.iter_args for name in state.names_of(value)]
    types = [type_ for value in operation.iter_args for type_ in state.types_of(value)]
    bounds = [state.scalar(value) for value in (operation.lb, operation.ub, operation.step)]
    position, arguments = emit.name(), [emit.name() for _ in initial]
    prefix, results = _results(state, len(types))
    carried = ""
    if initial:
        pairs = ", ".join(f"{a} = {i}" for a, i in zip(arguments, initial, strict=True))
        carried = f" iter_args({pairs}) -> ({', '.join(types)})"
    emit.line(f"{prefix}scf.for {position} = {bounds[0]} to {bounds[1]} step {bounds[2]}{carried} : i64 {{")
    with state.region(_carries_memory(operation.results)):
        state.define(block.args[0], [position])
        _bind(state, block.args[1:], arguments, operation.iter_args)
        walk(state, block)
        _yield(state, "scf.yield", _terminator(block).operands)
    emit.line("}")
    _bind(state, operation.results, results, operation.iter_args)


def lower_if(state: LlvmState, operation: IfOp, walk: Walk) -> None:
    """`scf.if`."""
    emit = state.emit
    types = [type_ for value in operation.results for type_ in state.types_of(value)]
    prefix, results = _results(state, len(types))
    returns = f" -> ({', '.join(types)})" if types else ""
    emit.line(f"{prefix}scf.if {state.scalar(operation.cond)}{returns} {{")
    sources: Sequence[SSAValue] = ()
    for number, region in enumerate((operation.true_region, operation.false_region)):
        if not region.blocks:
            continue
        if number:
            emit.line("} else {")
        with state.region(_carries_memory(operation.results)):
            walk(state, region.block)
            last = region.block.last_op
            sources = last.operands if last is not None else ()
            if types:
                _yield(state, "scf.yield", sources)
    emit.line("}")
    _bind(state, operation.results, results, sources)


def lower_while(state: LlvmState, operation: WhileOp, walk: Walk) -> None:
    """`scf.while`."""
    emit = state.emit
    before, after = operation.before_region.block, operation.after_region.block
    initial = [name for value in operation.arguments for name in state.names_of(value)]
    taken = [type_ for value in operation.arguments for type_ in state.types_of(value)]
    given = [type_ for value in operation.results for type_ in state.types_of(value)]
    arguments, passed = [emit.name() for _ in taken], [emit.name() for _ in given]
    prefix, results = _results(state, len(given))
    pairs = ", ".join(f"{a} = {i}" for a, i in zip(arguments, initial, strict=True))
    opening = f" ({pairs})" if pairs else ""
    emit.line(f"{prefix}scf.while{opening} : ({', '.join(taken)}) -> ({', '.join(given)}) {{")
    with state.region(_carries_memory(operation.results)):
        _bind(state, before.args, arguments, operation.arguments)
        walk(state, before)
        condition = _terminator(before)
        assert isinstance(condition, ConditionOp)
        sources = condition.args
        _yield(state, f"scf.condition({state.scalar(condition.condition)})", sources)
    emit.line("} do {")
    with state.region(_carries_memory(operation.results)):
        emit.line(f"^bb0({', '.join(f'{n}: {t}' for n, t in zip(passed, given, strict=True))}):")
        _bind(state, after.args, passed, sources)
        walk(state, after)
        _yield(state, "scf.yield", _terminator(after).operands)
    emit.line("}")
    _bind(state, operation.results, results, sources)


def _terminator(block: Block) -> Operation:
    assert block.last_op is not None
    return block.last_op


def _results(state: LlvmState, count: int) -> tuple[str, list[str]]:
    """The left-hand side of an operation with so many results, and the results' names."""
    if count == 0:
        return "", []
    name = state.emit.name()
    if count == 1:
        return f"{name} = ", [name]
    return f"{name}:{count} = ", [f"{name}#{number}" for number in range(count)]


def _yield(state: LlvmState, word: str, values: Sequence[SSAValue]) -> None:
    names = [name for value in values for name in state.names_of(value)]
    types = [type_ for value in values for type_ in state.types_of(value)]
    state.emit.line(f"{word} {', '.join(names)} : {', '.join(types)}" if names else word)


def _bind(state: LlvmState, values: Sequence[SSAValue], names: Sequence[str], like: Sequence[SSAValue]) -> None:
    """Give carried values their names; memory is laid out as in the value that it comes from."""
    start = 0
    for value, source in zip(values, like, strict=True):
        if isinstance(value.type, MemoryType):
            lowered = state.values[source]
            assert isinstance(lowered, AddressedMemory)
            state.values[value] = replace(lowered, pointer=names[start])
            start += 1
        else:
            count = len(state.types_of(value))
            state.define(value, names[start : start + count])
            start += count


def _carries_memory(values: Sequence[SSAValue]) -> bool:
    return any(isinstance(value.type, MemoryType) for value in values)
