"""The loops of a launch's binary on a device: what they issue, how often they run, and the bound that follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vkernels.ir.analysis.needs.device import UNKNOWN_TRIPS
from vkernels.ir.errors import FileError
from vkernels.ir.limits import Limits
from vkernels.ir.lowering.ttir.across_programs import FLATTEN

from .instructions import Kind
from .loop_use import LoopUse
from .match_loops import copied_bytes, parts_of_versions, trips_of
from .read_code import KernelCode
from .source_loops import Length, read_source
from .static_bound import LATENCY, TENSOR, LaunchWork, StaticBound, loop_cycles, static_bound


@dataclass(frozen=True)
class LoopReport:
    """One trip of an innermost loop, in one program.

    `cycles`: of one multiprocessor, by unit, and of one warp (`latency`). `trips`: in a program; None if unknown.
    `resident`: programs that take turns on a multiprocessor.
    """

    use: LoopUse
    trips: float | None
    cycles: Mapping[str, float]
    resident: int

    @property
    def slowest(self) -> float:
        """Cycles a trip of a program, at least."""
        units = max((each for name, each in self.cycles.items() if name != LATENCY), default=0.0)
        return max(units, self.cycles.get(LATENCY, 0.0) / max(1, self.resident))

    @property
    def tensor_share(self) -> float | None:
        """The part of its time in which a trip keeps the tensor cores busy, at most; None without them."""
        return self.cycles[TENSOR] / self.slowest if self.use.tensor and self.cycles.get(TENSOR) else None

    @property
    def bottleneck(self) -> str:
        """The unit that a trip needs longest."""
        return max((name for name in self.cycles if name != LATENCY), key=lambda name: self.cycles[name], default="")

    @property
    def text(self) -> str:
        """In a line: what a trip issues, and which unit it fills."""
        use, parts = self.use, []
        issued = f"{use.instructions} instructions"
        if use.warps:
            issued += f" in {use.warps} warps"
        if use.elected:
            issued += f" ({use.elected} more in one warp)"
        if use.tensor:
            issued += f" a {' + '.join(f'{each.count} {_name(each.opcode)} {each.shape}' for each in use.tensor)}"
        parts.append(issued)
        share = self.tensor_share
        parts.append(f"{self.bottleneck} busiest" if share is None else f"{share:.0%} tensor pipe")
        if use.spills:
            parts.append(f"{use.spills} spills")
        if self.trips is not None:
            parts.append(f"{self.trips:.6g} trips")
        return f"loop: {', '.join(parts)}"


def _name(opcode: str) -> str:
    return opcode.split(".")[0] if opcode[:1].isupper() else "_".join(opcode.split("_")[:2])


@dataclass(frozen=True)
class LaunchLoops:
    """`bound`: of the launch's time, without that of device memory; None where the number of programs, or how often a
    loop runs, is unknown. `resident`: programs that a multiprocessor has room for at once; `warps`: that it has at
    once."""

    loops: tuple[LoopReport, ...]
    bound: StaticBound | None
    resident: int = 1
    warps: int = 1


def launch_loops(
    code: KernelCode,
    text: str,
    limits: Limits,
    resident: int,
    grid: Sequence[int] | None = None,
    arguments: Mapping[str, int] | None = None,
    unknown_length: Length | None = UNKNOWN_TRIPS,
    parameters: Sequence[str] = (),
) -> LaunchLoops:
    """The loops of a binary, and the bound of a launch; none where Triton joins loops, whose parts run unequally often.

    `text`: the TTIR that the binary was compiled from. `resident`: programs on one multiprocessor. `grid`: programs by
    axis; without it there are no trips and no bound. `arguments`: integers that the launch passes, by name.
    `unknown_length`: of loops whose bounds are in memory. `parameters`: names of what a launch passes, in its order,
    where the text has lost them.
    """
    trips: list[float | None] = [None] * len(code.regions)
    copied, versions = [0.0] * len(code.regions), [1.0] * len(code.versions)
    work = None
    if grid is not None and FLATTEN not in text:
        programs = 1
        for side in grid:
            programs *= side
        moved = products = 0.0
        try:
            source = read_source(text)
        except FileError:  # no text of Triton's: nothing is known of trips
            pass
        else:
            given = arguments or {}
            if parameters:
                named = zip(source.parameters, parameters, strict=False)
                given = {here: given[name] for here, name in named if name in given}
            runs, entries = source.runs(given, grid, unknown_length)
            versions = parts_of_versions(code, source, entries)
            trips, copied = trips_of(code, source, runs), copied_bytes(code, source)
            loops = [(loop, often or 0.0) for loop, often in zip(source.loops, runs, strict=True)]
            moved = sum(often * (loop.read_bytes + loop.written_bytes) for loop, often in loops)
            products = sum(often * loop.multiply_adds for loop, often in loops)
        work = LaunchWork(programs, resident, moved * programs, multiply_adds=products)
    reports = tuple(
        LoopReport(region, often, loop_cycles(region, code, limits, moved), resident)
        for region, often, moved in zip(code.regions, trips, copied, strict=True)
        if region.parent is not None and region.is_innermost and often != 0
    )
    bound = None if work is None else static_bound(code, trips, work, limits, copied, versions)
    at_once = resident if work is None else min(resident, -(-work.programs // limits.multiprocessors))
    return LaunchLoops(reports, bound, resident, max(1, at_once) * code.warps)


def loops_as_json(found: LaunchLoops) -> dict[str, Any]:
    """The loops and the bound as plain data."""
    bound = found.bound
    return {
        "loops": [_loop_as_json(each) for each in found.loops],
        "bound": None
        if bound is None
        else {
            "seconds": bound.seconds, "bottleneck": bound.bottleneck, "parts": dict(bound.parts), "waves": bound.waves,
            "tensor_seconds": bound.tensor_seconds,
        },
    }  # fmt: skip


def _loop_as_json(each: LoopReport) -> dict[str, Any]:
    use = each.use
    return {
        "text": each.text, "first": use.first, "last": use.last, "trips": each.trips,
        "instructions": use.instructions, "elected": use.elected, "kinds": dict(use.kinds),
        "bytes_a_thread": dict(use.bytes), "spills": use.spills, "barriers": use.count(Kind.BARRIER),
        "waits": use.waits, "stall_cycles": use.stalls,
        "tensor": [
            {"opcode": one.opcode, "shape": str(one.shape), "dtype": one.shape.dtype, "count": one.count}
            for one in use.tensor
        ],
        "tensor_share": each.tensor_share, "bottleneck": each.bottleneck, "cycles": dict(each.cycles),
    }  # fmt: skip
