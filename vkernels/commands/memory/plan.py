"""`vk memory plan`: a pool for a step's tensors, and a schedule where the device has less than that."""

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
    telling,
    write_result,
)

if TYPE_CHECKING:
    from vkernels.runtime.memory.trace import Trace

ALIGNMENT = 512
"""Bytes: what CUDA's allocators align to."""

Device = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Of the device: 40GiB. A schedule is made where the step needs more.")
]
Out = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write the schedule there, for `vk memory simulate`.")
]
Seconds = Annotated[float, typer.Option(min=0.0, max=3600.0, help="What placing may take.")]


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
    """Give a step's tensors offsets in one pool, and with --device say which leave it, when, and when they come back.

    Both from the step's lifetimes, which are known before it runs.
    """
    from vkernels.ir.errors import OptionError

    for path in (out, json, html):
        check_writable(path)
    if device is None and (out is not None or html is not None):
        raise OptionError(f"{'--out' if out is not None else '--html'}: there is no schedule without --device")
    machine = None if device is None else machine_from(device, host, flash, link, flash_link, calibration)

    from vkernels.runtime.memory.bound import lower_bound
    from vkernels.runtime.memory.pool import place_trace
    from vkernels.runtime.memory.schedule_file import save

    from .results import machine_to_json, pool_to_json, run_to_json, trace_to_json
    from .runs import OURS, ours
    from .show import show_pool, show_runs, show_trace

    console = console_for(json)
    found = read_trace(trace)
    show_trace(console, found)
    with telling(console, "placing tensors"):
        placed, others = place_trace(found, seconds, ALIGNMENT), allocators_for(found)
    show_pool(console, placed, others)
    more = {}
    if machine is not None:
        with telling(console, "looking for a schedule") as tell:
            schedule, run = ours(found, machine, tell)
        bound = lower_bound(found, machine)
        if out is not None:
            save(schedule, out)
        show_runs(console, [(OURS, schedule, run)], found, bound)
        more = {"bound_seconds": bound.seconds, "run": run_to_json(OURS, found, schedule, run)}
        if html is not None:
            from .page import Subject, write_page

            write_page(html, Subject(found, machine, bound, ((OURS, schedule, run),)))
    write_result(
        json, "plan", trace=trace_to_json(found), pool=pool_to_json(placed, others),
        machine=None if machine is None else machine_to_json(machine), **{"bound_seconds": None, "run": None, **more},
    )  # fmt: skip


def allocators_for(trace: Trace) -> dict[str, int]:
    """Bytes that allocators take which do not know lifetimes, by name."""
    from vkernels.runtime.memory.replay import replay
    from vkernels.runtime.memory.replay_allocators import BestFitPool, CachingAllocator

    blocks, count = trace.blocks(), len(trace.operations)
    return {
        "torch's allocator": replay(blocks, count, CachingAllocator()),
        "best fit": replay(blocks, count, BestFitPool()),
    }
