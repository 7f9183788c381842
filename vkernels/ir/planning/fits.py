"""Whether what a plan takes fits within limits, and if not, why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..analysis.needs import Columns, NeedsDevice, NeedsUse
from ..analysis.warp_roles import why_not_on
from ..cost_model.plan_batch import Numbers, PlanBatch
from ..cost_model.warp_roles import all_warps, multiplying_warps, role_registers
from ..errors import PlanError
from ..facts import Facts
from ..limits import Limits
from ..plan import Plan
from ..transforms.apply_plan.check_plan import check_plan
from ..transforms.apply_plan.planned_kernel import plan_kernel
from .bounds import SWAP
from .space import PlanSearchSpace


def why_not(use: NeedsUse, limits: Limits, registers: float) -> str | None:
    """Why what a plan takes does not fit; None if it does. `registers`: a CPU's that its tiles take."""
    on_gpu, most = limits.warp > 1, NeedsDevice.of(limits).registers_of(use.threads)
    swap = use.swap_bytes * min(use.programs[-1] if use.programs else 1, limits.multiprocessors)
    columns = use.tensor_memory_columns if limits.tensor_memory else 0
    checks = (
        (not on_gpu and registers > limits.registers, f"{registers:.0f} vector registers of {limits.registers}"),
        (on_gpu and use.spills, f"{use.registers_a_thread:.0f} registers a thread of {most}"),
        (on_gpu and use.threads > limits.threads, f"{use.threads} threads of {limits.threads}"),
        (use.shared_bytes > limits.shared, f"{use.shared_bytes:.0f} bytes of shared memory of {limits.shared}"),
        (columns > limits.tensor_memory, f"{columns:.0f} columns of tensor memory of {limits.tensor_memory}"),
        (swap > limits.memory * SWAP, f"{swap:.0f} bytes of swap space of {limits.memory * SWAP:.0f}"),
    )
    return next((f"needs {reason}" for is_short, reason in checks if is_short), None)


def columns_of(space: PlanSearchSpace, at: PlanBatch, phases: tuple[str, ...] | None = None) -> Columns:
    """What the plans of a batch take on a GPU; in some phases where they are named, else in all.

    What was found of these plans under choices that make no difference to it is not computed anew.
    """
    whole = at if at.chosen_of is None else at.chosen_of[0]
    wanted = np.zeros(whole.shape, bool)
    wanted[... if at.chosen_of is None else at.chosen_of[1]] = True
    key = "columns", replace(at.choices, **MAKE_NO_DIFFERENCE), phases
    before: _KnownColumns | None = whole.terms.loops.get(key)
    if before is not None and not np.any(wanted & ~before.plans):
        return before.of(wanted)
    given = {
        "plan.warps": multiplying_warps(at, space.limits),
        "plan.stages": at.stages,
        f"split.{at.choices.split}": at.shares,
    }
    given |= {f"{kind}.{axis}": size for kind in ("tile", "chunk") for axis, size in at.sizes.items()}
    found = space.needs.columns(at.first(), space.sizes, NeedsDevice.of(space.limits), given, phases)
    whole.terms.loops[key] = _KnownColumns(wanted, found)
    return found


MAKE_NO_DIFFERENCE: Mapping[str, Any] = {"lanes": None, "order": (), "swizzle": 1, "descriptors": ()}
"""Choices that do not change what a GPU's plans take, and values for them."""


@dataclass(frozen=True)
class _KnownColumns:
    """What the `plans` of a grid take."""

    plans: NDArray[np.bool_]
    columns: Columns

    def of(self, wanted: NDArray[np.bool_]) -> Columns:
        """What some of these plans take."""
        rows = wanted[self.plans]
        return Columns(*(np.broadcast_to(column, rows.shape)[rows] for column in astuple(self.columns)))


def most_registers(at: PlanBatch, limits: Limits) -> Numbers:
    """The most registers that a thread of each plan can have on a GPU."""
    device = NeedsDevice.of(limits)
    if not device.block_registers:
        return device.registers
    if at.choices.warp_specialized:
        return np.minimum(device.registers, role_registers(at, limits))
    return np.minimum(device.registers, device.block_registers // (at.warps * limits.warp))


def which_fit(columns: Columns, at: PlanBatch, limits: Limits) -> Numbers:
    """Which plans of a batch fit, by everything but swap space."""
    fits = (columns.least_registers <= most_registers(at, limits)) & (
        all_warps(at, limits) * limits.warp <= limits.threads
    )
    fits = fits & (columns.shared <= limits.shared)
    return fits & ((columns.tensor_memory <= limits.tensor_memory) if limits.tensor_memory else True)


def why_inapplicable(space: PlanSearchSpace, plan: Plan) -> str | None:
    """Why the kernel cannot have a plan; None if it can, knowing its sizes. Nothing is mapped for it.

    Tensors are distinct, as in all code: where some are the same, the kernel uses one in place of all.
    """
    if reason := why_not_on(space.limits, plan):
        return reason
    for_units = bool(space.limits.dot_units)
    try:
        check_plan(plan_kernel(space.kernel, plan, Facts(dict(space.sizes), distinct=True), space.structure, for_units))
    except PlanError as error:
        return error.message
    return None
