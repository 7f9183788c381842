"""What is drawn to scale: needs beside limits, homes across phases, times, and what a multiprocessor holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vkernels.ir.planning.occupancy import AmdSizes, NvidiaSizes, Occupancy
from vkernels.runtime.checking.cells import Launch
from vkernels.runtime.explaining.explain import Explanation
from vkernels.runtime.explaining.explained import Kept, Modelled

from ..words import bytes_in_words, count_in_words, seconds_in_words
from .markup import bar, label, line, svg

WIDE, LEFT, ROW = 760.0, 150.0, 26.0
LONGEST = WIDE - LEFT - 130


def phase_needs(found: Explanation) -> str:
    """For each resource a bar a phase, all on the scale of the limit."""
    limits, phases, totals = found.limits, found.findings.phases, found.findings.totals
    if totals is None:
        return ""
    kind = "Vector registers" if found.is_cpu else "Registers a thread"
    lasting = totals.scratch_bytes
    drawn = [
        _resource(kind, [(p.name, p.registers) for p in phases], limits.registers, count_in_words),
        _resource("Shared memory", [(p.name, p.shared_bytes + lasting) for p in phases], limits.shared, bytes_in_words),
    ]
    if limits.tensor_memory:
        columns = [(p.name, p.tensor_memory) for p in phases]
        drawn.append(_resource("Tensor memory, columns", columns, limits.tensor_memory, count_in_words))
    return "".join(drawn)


def _resource(title: str, needs: Sequence[tuple[str, float]], limit: float, words: Callable[[float], str]) -> str:
    top = max([limit, *(need for _, need in needs)]) or 1.0
    at_limit = LEFT + limit / top * LONGEST
    shapes = [label(0, 16, title, "head"), label(at_limit, 16, f"limit {words(limit)}", "small", "middle")]
    for number, (name, need) in enumerate(needs):
        y = 24 + number * ROW
        kind = "over" if need > limit else "need"
        shapes += [
            label(0, y + 15, name, most=20),
            bar(LEFT, y + 3, at_limit - LEFT, ROW - 8, "room"),
            bar(LEFT, y + 3, need / top * LONGEST, ROW - 8, kind, f"{name}: {words(need)} of {words(limit)}"),
            label(LEFT + max(need / top * LONGEST, at_limit - LEFT) + 6, y + 16, words(need), "small"),
        ]
    bottom = 24 + len(needs) * ROW
    shapes.append(line(at_limit, 20, at_limit, bottom, "limit"))
    return svg(WIDE, bottom + 8, shapes, f"{title}: what each phase needs, beside the limit")


def homes_across_phases(found: Explanation) -> str:
    """A column for each phase; a line for each value, from where it is made to where it is last used."""
    phases = [phase.name for phase in found.findings.phases]
    kept = found.findings.kept
    if not kept or not phases:
        return ""
    step = (WIDE - LEFT) / len(phases)
    height = 34 + len(kept) * ROW
    shapes = []
    for number, name in enumerate(phases):
        x = LEFT + number * step
        shapes += [bar(x + 1, 22, step - 2, height - 22, "column"), label(x + step / 2, 15, name, "head", "middle", 16)]
    for number, value in enumerate(kept):
        shapes += _value(value, phases, step, 34 + number * ROW)
    return svg(WIDE, height + 4, shapes, "Where each value lives while phases run")


def _value(value: Kept, phases: Sequence[str], step: float, y: float) -> list[str]:
    first = phases.index(value.made) if value.made in phases else 0
    used = [phases.index(name) for name in value.used if name in phases]
    last = max(used, default=len(phases) - 1)
    low, high = min(first, last), max(first, last)
    x, end = LEFT + (low + 0.5) * step, LEFT + (high + 0.5) * step
    if value.kind == "scratchpad":
        x, end = LEFT + 4, LEFT + len(phases) * step - 4
    said = f"{value.label}: {value.home}, {bytes_in_words(value.bytes)} a program"
    middle = (x + end) / 2
    return [
        label(0, y + 15, value.label, most=20),
        bar(x, y + 2, max(8.0, end - x), ROW - 8, f"home {value.home}", said),
        label(middle, y + 16, f"{value.home}, {bytes_in_words(value.bytes)}", "small", "middle"),
    ]


def times(modelled: Modelled, most: float) -> str:
    """A bar for each part of a time, the longest first; `most`: the seconds that fill the width."""
    parts = sorted({**modelled.parts, "launches": modelled.launches}.items(), key=lambda each: -each[1])
    top = max(most, *(seconds for _, seconds in parts)) or 1.0
    shapes = []
    for number, (name, seconds) in enumerate([*parts, ("all together", modelled.seconds)]):
        kind = "total" if name == "all together" else "bottleneck" if name == modelled.bottleneck else "need"
        y = number * ROW
        shapes += [
            label(0, y + 15, name, "head" if kind == "total" else ""),
            bar(LEFT, y + 3, seconds / top * LONGEST, ROW - 8, kind, seconds_in_words(seconds)),
            label(LEFT + seconds / top * LONGEST + 6, y + 16, seconds_in_words(seconds), "small"),
        ]
    return svg(WIDE, (len(parts) + 1) * ROW + 4, shapes, "Modelled time by what takes it")


def occupancy(found: Explanation, launch: Launch) -> str:
    """One multiprocessor: of each resource what the programs that it holds take, a piece a program."""
    sizes = found.target.sizes
    if launch.use is None or launch.occupancy is None or not isinstance(sizes, NvidiaSizes | AmdSizes):
        return ""
    held, shapes = launch.occupancy, []
    for number, (resource, bound) in enumerate(held.bounds.items()):
        y = number * ROW
        kind = "bottleneck" if resource in held.limited_by else "need"
        piece = LONGEST / bound if bound else LONGEST
        shapes += [label(0, y + 15, resource), bar(LEFT, y + 3, LONGEST, ROW - 8, "room")]
        shapes += _pieces(held, piece, y, kind) if bound else [bar(LEFT, y + 3, LONGEST, ROW - 8, "over")]
        shapes.append(label(LEFT + LONGEST + 6, y + 16, f"{held.blocks} of {bound} programs", "small"))
    return svg(WIDE, len(held.bounds) * ROW + 4, shapes, "Programs that one multiprocessor holds at once")


def _pieces(held: Occupancy, piece: float, y: float, kind: str) -> list[str]:
    return [bar(LEFT + n * piece, y + 3, max(1.0, piece - 1), ROW - 8, kind) for n in range(held.blocks)]


def instruction_mix(launch: Launch) -> str:
    """A bar for each kind of instruction, on the scale of the commonest kind."""
    if launch.use is None:
        return ""
    mix = {name.replace("_", " "): count for name, count in vars(launch.use.resources.mix).items() if count}
    total = mix.pop("instructions", 0)
    top = max(mix.values(), default=1)
    shapes = []
    for number, (name, count) in enumerate(mix.items()):
        y = number * ROW
        kind = "over" if name.startswith("spill") else "need"
        shapes += [
            label(0, y + 15, name),
            bar(LEFT, y + 3, count / top * LONGEST, ROW - 8, kind, f"{count} of {total} instructions"),
            label(LEFT + count / top * LONGEST + 6, y + 16, count, "small"),
        ]
    return svg(WIDE, max(1, len(mix)) * ROW + 4, shapes, f"Instructions by kind, of {total}")
