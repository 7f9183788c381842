"""Explain a plan: each decision, and the home of each value that crosses phases, with the reason and alternatives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod

from vkernels.ir.analysis.needs import Crossing, Needs, NeedsDevice, NeedsUse, Scratchpad
from vkernels.ir.cost_model.plan_batch import ModeledTimes
from vkernels.ir.errors import Error
from vkernels.ir.limits import Limits
from vkernels.ir.pin import Pin
from vkernels.ir.plan import Home, Plan
from vkernels.ir.plan_json import PlanRow, plan_table
from vkernels.ir.planning.decisions.decisions import DECISION_OF

from .explanation import AlternativeHome, ExplainedDecision, Kept

_HOMES = {
    "registers": "kept in registers",
    "shared": "kept on chip, in shared memory",
    "recompute": "recomputed where it is used",
    "memory": "kept in swap space, in device memory",
}


def decisions_of(
    plan: Plan, pin: Pin | None, extents: Mapping[str, int], limits: Limits
) -> tuple[ExplainedDecision, ...]:
    """Return each decision of a plan that applies to the target."""
    rows = ((row, DECISION_OF[row.field]) for row in plan_table(plan, pin))
    return tuple(
        ExplainedDecision(row.field, row.about, row.value, row.pinned, _means(row, extents, limits))
        for row, decision in rows
        if row.value != str(decision.plain) and (limits.warp > 1 or not decision.gpu_only)
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
        return f"{DECISION_OF['warps'].meaning}, {limits.warp} threads each"
    return DECISION_OF[row.field].meaning


def _chunk(row: PlanRow, extents: Mapping[str, int]) -> str:
    extent = extents.get(row.about)
    if extent is None:
        return f"positions of {row.about} per chunk"
    if int(row.value) >= extent:
        return f"all {extent} positions of {row.about} at once"
    return f"positions of {row.about} per chunk, {-(-extent // int(row.value))} chunks for {extent}"


Judge = Callable[[Plan, NeedsUse], tuple[str, ModeledTimes | None]]
"""For a plan's use: why it does not fit (empty if it does), and its modelled times if known."""


@dataclass(frozen=True)
class Situation:
    """A kernel's needs, a plan for it, and what the plan is for. `homes`: as applied, of values in chunks."""

    needs: Needs
    plan: Plan
    sizes: Mapping[str, int]
    limits: Limits
    homes: Mapping[str, Home]
    judge: Judge

    def use(self, plan: Plan) -> NeedsUse:
        """Return what the kernel needs under another plan."""
        return self.needs.evaluate(plan, self.sizes, NeedsDevice.of(self.limits))


def kept_values(at: Situation) -> tuple[Kept, ...]:
    """Return values that cross phases, then scratchpads, in program order."""
    values = [_value(at, crossing) for crossing in at.needs.crossing]
    return (*values, *(_scratchpad(at, scratchpad) for scratchpad in at.needs.scratchpads))


def _value(at: Situation, value: Crossing) -> Kept:
    extents = at.needs.extents(at.sizes)
    chunked = [a for a in value.whole if extents[a] > at.plan.chunks.get(a, 1) or at.plan.splits.get(a, 1) > 1]
    home = at.homes.get(value.label, Home.RECOMPUTE) if chunked else Home.REGISTERS
    others = _alternatives(at, value.label, home, value.homes) if chunked and home in value.homes else ()
    bytes_ = value.element_bytes * _elements(at.plan, value.axes, chunked, extents)
    why = _why_registers(at.plan, value, extents) if not chunked else _why(at, value, home, chunked, extents)
    return Kept(value.label, "value", value.axes, bytes_, value.made, value.used, home.value, why, others)


def _elements(plan: Plan, axes: Iterable[str], chunked: Iterable[str], extents: Mapping[str, int]) -> int:
    """Elements per program. Chunked axes count as a whole, rounded up to whole chunks."""
    chunks = {axis: plan.chunks.get(axis, 1) for axis in axes}
    return prod(
        -(-extents[axis] // chunk) * chunk if axis in chunked else plan.tiles.get(axis, chunk)
        for axis, chunk in chunks.items()
    )


def _why_registers(plan: Plan, value: Crossing, extents: Mapping[str, int]) -> str:
    if not value.whole:
        return "None of its axes is processed in chunks, so it stays in registers."
    axes = " and ".join(f"all {extents[axis]} positions of {axis}" for axis in value.whole)
    return f"The plan holds {axes} at once, so the value stays in registers."


def _why(at: Situation, value: Crossing, home: Home, chunked: list[str], extents: Mapping[str, int]) -> str:
    passing = " and ".join(f"{a} is processed in chunks of {at.plan.chunks.get(a, 1)} of {extents[a]}" for a in chunked)
    begun = f"Registers cannot hold it, because {passing}."
    if home is Home.RECOMPUTE and home not in value.homes:
        copied = " and ".join(at.plan.copies)
        return f"{begun} Two copies of {copied} allow computing it chunk by chunk where it is used."
    if home is Home.RECOMPUTE:
        return f"{begun} It is recomputed wherever it is used, which needs no memory."
    if Home.RECOMPUTE not in value.homes:
        begun = f"{begun} It cannot be recomputed, because its inputs are overwritten by then."
    if home is Home.SHARED:
        return f"{begun} The plan keeps it on chip, which avoids recomputation and memory traffic."
    where = "The plan keeps it in" if value.label in at.plan.homes else "It goes to"
    return f"{begun} {where} swap space, in device memory."


def _alternatives(at: Situation, label: str, taken: Home, homes: Iterable[Home]) -> tuple[AlternativeHome, ...]:
    found = []
    for home in dict.fromkeys((taken, *homes)):
        plan = at.plan if home is taken else replace(at.plan, homes={**at.plan.homes, label: home})
        try:
            use = at.use(plan)
        except Error:
            continue
        misfit, times = at.judge(plan, use)
        found.append(
            AlternativeHome(
                home.value, home is taken, use.shared_bytes, use.swap_bytes,
                use.shared_bytes_moved + use.swap_bytes_moved, use.global_read_bytes, use.operations, misfit,
                None if times is None else float(times.seconds),
            )
        )  # fmt: skip
    return tuple(found)


def _scratchpad(at: Situation, scratchpad: Scratchpad) -> Kept:
    extents = at.needs.extents(at.sizes)
    home = at.plan.homes.get(scratchpad.label, Home.SHARED)
    copies = 2 if scratchpad.label in at.plan.copies else 1
    axes = [d for d in scratchpad.dimensions if isinstance(d, str)]
    whole = [axis for axis in axes if axis not in at.plan.tiles]
    fixed = prod(d for d in scratchpad.dimensions if isinstance(d, int))
    bytes_ = scratchpad.element_bytes * copies * fixed * _elements(at.plan, axes, whole, extents)
    others = _alternatives(at, scratchpad.label, home, (Home.SHARED, Home.MEMORY))
    where = "It is kept on chip" if home is Home.SHARED else "It is kept in swap space, in device memory"
    doubled = ", with two copies: one is read while the other is written." if copies == 2 else "."
    why = f"The author's scratchpad, which lasts as long as the program. {where}{doubled}"
    shape = tuple(map(str, scratchpad.dimensions))
    return Kept(scratchpad.label, "scratchpad", shape, bytes_, "", (), home.value, why, others)
