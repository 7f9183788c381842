"""`vk memory plan` for blocks without operations: MiniMalloc's problems, and histories of torch's allocator."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from vkernels.ir.errors import OptionError
from vkernels.memory.imports import Problem, write_minimalloc
from vkernels.memory.placed import placed_problem
from vkernels.memory.pool import PoolPlacement, place
from vkernels.memory.replay import BestFitPool, CachingAllocator, replay
from vkernels.memory.snapshots import RecordedHistory, write_snapshot
from vkernels.memory.trace import MemoryTrace

from ..exits import Code
from ..formatting import format_bytes, plural, printable
from .offset_map import OffsetMap
from .options import console_for, status_line, write_result
from .page import write_map
from .show import pool_to_json, show_pool

ALIGNMENT = 512
"""Bytes, as in CUDA's allocators."""
PLACING_SECONDS, FITTING_SECONDS = 1.0, 10.0
"""Default time limit of a placement: as small as possible, or within a capacity."""
TORCH, BEST_FIT = "torch's allocator", "best fit"


class PlanOutputs(NamedTuple):
    """Files to write: the schedule, results, a report, and the pool as a snapshot of torch's allocator."""

    out: Path | None
    json: Path | None
    html: Path | None
    snapshot: Path | None


def plan_problem(found: Problem | RecordedHistory, path: Path, seconds: float | None, outputs: PlanOutputs) -> None:
    """Place blocks in a pool, within the capacity if there is one. Exits with a finding if they do not fit."""
    out, json, html, snapshot = outputs
    problem, reserved = (found.problem, found.reserved) if isinstance(found, RecordedHistory) else (found, None)
    if out is not None and reserved is not None:
        raise OptionError("--out: a snapshot has no operations to schedule; --snapshot writes the pool")
    console = console_for(json)
    console.print(printable(problem.name), style="bold")
    with status_line(console, "placing blocks"):
        placed, allocators = _placed(problem, seconds), allocators_for(problem)
    if reserved is not None:
        allocators[TORCH] = reserved
    summary = _summary(problem, placed)
    console.print(f"  {summary}", soft_wrap=True)
    show_pool(console, placed, allocators)
    _show_capacity(console, problem, placed)
    blocks = [*placed_problem(problem, placed.offsets)]
    if out is not None:
        write_minimalloc(path, out, placed.offsets)
    moments = [float(each) for each in range(problem.count + 1)]
    if snapshot is not None:
        write_snapshot(snapshot, blocks, problem.count, moments)
    if html is not None:
        sizes = {"pool": placed.footprint, **allocators}
        write_map(
            html, problem.name, summary, OffsetMap(blocks, moments, "moments", problem.capacity), sizes, placed.peak
        )
    for each in (out, html, snapshot):
        if each is not None:
            console.print(f"written to {each}", soft_wrap=True)
    fits = problem.capacity is None or placed.footprint <= problem.capacity
    write_result(
        json, "plan", trace=None, pool=pool_to_json(placed, allocators), machine=None, bound_seconds=None, run=None,
        problem={
            "name": problem.name, "blocks": len(problem.blocks), "moments": problem.count,
            "capacity_bytes": problem.capacity, "fits": fits,
        },
    )  # fmt: skip
    if not fits:
        raise SystemExit(Code.FINDING)


def _placed(problem: Problem, seconds: float | None) -> PoolPlacement:
    """Place blocks; offsets are aligned unless there is a capacity, which counts bytes."""
    if problem.capacity is None:
        seconds = PLACING_SECONDS if seconds is None else seconds
        return place(problem.blocks, problem.count, None, seconds, ALIGNMENT)
    seconds = FITTING_SECONDS if seconds is None else seconds
    return place(problem.blocks, problem.count, problem.capacity, seconds)


def problem_of(trace: MemoryTrace) -> Problem:
    """Return a trace's blocks without its operations."""
    return Problem(trace.name, trace.blocks(), len(trace.operations))


def allocators_for(problem: Problem) -> dict[str, int]:
    """Return the bytes that online allocators need, by name."""
    return {
        TORCH: replay(problem.blocks, problem.count, CachingAllocator()),
        BEST_FIT: replay(problem.blocks, problem.count, BestFitPool()),
    }


def _summary(problem: Problem, placed: PoolPlacement) -> str:
    return (
        f"{plural(len(problem.blocks), 'block')} over {plural(problem.count, 'moment')}; "
        f"{format_bytes(placed.peak)} live at once"
    )


def _show_capacity(console: Console, problem: Problem, placed: PoolPlacement) -> None:
    if problem.capacity is None:
        return
    capacity = f"the capacity of {format_bytes(problem.capacity)}"
    if placed.footprint <= problem.capacity:
        console.print(f"  fits within {capacity}")
    elif placed.is_smallest or placed.peak > problem.capacity:
        console.print(f"  cannot fit within {capacity}")
    else:
        console.print(f"  no offsets found within {capacity}; --seconds gives the search more time", soft_wrap=True)
