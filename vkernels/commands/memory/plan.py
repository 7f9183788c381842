"""`vk memory plan`: place a step's tensors in a pool, and schedule swaps if the device is too small."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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

if TYPE_CHECKING:
    from vkernels.memory.trace import MemoryTrace

ALIGNMENT = 512
"""Bytes, as in CUDA's allocators."""

Device = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Device memory, such as 40GiB. Schedules swaps if the step needs more."),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FILE", help="Write the schedule to this file, for `vk memory simulate`."),
]
Seconds = Annotated[float, typer.Option(min=0.0, max=3600.0, help="Time limit of the placement, in seconds.")]


def plan(
    trace: TraceFile,
    device: Device = None,
    host: Host = HOST,
    flash: Flash = UNLIMITED,
    link: Link = None,
    flash_link: FlashLink = None,
    calibration: Calibrated = None,
    out: Out = None,
    seconds: Seconds = 1.0,
    json: Json = None,
    html: Html = None,
) -> None:
    """Place a step's tensors in one pool; with --device also schedule which tensors are swapped out, and when.

    Both follow from the lifetimes of the tensors, which are known before the step runs.
    """
    from vkernels.ir.errors import OptionError

    for path in (out, json, html):
        check_writable(path)
    if device is None and (out is not None or html is not None):
        raise OptionError(
            f"{'--out' if out is not None else '--html'}: needs --device: without it there is no schedule"
        )
    machine = None if device is None else machine_from(device, host, flash, link, flash_link, calibration)

    from vkernels.memory.bound import lower_bound
    from vkernels.memory.pool import place_trace
    from vkernels.memory.schedule_file import save

    from .runs import OURS, ours
    from .show import machine_to_json, pool_to_json, run_to_json, show_pool, show_runs, show_trace, trace_to_json

    console = console_for(json)
    found = read_trace(trace)
    show_trace(console, found)
    with status_line(console, "placing tensors"):
        placed, others = place_trace(found, seconds, ALIGNMENT), allocators_for(found)
    show_pool(console, placed, others)
    more = {}
    if machine is not None:
        with status_line(console, "looking for a schedule") as tell:
            schedule, run = ours(found, machine, tell)
        bound = lower_bound(found, machine)
        if out is not None:
            save(schedule, out)
        show_runs(console, [(OURS, schedule, run)], found, bound)
        more = {"bound_seconds": bound.seconds, "run": run_to_json(OURS, found, schedule, run)}
        if html is not None:
            from .page import PageSubject, write_page

            write_page(html, PageSubject(found, machine, bound, ((OURS, schedule, run),)))
    write_result(
        json, "plan", trace=trace_to_json(found), pool=pool_to_json(placed, others),
        machine=None if machine is None else machine_to_json(machine), **{"bound_seconds": None, "run": None, **more},
    )  # fmt: skip


def allocators_for(trace: MemoryTrace) -> dict[str, int]:
    """Return the bytes that online allocators need, by name."""
    from vkernels.memory.replay import BestFitPool, CachingAllocator, replay

    blocks, count = trace.blocks(), len(trace.operations)
    return {
        "torch's allocator": replay(blocks, count, CachingAllocator()),
        "best fit": replay(blocks, count, BestFitPool()),
    }
