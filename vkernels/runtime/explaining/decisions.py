"""A plan as rows: each decision, and what it means in plain words."""

from __future__ import annotations

from collections.abc import Mapping

from vkernels.ir.limits import Limits
from vkernels.ir.pin import Pin
from vkernels.ir.plan import Plan
from vkernels.ir.plan_json import PlanRow, plan_table

from .explained import Decision

_HOMES = {
    "registers": "stays in registers",
    "shared": "lives on chip, in shared memory",
    "recompute": "is computed again where it is used",
    "memory": "lives in swap space, in the device's memory",
}
_MEANS = {
    "copies": "kept twice: one copy is read while the other is written",
    "launches": "a launch of its own begins after this phase",
    "online": "one pass finds a maximum and the sum that needs it: the sum is corrected when the maximum grows",
    "packs": "copied first, panel by panel, in the order in which it is read",
    "streams": "its stores pass the caches: nothing reads them soon",
    "order": "the order of programs, slowest axis first",
    "warps": "groups of threads that a program has",
    "stages": "chunks that are under way at once in a pipelined loop",
}


def decisions_of(plan: Plan, pin: Pin | None, extents: Mapping[str, int], limits: Limits) -> tuple[Decision, ...]:
    """Each decision of a plan. What a CPU has no use for is left out."""
    rows = [row for row in plan_table(plan, pin) if limits.warp > 1 or row.field not in ("warps", "stages")]
    return tuple(
        Decision(row.field, row.about, row.value, row.pinned, _means(row, extents, limits))
        for row in rows
        if row.field != "resident_programs" or row.value != "0"
    )


def _means(row: PlanRow, extents: Mapping[str, int], limits: Limits) -> str:
    if row.field == "tiles":
        extent = extents.get(row.about)
        programs = f": {-(-extent // int(row.value))} programs along it" if extent is not None else ""
        return f"positions of {row.about} that one program takes{programs}"
    if row.field == "chunks":
        return _chunk(row, extents)
    if row.field == "homes":
        return _HOMES.get(row.value, "")
    if row.field == "splits":
        return f"programs that share each run of {row.about}; their results are combined afterwards"
    if row.field == "resident_programs":
        return "programs that are started; each goes on to the next piece of work until none is left"
    if row.field == "lanes":
        along = "neighbouring threads" if limits.warp > 1 else "a vector register"
        return f"the axis whose positions lie along {along}"
    if row.field == "warps":
        return f"{_MEANS['warps']}, of {limits.warp} threads each"
    return _MEANS.get(row.field, "")


def _chunk(row: PlanRow, extents: Mapping[str, int]) -> str:
    extent = extents.get(row.about)
    if extent is None:
        return f"positions of {row.about} that pass by at a time"
    if int(row.value) >= extent:
        return f"all {extent} positions of {row.about} at once"
    return f"positions of {row.about} that pass by at a time, {-(-extent // int(row.value))} times for {extent}"
