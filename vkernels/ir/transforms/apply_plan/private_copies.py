"""Private copies of tensors that atomics update: few programs do the work of all, none meeting another in memory.

With several copies, each program has its own, which begins as the neutral element; a last launch combines them into the
tensor. With one, programs that would meet run one after another, and update the tensor itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import i64
from xdsl.ir import Block, SSAValue

from ...analysis.axes import MappedAxis
from ...analysis.private_copies import meeting_axes, private_tensors
from ...dialect import BarrierOp, BufferOp, ScratchOp, arith
from ...errors import PlanError
from .copies_in_memory import emit_combining, fill_copy, make_copies
from .frames import LoopFrame
from .launches import add_launch, begin_launch, emit_variants
from .mapping_state import MappingState
from .planned_kernel import PlannedKernel


def check_private_copies(planned: PlannedKernel) -> None:
    """Raise `PlanError` for private copies in a kernel that cannot have them, or not beside its other decisions."""
    copies, plan = planned.plan.private_copies, planned.plan
    if copies == 0:
        return
    if copies < 0:
        raise PlanError(f"the plan has {copies} private copies: expected a whole number of at least 0")
    if not private_tensors(planned.kernel, planned.facts.distinct):
        raise PlanError(
            f"the plan has {copies} private copies: {planned.kernel.sym_name.data} has no tensor that it only updates"
            " by one kind of atomic operation, and that no other can be the same as"
        )
    if copies > 1 and not any(axis.is_tile for axis in planned.axes.values()):
        raise PlanError(f"the plan has {copies} private copies, and the kernel one program, which needs 1 at most")
    for has, other in (
        (planned.split_axis, "splits an axis over programs"),
        (plan.launches, "makes several launches"),
        (plan.swizzle != 1, "orders programs in groups"),
    ):
        if has:
            raise PlanError(f"the plan has {copies} private copies and {other}: not both at once yet")


def emit_private(state: MappingState, label: str, body: Callable[[LoopFrame], None]) -> None:
    """The launch in which programs are divided among copies, and one for each tensor that combines its copies."""
    tensors = private_tensors(state.kernel, state.facts.distinct)
    copies = {tensor: make_copies(state, tensor) for tensor in tensors} if state.plan.private_copies > 1 else {}
    state.exclusive = frozenset(tensors)
    _emit_work(state, label, tensors, copies, body)
    state.exclusive, state.copies = frozenset(), {}
    for tensor, buffer in copies.items():
        emit_combining(state, tensor, buffer, tensors[tensor])


def _emit_work(
    state: MappingState,
    label: str,
    tensors: dict[SSAValue, str],
    copies: dict[SSAValue, SSAValue],
    body: Callable[[LoopFrame], None],
) -> None:
    tiles = state.program_axes()
    meeting = meeting_axes(state.kernel, tensors)
    shared = [axis for axis in tiles if copies or (axis.name in meeting and not axis.has_one_program)]
    apart = [axis for axis in tiles if axis not in shared]
    grid = [state.programs_along(axis) for axis in apart]
    grid += [state.top.number(state.plan.private_copies)] if copies else []
    block = Block(arg_types=[i64] * len(grid))
    frame = state.launch = LoopFrame(block, state.top)
    for argument, name in zip(block.args, [*(axis.name for axis in apart), "copy"], strict=False):
        argument.name_hint = f"p_{name}"
    state.coordinates = {axis.name: argument for axis, argument in zip(apart, block.args, strict=False)}
    begin_launch(state, frame)
    for tensor, buffer in copies.items():
        state.copies[tensor] = buffer, block.args[-1]
        fill_copy(state, frame, tensor, tensors[tensor])
    if copies:
        frame.block.add_op(BarrierOp())
    if shared:
        _emit_in_turn(state, frame, shared, block.args[-1] if copies else None, body)
    else:
        emit_variants(state, frame, tiles, body)
    add_launch(state, label, grid, block)


def _emit_in_turn(
    state: MappingState,
    frame: LoopFrame,
    shared: Sequence[MappedAxis],
    own: SSAValue | None,
    body: Callable[[LoopFrame], None],
) -> None:
    """A loop over the programs along some axes: all of them, or the share of the copy with the number `own`."""
    top = state.top
    programs = [state.programs_along(axis) for axis in shared]
    count = programs[0]
    for more in programs[1:]:
        count = top.combined(arith.MuliOp, count, more)
    start, stop = frame.number(0), count
    if own is not None:
        share = top.combined(arith.CeilDivSIOp, count, top.number(state.plan.private_copies))
        start = frame.combined(arith.MuliOp, own, share)
        stop = frame.combined(arith.MinSIOp, frame.combined(arith.AddiOp, start, share), count)
    inner = LoopFrame(Block(arg_types=[i64]), frame)
    rest: SSAValue = inner.block.args[0]
    for axis, along in zip(reversed(shared[1:]), reversed(programs[1:]), strict=True):
        outer = inner.combined(arith.FloorDivSIOp, rest, along)
        state.coordinates[axis.name] = inner.combined(arith.SubiOp, rest, inner.combined(arith.MuliOp, outer, along))
        rest = outer
    state.coordinates[shared[0].name] = rest
    for axis in shared:
        state.coordinates[axis.name].name_hint = f"p_{axis.name}"
    emit_variants(state, inner, state.program_axes(), body)
    if any(isinstance(op, ScratchOp | BufferOp) for op in frame.block.ops):
        inner.block.add_op(BarrierOp())  # the next program of this copy has the same memory
    inner.block.add_op(scf.YieldOp.create())
    frame.loop((start, stop, frame.number(1)), [], inner.block, state.kernel.location)
