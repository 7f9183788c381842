"""Operands of dots on tensor cores in shared memory, while one loop multiplies them.

As Triton's binaries have it (3.9), of a loop with stages:
- an operand that each iteration loads, from a tensor or a home, is there once for every stage but one; for all stages
  where units read it there while the next ones are copied (groups of warps of sm_90 and later), and on AMD's GPUs that
  copy past registers. On sm_100 one that two dots take is there once more;
- an operand that all iterations share is there once. AMD's units take operands from registers: there it only passes
  through, before the loop;
- an operand that is computed from another dot's results is in registers or in tensor memory, unless it must be brought
  to other threads; what it is loaded from before it is converted is there for all stages but one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.dialects.builtin import TensorType
from xdsl.ir import BlockArgument, Operation, SSAValue

from ...dialect import AccessOp, DotOp, RangeOp, TensorArgumentType, axes_of
from .algebra import ONE, ZERO, Expr, either, fits, most, number, product, symbol, total
from .flow import Flow
from .registers import AHEAD, FROM_SHARED, STAGES, TENSOR_MEMORY, by_four_warps
from .spaces import contiguous_axis, width
from .traffic import on_tensor_cores, operand_bytes, taken, yielded

IS_AMD = symbol("device.is_amd")
ROWS_OF_A_WARP, ROWS_OF_AN_AMD_WARP = 16, 32
"""Rows of a dot's result that the instruction of one warp has."""
LEAST_COPY = 4
"""The fewest bytes of an element that loops copy ahead."""
PIPED = fits(STAGES, number(2))


def loop_operands(flow: Flow, dots: Mapping[DotOp, Expr]) -> Expr:
    """Bytes of the loaded and computed operands of dots in one loop, each with 1 where it is there. None of dots on
    plain units."""
    piped, shared = _piped(flow, dots), _kept(flow, dots)
    in_turn = most(weight * _of_one(flow, op) for op, weight in dots.items())
    return PIPED * (shared + piped) + (1 - PIPED) * (shared + in_turn)


def passing_operands(flow: Flow, op: DotOp) -> Expr:
    """The largest operand of a dot that all iterations share, on its way to registers on AMD's GPUs."""
    sizes = [_bytes(flow, op, side) * (1 - _is_fresh(flow, op, side)) for side in (op.left, op.right)]
    return on_tensor_cores(flow, op) * IS_AMD * most(sizes)


def computed_operands(flow: Flow, op: DotOp) -> Expr:
    """Computed operands of a dot that may be stored for it alone: all on NVIDIA's GPUs, and those of no other dot's
    results on AMD's, which loops without stages bring to other threads."""
    parts = []
    for side in (op.left, op.right):
        value = taken(op, side)
        if not _is_loaded(value):
            there = (1 - IS_AMD) + IS_AMD * (ZERO if _is_from_dot(value) else 1 - PIPED)
            there = there * (1 - _through_shared(flow, op, side)) * (1 - _from_home(flow, op, value))
            converted = either(home for _, home in _homes(flow, op, side))
            parts.append(there * (1 - PIPED * converted) * _bytes(flow, op, side))
    return on_tensor_cores(flow, op) * total(parts)


def _of_one(flow: Flow, op: DotOp) -> Expr:
    """What a dot in a loop without stages takes: AMD stores one operand after the other."""
    sizes = [_bytes(flow, op, side) * _is_fresh(flow, op, side) for side in (op.left, op.right)]
    made = [_through_shared(flow, op, side) * _bytes(flow, op, side) for side in (op.left, op.right)]
    both = [size + computed for size, computed in zip(sizes, made, strict=True)]
    return on_tensor_cores(flow, op) * ((1 - IS_AMD) * total(both) + IS_AMD * most(both))


def _kept(flow: Flow, dots: Mapping[DotOp, Expr]) -> Expr:
    """Loaded operands that all iterations share, on GPUs that read them from shared memory in the loop."""
    found: dict[SSAValue, tuple[Expr, list[Expr]]] = {}
    for op, side, inside in _sides(flow, dots):
        if _is_loaded(taken(op, side)):
            size = _bytes(flow, op, side) * (1 - _is_fresh(flow, op, side))
            found.setdefault(taken(op, side), (size, []))[1].append(inside)
    return (1 - IS_AMD) * total(size * either(weights) for size, weights in found.values())


