"""The home of each value that crosses phases, the reason, and the cost of other homes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod

from vkernels.ir.analysis.needs import Crossing, Needs, NeedsDevice, NeedsUse, Scratchpad
from vkernels.ir.cost_model.plan_batch import ModeledTimes
from vkernels.ir.errors import Error
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Home, Plan

from .explanation import AlternativeHome, Kept

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
    chunked = [axis for axis in value.whole if _is_chunked(at.plan, axis, extents)]
    home = at.homes.get(value.label, Home.RECOMPUTE) if chunked else Home.REGISTERS
    others = _alternatives(at, value.label, home, value.homes) if chunked and home in value.homes else ()
    bytes_ = value.element_bytes * _elements(at.plan, value.axes, chunked, extents)
    why = _why_registers(at.plan, value, extents) if not chunked else _why(at, value, home, chunked, extents)
    return Kept(value.label, "value", value.axes, bytes_, value.made, value.used, home.value, why, others)


def _is_chunked(plan: Plan, axis: str, extents: Mapping[str, int]) -> bool:
    return extents[axis] > plan.chunks.get(axis, 1) or plan.splits.get(axis, 1) > 1


def _elements(plan: Plan, axes: Iterable[str], chunked: Iterable[str], extents: Mapping[str, int]) -> int:
    """Return the elements per program, with chunked axes as a whole, rounded up to whole chunks."""
    return prod(_up(extents[a], plan.chunks.get(a, 1)) if a in chunked else _at_once(plan, a) for a in axes)


def _at_once(plan: Plan, axis: str) -> int:
    return plan.tiles[axis] if axis in plan.tiles else plan.chunks.get(axis, 1)


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


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
    """The author's scratchpads: on chip unless the plan says memory, or the size is unknown."""
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
