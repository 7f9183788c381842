"""scf loops and branches: tiles and scratchpad are carried register by register."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from xdsl.dialects.scf import ConditionOp, ForOp, IfOp, WhileOp
from xdsl.ir import SSAValue

from ...dialect import MemoryType, WordDotOp
from ..common import terminator_of
from .blocks import BlockDot, blocks_of
from .matrix import MatrixDot, held_sums, set_shape, shape_of
from .state import LlvmState


def lower_for(state: LlvmState, operation: ForOp) -> None:
    """A loop; sums that a matrix unit holds meanwhile are not carried by it, those of a block unit as blocks."""
    emit = state.emit
    block = operation.body.block
    blocks = blocks_of(state, operation)
    in_unit = held_sums(operation)
    held = {} if all(dot in state.held for _, dot in in_unit) else _begin_held(state, operation, in_unit)
    apart = {*blocks, *(number for number, _ in in_unit)}
    kept = [number for number in range(len(operation.iter_args)) if number not in apart]
    first = [operation.iter_args[number] for number in kept]
    own = len(state.names_of(first))
    initial = [*state.names_of(first), *(name for dot in blocks.values() for name in dot.sums)]
    types = [*state.types_of(first), *(type_ for dot in blocks.values() for type_ in dot.types)]
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
        _bind(state, [block.args[1 + number] for number in kept], arguments[:own], first)
        _take(blocks, arguments[own:])
        state.walk(block)
        yielded = terminator_of(block).operands
        names = [
            *state.names_of([yielded[number] for number in kept]),
            *(name for dot in blocks.values() for name in dot.sums),
        ]
        emit.line(f"scf.yield {', '.join(names)} : {', '.join(types)}" if names else "scf.yield")
    emit.line("}")
    _take(blocks, results[own:])
    for number, dot in held.items():
        dot.end(operation.results[number])
    for number, block_dot in blocks.items():
        block_dot.end(operation.results[number])
    _bind(state, [operation.results[number] for number in kept], results[:own], first)


def _take(blocks: Mapping[int, BlockDot], names: Sequence[str]) -> None:
    """Give the sums that a loop carries as blocks their names."""
    rest = iter(names)
    for dot in blocks.values():
        dot.sums = [next(rest) for _ in dot.types]


def _begin_held(state: LlvmState, loop: ForOp, found: Sequence[tuple[int, WordDotOp]]) -> dict[int, MatrixDot]:
    """Take the sums that a matrix unit holds while a loop runs into the unit; the dots by carried value."""
    dots = {
        number: MatrixDot(state, dot, shape_of(dot, len(found)), order) for order, (number, dot) in enumerate(found)
    }
    for dot in dots.values():
        if not dot.number:
            set_shape(state, dot.shape)
        state.held[dot.dot] = dot
    for number, dot in dots.items():
        dot.begin(loop.iter_args[number])
    return dots


def lower_if(state: LlvmState, operation: IfOp) -> None:
    emit = state.emit
    types = state.types_of(operation.results)
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
            state.walk(region.block)
            sources = terminator_of(region.block).operands
            if types:
                _yield(state, "scf.yield", sources)
    emit.line("}")
    _bind(state, operation.results, results, sources)


def lower_while(state: LlvmState, operation: WhileOp) -> None:
    emit = state.emit
    before, after = operation.before_region.block, operation.after_region.block
    initial = state.names_of(operation.arguments)
    taken = state.types_of(operation.arguments)
    given = state.types_of(operation.results)
    arguments, passed = [emit.name() for _ in taken], [emit.name() for _ in given]
    prefix, results = _results(state, len(given))
    pairs = ", ".join(f"{a} = {i}" for a, i in zip(arguments, initial, strict=True))
    opening = f" ({pairs})" if pairs else ""
    emit.line(f"{prefix}scf.while{opening} : ({', '.join(taken)}) -> ({', '.join(given)}) {{")
    with state.region(_carries_memory(operation.results)):
        _bind(state, before.args, arguments, operation.arguments)
        state.walk(before)
        condition = terminator_of(before)
        assert isinstance(condition, ConditionOp)
        sources = condition.args
        _yield(state, f"scf.condition({state.scalar(condition.condition)})", sources)
    emit.line("} do {")
    with state.region(_carries_memory(operation.results)):
        emit.line(f"^bb0({', '.join(f'{n}: {t}' for n, t in zip(passed, given, strict=True))}):")
        _bind(state, after.args, passed, sources)
        state.walk(after)
        _yield(state, "scf.yield", terminator_of(after).operands)
    emit.line("}")
    _bind(state, operation.results, results, sources)


def _results(state: LlvmState, count: int) -> tuple[str, list[str]]:
    """The left-hand side of an operation with `count` results, and the results' names."""
    if count == 0:
        return "", []
    name = state.emit.name()
    if count == 1:
        return f"{name} = ", [name]
    return f"{name}:{count} = ", [f"{name}#{number}" for number in range(count)]


def _yield(state: LlvmState, word: str, values: Sequence[SSAValue]) -> None:
    names, types = ", ".join(state.names_of(values)), ", ".join(state.types_of(values))
    state.emit.line(f"{word} {names} : {types}" if names else word)


def _bind(state: LlvmState, values: Sequence[SSAValue], names: Sequence[str], like: Sequence[SSAValue]) -> None:
    """Give carried values their names; memory is laid out as in the value that it comes from."""
    rest = iter(names)
    for value, source in zip(values, like, strict=True):
        taken = [next(rest) for _ in state.types_of([value])]
        if isinstance(value.type, MemoryType):
            state.values[value] = replace(state.memory(source), pointer=taken[0])
        else:
            state.define(value, taken)


def _carries_memory(values: Iterable[SSAValue]) -> bool:
    return any(isinstance(value.type, MemoryType) for value in values)