def _piped(flow: Flow, dots: Mapping[DotOp, Expr]) -> Expr:
    """Copies of what each iteration of a loop with stages loads, and what it computes."""
    copied: dict[SSAValue, tuple[DotOp, SSAValue, list[Expr]]] = {}
    sources: dict[SSAValue, tuple[Expr, list[Expr]]] = {}
    made: list[Expr] = []
    for op, side, inside in _sides(flow, dots):
        operand = taken(op, side)
        copied.setdefault(operand, (op, side, []))[2].append(inside)
        made.append(inside * _through_shared(flow, op, side) * _bytes(flow, op, side))
        for source, size in _sources(flow, op, side):
            sources.setdefault(source, (size, []))[1].append(inside)
    parts = []
    for op, side, weights in copied.values():
        meanwhile = by_four_warps(flow, op) * FROM_SHARED
        copies = STAGES - 1 + meanwhile + AHEAD * IS_AMD
        if len(weights) > 1:
            copies = (meanwhile + IS_AMD) * copies + meanwhile * TENSOR_MEMORY
        if not _is_loaded(taken(op, side)):
            seen = (1 - IS_AMD) * (1 - _outlasts(flow, op, taken(op, side)))
            copies = (1 - seen) * copies + seen * meanwhile * TENSOR_MEMORY * 2
        size = _bytes(flow, op, side) * _is_fresh(flow, op, side) * (1 + AHEAD * IS_AMD * _padding(op, side))
        parts.append(either(weights) * most((ONE, copies)) * size)
    converted = total(size * either(weights) for size, weights in sources.values())
    parts.append(most((ONE, STAGES - 1 + AHEAD * IS_AMD)) * converted)
    # On sm_100 each has its own place, for copies that outlast an iteration.
    return total(parts) + TENSOR_MEMORY * total(made) + (1 - TENSOR_MEMORY) * most(made)


def _sides(flow: Flow, dots: Mapping[DotOp, Expr]) -> Iterator[tuple[DotOp, SSAValue, Expr]]:
    for op, weight in dots.items():
        for side in (op.left, op.right):
            yield op, side, weight * on_tensor_cores(flow, op)


def _bytes(flow: Flow, op: DotOp, side: SSAValue) -> Expr:
    return number(operand_bytes(op)) * product(flow.sizes[axis] for axis in axes_of(side))


def _padding(op: DotOp, side: SSAValue) -> Expr:
    """The part by which AMD's GPUs that copy past registers space out an operand, against conflicts of banks."""
    load = taken(op, side).owner
    is_deep = isinstance(load, AccessOp) and contiguous_axis(load) == op.axis.data
    return number(1) / number(64 if is_deep else 16)


def _is_loaded(value: SSAValue) -> bool:
    return isinstance(value.owner, AccessOp) and isinstance(value.owner.base.type, TensorArgumentType)


def _is_fresh(flow: Flow, op: DotOp, side: SSAValue) -> Expr:
    """1 where each iteration loads an operand as the dot takes it, from a tensor or from a home."""
    value = taken(op, side)
    if not _is_loaded(value):
        return _from_home(flow, op, value)
    made = flow.analysis.phase_of(value)
    in_range = made is None or any(isinstance(each, RangeOp) for each in flow.analysis.structures[made])
    return ONE if in_range else flow.chunked(value)


def _from_home(flow: Flow, op: DotOp, value: SSAValue) -> Expr:
    """1 where a dot's phase loads a value from its home."""
    if value not in flow.crossing or flow.analysis.phase_of(value) is flow.analysis.phase_of(op.result):
        return ZERO
    return flow.chunked(value) * flow.has_home(value)


def _outlasts(flow: Flow, op: DotOp, value: SSAValue) -> Expr:
    """1 where an earlier launch than the dot's stored a value: loops copy ahead only what they do not see written."""
    names = [phase.phase.data for phase in flow.phases]
    made, used = (flow.analysis.phase_of(each) for each in (value, op.result))
    if made is None or used is None:
        return ZERO
    return either(symbol(f"cut.{name}") for name in names[names.index(made.phase.data) : names.index(used.phase.data)])


