"""`vk memory simulate`: simulate a step on a device with less memory than it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..results import check_writable
from .options import (
    HOST,
    UNLIMITED,
    Calibrated,
    Flash,
    FlashLink,
    Host,
    Html,
    Json,
    Link,
    TraceFile,
    console_for,
    machine_from,
    read_trace,
    status_line,
    write_result,
)

GIVEN = "given"
ScheduleFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="[SCHEDULE]", help="File written by `vk memory plan --out`. Default: simulate every strategy."
    ),
]
Device = Annotated[str, typer.Option(metavar="SIZE", help="Device memory.")]


def simulate(
    trace: TraceFile,
    schedule: ScheduleFile = None,
    device: Device = "40GiB",
    host: Host = HOST,
    flash: Flash = UNLIMITED,
    link: Link = None,
    flash_link: FlashLink = None,
    calibration: Calibrated = None,
    json: Json = None,
    html: Html = None,
) -> None:
    """Simulate a step under a schedule, or under every strategy: re-implemented published ones and our own.

    Nothing is executed. The --html report shows an iteration under the last schedule.
    """
    check_writable(json)
    check_writable(html)
    machine = machine_from(device, host, flash, link, flash_link, calibration)

    from vkernels.memory import simulate as simulator
    from vkernels.memory.bound import lower_bound
    from vkernels.memory.schedule_file import load

    from .runs import all_strategies
    from .show import machine_to_json, run_to_json, show_runs, show_trace, trace_to_json

    console = console_for(json)
    found = read_trace(trace)
    given = None if schedule is None else load(schedule)
    refused: dict[str, str] = {}
    show_trace(console, found)
    if given is not None:
        runs = [(GIVEN, given, simulator.simulate(found, given, machine, timeline=True))]
    else:
        with status_line(console, "simulating") as report:
            runs, refused = all_strategies(found, machine, report)
    bound = lower_bound(found, machine)
    show_runs(console, runs, found, bound)
    for name, reason in refused.items():
        console.print(f"{name}: {reason}", soft_wrap=True)
    if html is not None:
        from .page import PageSubject, write_page

        write_page(html, PageSubject(found, machine, bound, tuple(runs)))
    write_result(
        json, "simulate", trace=trace_to_json(found), machine=machine_to_json(machine), bound_seconds=bound.seconds,
        runs=[run_to_json(name, found, each, run) for name, each, run in runs],
        refused=[{"name": name, "reason": reason} for name, reason in refused.items()],
    )  # fmt: skip
