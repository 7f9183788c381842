"""`vk memory run`: a training step under a limit for real, beside itself without one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import zip_longest
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..exits import Code
from ..results import check_writable
from .options import Calibrated, Html, Json, console_for, size_from, telling, write_result
from .record import Step
from .twins import Twin, same_bits, storages, tensors_of

if TYPE_CHECKING:
    from rich.console import Console

    from vkernels.memory import Limited, Report

Bytes = Annotated[
    str, typer.Option("--bytes", metavar="SIZE", help="Of the device: 4GiB, or 60% of what the step has live at once.")
]
Host = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Of the host, for what is away; as many as it takes unless said.")
]
Flash = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where a file takes what the host has no room for.")]
Calls = Annotated[int, typer.Option(min=1, max=1_000_000, help="That follow the plan, after those that make it.")]
UNPLANNED = 3
"""Calls before the first that follows a plan."""
RETRIES = 8


@dataclass
class Ran:
    """What the calls came to. `report`: of the limited step; `own`: seconds of each operation, of each call that
    followed the plan. `plain`: seconds of each call without a limit. `compared`: tensors."""

    limited: Limited[[], Any]
    report: Report
    own: list[tuple[float, ...]] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)
    compared: int = 0
    same: bool = True


def run(
    step: Step,
    limit: Bytes,
    host: Host = None,
    flash: Flash = None,
    calls: Calls = 20,
    calibration: Calibrated = None,
    json: Json = None,
    html: Html = None,
) -> None:
    """Run a torch program's iteration with and without a limit in turns: is it the same, bit by bit, and how fast?

    The file is executed for each of the two, with the same seeds. Exit code 1: bits differ, or no call followed a plan.
    """
    check_writable(json)
    check_writable(html)
    host_bytes = None if host is None else size_from(host, "--host")

    from vkernels.runtime.memory.calibration_file import load
    from vkernels.runtime.memory.following import simulated
    from vkernels.runtime.memory.limit import LINKS
    from vkernels.runtime.memory.limit import limit as limit_step

    from .results import run_to_json, trace_to_json

    console = console_for(json)
    links = LINKS if calibration is None else load(calibration).machine
    with telling(console, "running the file") as tell:
        size = _bytes(limit, step, tell)
        under = partial(limit_step, bytes=size, host_bytes=host_bytes, flash=flash, links=links)
        ran = _in_turns(Twin(step), Twin(step), under, calls, tell)
    layout, report = ran.limited.layout, ran.report
    one = None
    if layout is not None:
        own = [median(each) for each in zip(*ran.own, strict=True)]
        one = simulated(layout, own or None, timeline=True)
    show(console, step, size, ran)
    if html is not None and one is not None:
        _draw(html, layout, one)
    write_result(
        json, "run", bytes=size, calls=report.calls, same=ran.same if ran.compared else None, compared=ran.compared,
        trace=None if layout is None else trace_to_json(layout.trace), report=asdict(report),
        plain_seconds=median(ran.plain),
        run=None if one is None else run_to_json("ours", layout.trace, layout.schedule, one),
    )  # fmt: skip
    if not ran.same or not report.planned:
        raise SystemExit(Code.FINDING)


def _bytes(text: str, named: str, tell: Callable[[str], None]) -> int:
    """A size, or a part of the peak, for which the program is recorded. Raises `OptionError`."""
    from vkernels.ir.errors import OptionError
    from vkernels.runtime.memory.record import record

    if not text.endswith("%"):
        return size_from(text, "--bytes")
    try:
        part = float(text.removesuffix("%")) / 100
    except ValueError:
        part = 0.0
    if not 0 < part <= 100:
        raise OptionError(f"--bytes: expected a size as 4GiB, or a part of the peak as 60%, got {text!r}")
    tell("looking at what the step has live at once")
    twin = Twin(named)
    return int(record(twin, twin.name).peak * part)


def _in_turns(
    plain: Twin, other: Twin, under: Callable[..., Limited[[], Any]], calls: int, tell: Callable[[str], None]
) -> Ran:
    limited = under(other.step)
    ran = Ran(limited, limited.report)
    try:
        number = 0
        while limited.report.planned < calls and number < calls + UNPLANNED + RETRIES:
            number += 1
            tell(f"call {number} of {calls + UNPLANNED}" + ("" if number > UNPLANNED else ": without a plan"))
            begun = time.perf_counter()
            expected = plain()
            ran.plain.append(time.perf_counter() - begun)
            if number == UNPLANNED + 1:
                tell("making a plan")
            _compare(ran, expected, other(limited))
        ran.report, ran.own = limited.report, [times.own for times in limited.times]
        tell("comparing all that a call touches")
        _compare_touched(ran, plain, other)
    finally:
        limited.close()
    return ran


def _compare_touched(ran: Ran, plain: Twin, other: Twin) -> None:
    """One call more, which is not counted: what the files hold by name, and what else the step's operations are given
    and leave behind, be it in an object of the program's own."""
    from vkernels.runtime.memory.touched import Touched

    touched = Touched(), Touched()
    with touched[0]:
        expected = plain()
    with touched[1]:
        found = other(ran.limited)
    _compare(ran, expected, found)
    one, two = list(plain.state()), list(other.state())
    _compare(ran, one, two)
    del expected, found
    named = [frozenset(storages(each)) for each in (one, two)]
    for mine, others in zip_longest(*(each.contents(but) for each, but in zip(touched, named, strict=True))):
        ran.compared += 1
        ran.same = ran.same and mine is not None and others is not None and same_bits([mine], [others])


