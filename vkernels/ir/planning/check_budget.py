"""Whether a plan keeps to the author's budget; if not, what takes most, in the author's terms."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from ..analyses import phases_of
from ..analysis.needs import NeedsUse
from ..analysis.needs.needs import SPILL_ALLOWANCE
from ..analysis.needs.spaces import width
from ..analysis.schedule.nests import label_of
from ..budget import Budget
from ..dialect import (
    BroadcastOp,
    DotOp,
    KernelOp,
    PhaseOp,
    PositionOp,
    ReductionOp,
    ScanByOp,
    ScanOp,
    ScratchOp,
    axes_of,
)
from ..errors import BudgetError
from ..locations import place_of
from ..plan import Home, Plan
from .one_plan import registers_by_phase
from .space import PlanSearchSpace

_FREE = (BroadcastOp, PositionOp, PhaseOp)
LEANEST = "Even the leanest plan takes so much"


@dataclass(frozen=True)
class _Excess:
    """A bound of the budget that a plan exceeds, and the phase that exceeds it most."""

    bound: str
    what: str
    needed: int
    allowed: int
    phase: str


def check_budget(budget: Budget, space: PlanSearchSpace, plan: Plan, use: NeedsUse, whose: str = LEANEST) -> None:
    """Raise `BudgetError` where a plan, which takes `use`, exceeds a budget. `space`: of the kernel, on its device.

    Registers count as they do for planning: those without which a thread spills more than a plan may. Raises
    `PlanError` where the kernel cannot have the plan.
    """
    excess = _excess(budget, space, plan, use)
    if excess is None:
        return
    costliest = _costliest(space.kernel, plan, excess)
    name = space.kernel.sym_name.data
    message = f"{name}: phase `{excess.phase}` needs {excess.needed} {excess.what}, its budget allows {excess.allowed}"
    if costliest is None:
        raise BudgetError(message, None, _help(whose, excess))
    label, operation = costliest
    raise BudgetError(f"{message}; most of them for {label}", place_of(operation), _help(whose, excess))


def _excess(budget: Budget, space: PlanSearchSpace, plan: Plan, use: NeedsUse) -> _Excess | None:
    on_gpu = space.limits.warp > 1
    if budget.registers is not None and use.phases:
        what = "registers a thread" if on_gpu else "vector registers"
        spare = SPILL_ALLOWANCE // space.limits.register_bytes if on_gpu else 0
        taken = {phase.name: phase.registers_at_least for phase in use.phases}
        taken = taken if on_gpu else registers_by_phase(space, plan, use)
        worst = max(taken, key=lambda name: taken[name])
        needed = ceil(taken[worst]) - spare
        if needed > budget.registers:
            return _Excess("registers", what, needed, budget.registers, worst)
    worst_shared = max(use.phases, key=lambda phase: phase.shared_bytes, default=None)
    phase = "" if worst_shared is None else worst_shared.name
    if budget.shared is not None and use.shared_bytes > budget.shared:
        return _Excess("shared", "bytes of shared memory a program", round(use.shared_bytes), budget.shared, phase)
    threads = use.threads if on_gpu else 1
    if budget.threads is not None and threads > budget.threads:
        worst_threads = max(use.phases, key=lambda phase: phase.register_bytes, default=None)
        phase = "" if worst_threads is None else worst_threads.name
        return _Excess("threads", "threads a program", threads, budget.threads, phase)
    return None


def _help(whose: str, excess: _Excess) -> str:
    enough = f"allow as many (`vk.Budget({excess.bound}={excess.needed})`), or set no bound"
    if excess.bound == "threads":
        enough += "; threads come in whole warps"
    return f"{whose}: {enough}."


def _costliest(kernel: KernelOp, plan: Plan, excess: _Excess) -> tuple[str, Operation] | None:
    """The value that takes most of the resource, in the phase or for all of the program's life; and its operation."""
    kernel = phases_of(kernel)
    in_phase = [op for op in _phase_in(kernel, excess.phase).body.walk() if not isinstance(op, _FREE)]
    operations = in_phase
    if excess.bound == "shared":
        kept = [op for op in kernel.walk() if _is_kept(op, plan)]
        operations = kept or [op for op in in_phase if isinstance(op, ReductionOp | ScanOp | ScanByOp | DotOp)]
    values = [value for op in operations for value in op.results if _axes(value) or isinstance(value.type, TensorType)]
    if not values:
        return None

    def cost(value: SSAValue) -> tuple[int, int, bool]:
        sizes = (plan.tiles.get(axis, plan.chunks.get(axis, 1)) for axis in _axes(value))
        return prod(sizes) * _bytes(value), len(_axes(value)), value.name_hint is not None

    value = max(values, key=cost)
    operation = value.owner
    assert isinstance(operation, Operation), "the result of one"
    return (f"`{value.name_hint}`" if value.name_hint else "what is computed here"), operation


def _phase_in(kernel: KernelOp, name: str) -> PhaseOp:
    return next(op for op in kernel.walk() if isinstance(op, PhaseOp) and op.phase.data == name)


def _is_kept(op: Operation, plan: Plan) -> bool:
    """Whether on-chip memory holds what an operation makes for all of the program's life."""
    if isinstance(op, ScratchOp):
        return plan.homes.get(op.label.data) is not Home.MEMORY
    return any(plan.homes.get(label_of(result)) is Home.SHARED for result in op.results)


def _axes(value: SSAValue) -> tuple[str, ...]:
    owner = value.owner
    if not isinstance(owner, ScratchOp) and not isinstance(value.type, TensorType):
        return ()
    shape = owner.result.type.shape if isinstance(owner, ScratchOp) else axes_of(value)
    return tuple(axis for axis in shape if isinstance(axis, str))


def _bytes(value: SSAValue) -> int:
    owner = value.owner
    return width(owner.result.type.element) if isinstance(owner, ScratchOp) else width(value.type)
