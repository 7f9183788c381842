"""On-chip memory: scratchpads and shared homes, and what Triton takes beside them.

Triton's own is handed out anew wherever it is needed, so the worst point of a phase counts (`ModuleAllocation` in
Triton's `lib/Analysis/Allocation.cpp`):
- a reduction leaves each warp's part for the others: results × warps along the axis (`ReduceOpHelper`);
- a tile whose layout changes goes through it, no more at a time than a thread's `CONVERTED` bytes;
- operands of dots lie there, once for every stage of the pipeline but one.
"""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation

from ..dialect import AccessOp, DotOp, PhaseOp, ReductionOp, ScratchOp, axes_of
from .algebra import ONE, Expr, fits, least, most, number, pieces, product, symbol, total
from .flow import Flow
from .registers import largest
from .spaces import THREADS, Spaces, space_for, width
from .traffic import is_a_dot, on_tensor_cores, operand_bytes

CONVERTED = 128
STAGES = symbol("plan.stages")


def shared_bytes(flow: Flow, spaces: Spaces, phase: PhaseOp) -> Expr:
    """What Triton takes at the worst point of a phase."""
    needs = []
    inside = largest(flow.members[phase])
    for item, weight in flow.members[phase].items():
        for op in (item, *(x for r in item.regions for x in r.walk())):
            if isinstance(op, ReductionOp):
                needs.append(weight * _reduction(flow, spaces, op, inside))
            elif isinstance(op, DotOp):
                needs.append(weight * _operands(flow, op))
    return most([*needs, *_conversions(flow, phase)])


def _reduction(flow: Flow, spaces: Spaces, op: ReductionOp, inside: list[frozenset[str]]) -> Expr:
    axis = op.axis.data
    axes = axes_of(op.tile)
    warps = spaces.warps_along(axis, space_for(frozenset(axes), inside))
    results = product(flow.sizes[a] for a in axes if a != axis)
    return fits(warps, number(2)) * number(width(op.tile.type)) * results * warps


def _operands(flow: Flow, op: DotOp) -> Expr:
    """On tensor cores both operands, for every stage but one; else one after the other, as 4 bytes an element."""
    sizes = [product(flow.sizes[a] for a in axes_of(value)) for value in (op.left, op.right)]
    stages, inside = most((ONE, STAGES - 1)), on_tensor_cores(flow, op)
    staged = inside * stages * number(operand_bytes(op)) * total(sizes)
    return staged + (1 - inside) * is_a_dot(flow, op) * number(4) * most(sizes)


def _conversions(flow: Flow, phase: PhaseOp) -> list[Expr]:
    """Tiles that come from one kind of memory, or from a dot, and go to another, whose layout is another."""
    found: list[Expr] = []
    members = flow.members[phase]
    tiles = [op for item in members for op in (item, *(x for r in item.regions for x in r.walk()))]
    mixed = _is_mixed(flow, phase, tiles)
    for op in tiles:
        if isinstance(op, AccessOp) and isinstance(op.tile.type, TensorType):
            size = number(max(width(op.tile.type), 2)) * product(flow.sizes[a] for a in axes_of(op.tile))
            found.append(mixed * least((size, THREADS * CONVERTED)))
    return found


def _is_mixed(flow: Flow, phase: PhaseOp, ops: list[Operation]) -> Expr:
    """1 where a phase has accesses of different kinds."""
    kinds = {(type(op.base.type), width(op.base.type.element)) for op in ops if isinstance(op, AccessOp)}
    if len(kinds) > 1 or any(isinstance(op, DotOp) for op in ops):
        return ONE
    labels = [label for value, label in flow.crossing.items() if _touches(flow, phase, value)]
    return most(symbol(f"{home}.{label}") for label in labels for home in ("shared", "memory"))


def _touches(flow: Flow, phase: PhaseOp, value: object) -> bool:
    members = flow.members[phase]
    return any(user in members for user, _ in flow.users(value)) or getattr(value, "owner", None) in members  # type: ignore[arg-type]


def scratch_bytes(flow: Flow) -> tuple[Expr, Expr]:
    """Bytes of scratchpads and shared homes of a program, and of its swap space, rounded as lowering does."""
    shared: list[Expr] = []
    swap: list[Expr] = []
    for op in flow.kernel.body.block.ops:
        if isinstance(op, ScratchOp):
            label = op.label.data
            size = number(width(op.result.type.element)) * product(_capacity(flow, d) for d in op.result.type.shape)
            size = size * (1 + symbol(f"copies.{label}"))
            shared.append(size * (1 - symbol(f"memory.{label}")))
            swap.append(size * symbol(f"memory.{label}"))
    for value, label in flow.crossing.items():
        size = number(width(value.type)) * product(_capacity(flow, axis) for axis in axes_of(value))
        shared.append(size * symbol(f"shared.{label}") * flow.chunked(value))
        swap.append(size * symbol(f"memory.{label}") * flow.chunked(value))
    return total(shared), total(swap)


def _capacity(flow: Flow, dimension: str | int) -> Expr:
    """Elements of memory along an axis, its last chunk in full."""
    if isinstance(dimension, int):
        return number(dimension)
    size = flow.sizes[dimension]
    axis = flow.reading.axes[dimension]
    return size if axis.is_tile else pieces(flow.extents[dimension], size) * size
