"""The charts of an explanation: needs beside limits, homes across phases, modelled times, occupancy, instructions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from vkernels.inspect.check.cells import CellLaunch
from vkernels.inspect.explain.explain import Explanation
from vkernels.inspect.explain.explanation import Kept, Modelled
from vkernels.ir.occupancy import AmdSizes, NvidiaSizes

from ..formatting import format_bytes, format_count, format_seconds
from ..html.charts import BarChart, BarRow, Segment


def phase_needs(found: Explanation) -> Iterator[BarChart]:
    """A chart for each resource: what each phase needs, on the scale of the limit."""
    limits, phases, totals = found.limits, found.findings.phases, found.findings.totals
    if totals is None:
        return
    kind = "Vector registers" if found.is_cpu else "Registers a thread"
    shared = [(p.name, p.shared_bytes + totals.scratch_bytes) for p in phases]
    yield _resource(kind, [(p.name, p.registers) for p in phases], limits.registers, format_count)
    yield _resource("Shared memory", shared, limits.shared, format_bytes)
    if limits.tensor_memory:
        columns = [(p.name, p.tensor_memory) for p in phases]
        yield _resource("Tensor memory, columns", columns, limits.tensor_memory, format_count)


def _resource(
    title: str, needs: Sequence[tuple[str, float]], limit: float, formatted: Callable[[float], str]
) -> BarChart:
    top = max([limit, *(need for _, need in needs)]) or 1.0
    rows = [
        BarRow(
            name,
            (
                Segment(limit / top, "room"),
                Segment(
                    need / top,
                    "over" if need > limit else "need",
                    f"{name}: {formatted(need)} of {formatted(limit)}",
                ),
            ),
            formatted(need),
            max(need, limit) / top,
        )
        for name, need in needs
    ]
    return BarChart(
        f"{title}: what each phase needs, beside the limit", rows, corner=title, limit=limit / top,
        heads=[(limit / top, f"limit {formatted(limit)}")],
    )  # fmt: skip


def homes_across_phases(found: Explanation) -> BarChart | None:
    """A column for each phase; a bar for each value, from where it is computed to its last use."""
    phases, kept = [phase.name for phase in found.findings.phases], found.findings.kept
    if not kept or not phases:
        return None
    heads = [((number + 0.5) / len(phases), name) for number, name in enumerate(phases)]
    rows = [BarRow(value.label, [_lifetime(value, phases)]) for value in kept]
    return BarChart("Where each value lives while phases run", rows, right=0, heads=heads, columns=len(phases))


def _lifetime(value: Kept, phases: Sequence[str]) -> Segment:
    first = phases.index(value.made) if value.made in phases else 0
    last = max((phases.index(name) for name in value.used if name in phases), default=len(phases) - 1)
    start, end = (min(first, last) + 0.5) / len(phases), (max(first, last) + 0.5) / len(phases)
    if value.kind == "scratchpad":
        start, end = 0.0, 1.0
    text = f"{value.home}, {format_bytes(value.bytes)}"
    return Segment(max(0.02, end - start), f"home {value.home}", f"{value.label}: {text} a program", start, text)


def times(modelled: Modelled, longest: float) -> BarChart:
    """A bar for each part of a modelled time, the longest first; `longest`: the seconds that fill the width."""
    parts = sorted({**modelled.parts, "launches": modelled.launches}.items(), key=lambda part: -part[1])
    top = max(longest, *(seconds for _, seconds in parts)) or 1.0
    kinds = {modelled.bottleneck: "bottleneck"}
    rows = [_time(name, seconds / top, seconds, kinds.get(name, "need")) for name, seconds in parts]
    total = _time("total, with overlap", modelled.seconds / top, modelled.seconds, "total")
    return BarChart("Modelled time by what takes it", [*rows, total])


def _time(name: str, part: float, seconds: float, kind: str) -> BarRow:
    text = format_seconds(seconds)
    return BarRow(name, [Segment(part, kind, text)], text, part, is_head=kind == "total")


def occupancy(found: Explanation, launch: CellLaunch) -> BarChart | None:
    """For each resource of a multiprocessor, the share that each resident program takes."""
    held = launch.occupancy
    if launch.use is None or held is None or not isinstance(found.target.sizes, NvidiaSizes | AmdSizes):
        return None
    rows = []
    for resource, bound in held.bounds.items():
        kind = "bottleneck" if resource in held.limited_by else "need"
        programs = [Segment(0.99 / bound, kind, start=n / bound) for n in range(held.blocks)] if bound else []
        room = Segment(1.0, "room" if bound else "over")
        rows.append(BarRow(resource, [room, *programs], f"{held.blocks} of {bound} programs", 1.0))
    return BarChart("Programs that one multiprocessor holds at once", rows)


def instruction_mix(launch: CellLaunch) -> BarChart | None:
    """A bar for each kind of instruction, on the scale of the commonest kind."""
    if launch.use is None:
        return None
    mix = {name.replace("_", " "): count for name, count in vars(launch.use.resources.mix).items() if count}
    total = mix.pop("instructions", 0)
    top = max(mix.values(), default=1)
    rows = []
    for name, count in mix.items():
        kind = "over" if name.startswith("spill") else "need"
        rows.append(
            BarRow(name, [Segment(count / top, kind, f"{count} of {total} instructions")], str(count), count / top)
        )
    return BarChart(f"Instructions by kind, of {total}", rows)
