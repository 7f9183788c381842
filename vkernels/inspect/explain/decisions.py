"""The rows of a plan: each decision with an explanation."""

from __future__ import annotations

from collections.abc import Mapping

from vkernels.ir.limits import Limits
from vkernels.ir.pin import Pin
from vkernels.ir.plan import Plan
from vkernels.ir.plan_json import PlanRow, plan_table
from vkernels.ir.planning.decisions.decisions import DECISIONS

from .explanation import ExplainedDecision

_HOMES = {
    "registers": "kept in registers",
    "shared": "kept on chip, in shared memory",
    "recompute": "recomputed where it is used",
    "memory": "kept in swap space, in device memory",
}
_MEANS = {decision.field: decision.meaning for decision in DECISIONS}


def decisions_of(
    plan: Plan, pin: Pin | None, extents: Mapping[str, int], limits: Limits
) -> tuple[ExplainedDecision, ...]:
    """Return each decision of a plan that applies to the target."""
    rows = [row for row in plan_table(plan, pin) if limits.warp > 1 or row.field not in ("warps", "stages")]
    return tuple(
        ExplainedDecision(row.field, row.about, row.value, row.pinned, _means(row, extents, limits))
        for row in rows
        if row.field != "resident_programs" or row.value != "0"
    )


def _means(row: PlanRow, extents: Mapping[str, int], limits: Limits) -> str:
    if row.field == "tiles":
        extent = extents.get(row.about)
        programs = f": {-(-extent // int(row.value))} programs along it" if extent is not None else ""
        return f"positions of {row.about} per program{programs}"
    if row.field == "chunks":
        return _chunk(row, extents)
    if row.field == "homes":
        return _HOMES.get(row.value, "")
    if row.field == "splits":
        return f"programs that share {row.about}; a later launch combines their results"
    if row.field == "lanes":
        along = "threads" if limits.warp > 1 else "vector lanes"
        return f"the axis along {along}"
    if row.field == "warps":
        return f"{_MEANS['warps']}, {limits.warp} threads each"
    return _MEANS.get(row.field, "")


def _chunk(row: PlanRow, extents: Mapping[str, int]) -> str:
    extent = extents.get(row.about)
    if extent is None:
        return f"positions of {row.about} per chunk"
    if int(row.value) >= extent:
        return f"all {extent} positions of {row.about} at once"
    return f"positions of {row.about} per chunk, {-(-extent // int(row.value))} chunks for {extent}"
