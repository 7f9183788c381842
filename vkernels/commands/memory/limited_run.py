"""`vk memory run`: run a training step under a memory limit, and compare it with an unlimited run."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import zip_longest
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from vkernels.ir.errors import OptionError
from vkernels.memory import Limited, Report, calibration_file
from vkernels.memory import limit as limit_step
from vkernels.memory.bound import lower_bound
from vkernels.memory.byte_sizes import parse_share
from vkernels.memory.following import simulated
from vkernels.memory.limit import LINKS
from vkernels.memory.op_tracer import Touched
from vkernels.memory.placed import named_pieces
from vkernels.memory.record import record

from ..exits import Code
from ..formatting import format_bytes, format_seconds, plural, printable
from ..results import check_writable
from .offset_map import OffsetMap
from .options import console_for, size_from, status_line, write_result
from .page import PageSubject, write_page
from .show import run_to_json, trace_to_json
from .step_file import Twin, same_bits, storages, tensors_of

UNPLANNED = 3
"""Calls before the first planned one."""
RETRIES = 24
"""Further calls, in which a period of several may be found."""


@dataclass
class MemoryRun:
    """Results of the calls. `report`: of the limited step. `own`: seconds of each operation of each planned call.
    `plain`: seconds of each unlimited call. `compared`: number of tensors."""

    limited: Limited[[], Any]
    report: Report
    own: list[tuple[float, ...]] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)
    compared: int = 0
    same: bool = True
    usual: UsualRun | None = None


@dataclass(frozen=True)
class UsualRun:
    """Calls as `limit` runs them by default, after those that it records. Seconds of a call; None: it has had none.
    `watched`: whether these follow a plan, or run on demand."""

    seconds: float | None
    plain_seconds: float
    watched: bool


def run(
    step: str, limit: str, host: str | None, flash: Path | None, calls: int, calibration: Path | None,
    json: Path | None, html: Path | None,
) -> None:  # fmt: skip
    """Run a program with and without a limit, and compare results bit by bit."""
    check_writable(json)
    check_writable(html)
    host_bytes = None if host is None else size_from(host, "--host")

    console = console_for(json)
    links = LINKS if calibration is None else calibration_file.load(calibration).machine
    with status_line(console, "running the file") as tell:
        size = _bytes(limit, step, tell)
        under = partial(limit_step, bytes=size, host_bytes=host_bytes, flash=flash, links=links)
        measured = _interleaved(Twin(step), Twin(step), partial(under, strict=True), calls, tell)
        measured.usual = _as_usual(measured, Twin(step), Twin(step), under, calls, tell)
    layout, report = measured.limited.layout, measured.report
    simulation = None
    if layout is not None:
        own = [median(each) for each in zip(*measured.own, strict=True)]
        simulation = simulated(layout, own or None, timeline=True)
    show(console, step, size, measured)
    if html is not None and simulation is not None:
        _draw(html, layout, simulation)
    write_result(
        json, "run", bytes=size, calls=report.calls, same=measured.same if measured.compared else None,
        compared=measured.compared,
        trace=None if layout is None else trace_to_json(layout.trace), report=asdict(report),
        plain_seconds=median(measured.plain), usual=asdict(measured.usual),
        run=None if simulation is None else run_to_json("ours", layout.trace, layout.schedule, simulation),
    )  # fmt: skip
    if not measured.same or not report.planned:
        raise SystemExit(Code.FINDING)


def _bytes(text: str, named: str, tell: Callable[[str], None]) -> int:
    """Parse a size or a share of the peak; the latter records the program. Raises `OptionError`."""

    if not text.endswith("%"):
        return size_from(text, "--bytes")
    part = parse_share(text)
    if part is None:
        raise OptionError(f"--bytes: expected a size such as 4GiB, or a share of the peak such as 60%, got {text!r}")
    tell("measuring the peak")
    twin = Twin(named)
    return int(record(twin, twin.name).peak * part)


def _interleaved(
    plain: Twin, other: Twin, under: Callable[..., Limited[[], Any]], calls: int, tell: Callable[[str], None]
) -> MemoryRun:
    limited = under(other.step)
    measured = MemoryRun(limited, limited.report)
    try:
        number = 0
        while limited.report.planned < calls and number < calls + UNPLANNED + RETRIES:
            number += 1
            tell(f"call {number} of {calls + UNPLANNED}" + ("" if number > UNPLANNED else ": without a plan"))
            begun = time.perf_counter()
            expected = plain()
            measured.plain.append(time.perf_counter() - begun)
            if number == UNPLANNED + 1:
                tell("making a plan")
            _compare(measured, expected, other(limited))
        measured.report, measured.own = limited.report, [times.own for times in limited.times]
        tell("comparing all tensors that a call touches")
        _compare_touched(measured, plain, other)
    finally:
        limited.close()
    return measured


def _as_usual(
    measured: MemoryRun, plain: Twin, other: Twin, under: Callable[..., Limited[[], Any]], calls: int,
    tell: Callable[[str], None],
) -> UsualRun:  # fmt: skip
    """Time calls as they are by default: not watched, where they keep the limit so."""
    limited, number, planned = under(other.step), 0, 0
    times: tuple[list[float], list[float]] = [], []
    try:
        while planned < calls and number < calls + UNPLANNED + RETRIES:
            number += 1
            tell(f"call {number} as by default")
            begun = time.perf_counter()
            expected = plain()
            between = time.perf_counter()
            found = other(limited)
            took, before, planned = time.perf_counter() - between, planned, limited.report.planned
            if planned > before:
                times[0].append(took)
            times[1].append(between - begun)
            _compare(measured, expected, found)
        is_watched = limited.layout is not None or not planned
    finally:
        limited.close()
    return UsualRun(median(times[0]) if times[0] else None, median(times[1]), is_watched)


def _compare_touched(measured: MemoryRun, plain: Twin, other: Twin) -> None:
    """Make one more call, and compare all tensors that the files name or that the step's operations touch."""

    touched = Touched(), Touched()
    with touched[0]:
        expected = plain()
    with touched[1]:
        found = other(measured.limited)
    _compare(measured, expected, found)
    states = list(plain.state()), list(other.state())
    _compare(measured, *states)
    del expected, found
    named = [frozenset(storages(each)) for each in states]
    for ours, theirs in zip_longest(*(each.contents(but) for each, but in zip(touched, named, strict=True))):
        measured.compared += 1
        measured.same = measured.same and ours is not None and theirs is not None and same_bits([ours], [theirs])