def _compare(ran: Ran, expected: Any, found: Any) -> None:
    one, two = list(tensors_of(expected)), list(tensors_of(found))
    ran.compared += len(one)
    ran.same = ran.same and same_bits(one, two)


def show(console: Console, named: str, size: int, ran: Ran) -> None:
    """In words."""
    from ..explain.words import bytes_in_words, counted, printable, seconds_in_words

    report = ran.report
    console.print(printable(named), style="bold")
    same = f"{counted(ran.compared, 'tensor')} compared: {'the same bits' if ran.same else 'BITS DIFFER'}"
    console.print(
        f"  {same if ran.compared else 'the step gives no tensors, and the file holds none: nothing compared'}"
    )
    away = [
        f"{bytes_in_words(each)} on {where}" for where, each in (("the host", report.host), ("flash", report.flash))
    ]
    console.print(
        f"  {bytes_in_words(report.peak)} live at once, an arena of {bytes_in_words(report.arena)} within "
        f"{bytes_in_words(size)}; {', '.join(away)}",
        soft_wrap=True,
    )
    console.print(
        f"  {counted(report.calls, 'call')}, {report.planned} of them by the plan, {report.changed} left it",
        soft_wrap=True,
    )
    if report.why:
        console.print(f"  the last one that did: {printable(report.why)}", soft_wrap=True)
    if report.planned:
        moved = [bytes_in_words(each // report.planned) for each in (report.out_bytes, report.back_bytes)]
        ratio = f", {report.seconds / report.simulated_seconds:.2f} of it" if report.simulated_seconds else ""
        console.print(
            f"  a call: {moved[0]} out, {moved[1]} back; {seconds_in_words(median(ran.plain))} plainly, "
            f"{seconds_in_words(report.simulated_seconds)} simulated, "
            f"{seconds_in_words(report.seconds)} measured{ratio}",
            soft_wrap=True,
        )
        console.print(
            f"  strays: {report.strays}, tensors that got memory of their own: {report.escapes}", soft_wrap=True
        )


def _draw(path: Path, layout: Any, one: Any) -> None:
    from vkernels.runtime.memory.bound import lower_bound

    from .page import Subject, write_page

    bound = lower_bound(layout.trace, layout.machine)
    said = "Simulated with the times of the calls that ran."
    write_page(path, Subject(layout.trace, layout.machine, bound, (("limit", layout.schedule, one),), said))