def _sources(flow: Flow, op: DotOp, side: SSAValue) -> Iterator[tuple[SSAValue, Expr]]:
    """What each iteration loads that an operand is computed from, element by element, with its bytes."""
    outside = 1 - _from_home(flow, op, taken(op, side))
    for value in _computed_from(taken(op, side)):
        size = outside * number(width(value.type)) * product(flow.sizes[axis] for axis in axes_of(value))
        whole = ONE if set(axes_of(value)) == set(axes_of(side)) else 1 - IS_AMD
        if _is_loaded(value) and width(value.type) >= LEAST_COPY:
            yield value, whole * size * _loaded_again(flow, value)
    for value, home in _homes(flow, op, side):
        yield value, outside * home * number(width(value.type)) * product(flow.sizes[axis] for axis in axes_of(value))


def _homes(flow: Flow, op: DotOp, side: SSAValue) -> Iterator[tuple[SSAValue, Expr]]:
    """Values that an operand is converted from, with 1 where an earlier launch stored them."""
    for value in _computed_from(taken(op, side)):
        if set(axes_of(value)) == set(axes_of(side)):
            found = _from_home(flow, op, value)
            if found != ZERO:
                yield value, found * _outlasts(flow, op, value)


def _computed_from(start: SSAValue) -> list[SSAValue]:
    """Tiles that a value is computed from, element by element, as far as loads and results of dots."""
    seen, waiting = {start: None}, [] if _is_loaded(start) else _inputs(start)
    while waiting:
        value = yielded(waiting.pop())
        if value not in seen and isinstance(value.type, TensorType):
            seen[value] = None
            waiting += _inputs(value)
    return list(seen)[1:]


def _loaded_again(flow: Flow, value: SSAValue) -> Expr:
    made = flow.analysis.phase_of(value)
    in_range = made is None or any(isinstance(each, RangeOp) for each in flow.analysis.structures[made])
    return ONE if in_range else flow.chunked(value)


def _inputs(value: SSAValue) -> list[SSAValue]:
    """What an operation computes a value from, element by element."""
    owner = value.owner
    if not isinstance(owner, Operation) or isinstance(owner, DotOp | AccessOp) or owner.regions:
        return []
    return list(owner.operands)


def _through_shared(flow: Flow, op: DotOp, side: SSAValue) -> Expr:
    """1 where an operand that is computed in the loop goes to other threads through shared memory: where a dot has its
    parts in other warps, or its rows and columns in the other order."""
    value = taken(op, side)
    if _is_loaded(value):
        return ZERO
    by_groups = by_four_warps(flow, op) * FROM_SHARED
    computed = 1 - _from_home(flow, op, value)
    warps, rows = symbol("plan.warps"), product(flow.sizes[axis] for axis in axes_of(value) if axis != op.axis.data)
    elsewhere = [1 - fits(rows, warps * each) for each in (ROWS_OF_A_WARP, ROWS_OF_AN_AMD_WARP)]
    if not _is_from_dot(value):
        return computed * by_groups * TENSOR_MEMORY
    if not is_rescaled(flow, op):
        elsewhere[0] = ONE
    loaded = either(there for _, there in _homes(flow, op, side))
    own = (1 - loaded) * (IS_AMD * elsewhere[1] + (1 - IS_AMD) * (1 - by_groups) * elsewhere[0])
    return computed * (own + by_groups * TENSOR_MEMORY * (loaded if is_rescaled(flow, op) else ONE))


def is_rescaled(flow: Flow, op: DotOp) -> bool:
    """Whether a dot adds to what is computed from a carried sum: its operands are computed in its shape then."""
    start = op.sum.owner
    carried = isinstance(start, Operation) and any(isinstance(each, BlockArgument) for each in start.operands)
    return carried or op in flow.moved


def _is_from_dot(value: SSAValue) -> bool:
    """Whether a value is computed, element by element, from a dot's results of the same iteration."""
    return next(results_of_dots(value), None) is not None


def results_of_dots(value: SSAValue) -> Iterator[DotOp]:
    """The dots of whose results a value is computed, element by element; itself included."""
    for each in (yielded(value), *_computed_from(yielded(value))):
        if isinstance(each.owner, DotOp):
            yield each.owner