def _compare(measured: MemoryRun, expected: Any, found: Any) -> None:
    tensors = list(tensors_of(expected)), list(tensors_of(found))
    measured.compared += len(tensors[0])
    measured.same = measured.same and same_bits(*tensors)


def show(console: Console, named: str, size: int, measured: MemoryRun) -> None:
    """Print the results."""

    report = measured.report
    console.print(printable(named), style="bold")
    same = f"{plural(measured.compared, 'tensor')} compared: {'the same bits' if measured.same else 'BITS DIFFER'}"
    console.print(
        f"  {same if measured.compared else 'nothing compared: the step returns no tensors, and the file holds none'}"
    )
    away = [f"{format_bytes(each)} on {where}" for where, each in (("the host", report.host), ("flash", report.flash))]
    console.print(
        f"  {format_bytes(report.peak)} live at once, an arena of {format_bytes(report.arena)} within "
        f"{format_bytes(size)}; {', '.join(away)}",
        soft_wrap=True,
    )
    console.print(
        f"  {plural(report.calls, 'call')}, {report.planned} followed the plan, {report.changed} deviated from it",
        soft_wrap=True,
    )
    if report.why:
        console.print(f"  the last deviation: {printable(report.why)}", soft_wrap=True)
    usual = measured.usual
    if usual is not None and usual.seconds is not None:
        how = "they follow the plan" if usual.watched else "they are not watched"
        console.print(
            f"  calls by default: {format_seconds(usual.seconds)}, {usual.seconds / usual.plain_seconds:.2f} times "
            f"those without a limit; {how}",
            soft_wrap=True,
        )
    if report.planned:
        moved = [format_bytes(each // report.planned) for each in (report.out_bytes, report.back_bytes)]
        ratio = f", {report.seconds / report.simulated_seconds:.2f} times that" if report.simulated_seconds else ""
        console.print(
            f"  every operation watched, a call: {moved[0]} out, {moved[1]} back; "
            f"{format_seconds(median(measured.plain))} without a limit, "
            f"{format_seconds(report.simulated_seconds)} simulated, "
            f"{format_seconds(report.seconds)} measured{ratio}",
            soft_wrap=True,
        )
        console.print(
            f"  accesses outside the plan: {report.strays}, tensors allocated outside the arena: {report.escapes}",
            soft_wrap=True,
        )


def _draw(path: Path, layout: Any, simulation: Any) -> None:

    bound = lower_bound(layout.trace, layout.machine)
    said = "Simulated with the measured times of the calls."
    blocks, times = [*named_pieces(layout.trace, layout.pieces)], [*simulation.timeline.starts, simulation.seconds]
    subject = PageSubject(
        layout.trace, layout.machine, bound, (("limit", layout.schedule, simulation),), said,
        OffsetMap(blocks, times, capacity=layout.machine.device_bytes),
    )  # fmt: skip
    write_page(path, subject)
