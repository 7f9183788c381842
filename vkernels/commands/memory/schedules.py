"""`vk memory plan` and `simulate`: pools, schedules and their simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

from rich.console import Console

from vkernels.ir.errors import MemoryPlanError, OptionError
from vkernels.memory import schedule_file
from vkernels.memory.bound import lower_bound
from vkernels.memory.exchanges import after_backward, gradient_exchanges
from vkernels.memory.links import MemoryMachine
from vkernels.memory.placed import placed_pieces, placed_tensors
from vkernels.memory.pool import place_trace
from vkernels.memory.schedule import SwapSchedule
from vkernels.memory.schedule_check import check_possible
from vkernels.memory.simulate import SimulatedRun
from vkernels.memory.simulate import simulate as simulated
from vkernels.memory.snapshots import write_snapshot
from vkernels.memory.strategies import PUBLISHED, search
from vkernels.memory.strategies.search import JudgedSchedule
from vkernels.memory.trace import MemoryTrace

from ..formatting import format_bytes, format_seconds, plural
from ..results import check_writable
from .offset_map import OffsetMap
from .options import (
    MachineOptions,
    console_for,
    machine_from,
    read_problem,
    read_trace,
    size_from,
    status_line,
    write_result,
)
from .page import PageSubject, write_map, write_page
from .problems import ALIGNMENT, PLACING_SECONDS, PlanOutputs, allocators_for, plan_problem, problem_of
from .show import (
    machine_to_json,
    pool_to_json,
    run_to_json,
    show_pool,
    show_runs,
    show_trace,
    trace_text,
    trace_to_json,
)

GIVEN, OURS = "given", "ours"


def plan(
    path: Path, device: str | None, machine_options: MachineOptions, outputs: PlanOutputs, seconds: float | None
) -> None:
    """Place a step's tensors in a pool; with a device also schedule swaps. Blocks without operations are placed."""
    out, json, html, snapshot = outputs
    for each in outputs:
        check_writable(each)
    problem = read_problem(path, device)
    if problem is not None:
        plan_problem(problem, path, seconds, outputs)
        return
    if device is None and out is not None:
        raise OptionError("--out: needs --device: without it there is no schedule")
    machine = None if device is None else machine_from(device, *machine_options)
    seconds = PLACING_SECONDS if seconds is None else seconds

    console = console_for(json)
    found = read_trace(path)
    show_trace(console, found)
    with status_line(console, "placing tensors"):
        placed, others = place_trace(found, seconds, ALIGNMENT), allocators_for(problem_of(found))
    show_pool(console, placed, others)
    blocks = [*placed_tensors(found, placed.offsets)]
    times = [*accumulate((op.seconds for op in found.operations), initial=0.0)]
    more = {}
    if machine is not None:
        with status_line(console, "looking for a schedule") as tell:
            schedule, run = ours(found, machine, tell)
        bound = lower_bound(found, machine)
        if out is not None:
            schedule_file.save(schedule, out)
        show_runs(console, [(OURS, schedule, run)], found, bound)
        more = {"bound_seconds": bound.seconds, "run": run_to_json(OURS, found, schedule, run)}
        if html is not None or snapshot is not None:
            blocks, times = placed_pieces(found, schedule, seconds, ALIGNMENT), _times(run)
        if html is not None:
            map_ = OffsetMap(blocks, times, capacity=machine.device_bytes)
            write_page(html, PageSubject(found, machine, bound, ((OURS, schedule, run),), map=map_))
    elif html is not None:
        sizes = {"pool": placed.footprint, **others}
        write_map(html, found.name, trace_text(found), OffsetMap(blocks, times), sizes, placed.peak)
    if snapshot is not None:
        write_snapshot(snapshot, blocks, len(found.operations), times)
    for each in (out, html, snapshot):
        if each is not None:
            console.print(f"written to {each}", soft_wrap=True)
    write_result(
        json, "plan", trace=trace_to_json(found), problem=None, pool=pool_to_json(placed, others),
        machine=None if machine is None else machine_to_json(machine), **{"bound_seconds": None, "run": None, **more},
    )  # fmt: skip


def _times(run: SimulatedRun) -> list[float]:
    """When each operation starts, and when the last ends."""
    assert run.timeline is not None
    return [*run.timeline.starts, run.seconds]


@dataclass(frozen=True)
class LinkOptions:
    """What the links can do: the values of --fault, --gpu-direct, --host-flash and --translation."""

    fault: str
    gpu_direct: bool
    host_flash: bool
    translation: float

    def on(self, machine: MemoryMachine) -> MemoryMachine:
        """Return the machine with these. Raises `OptionError`."""
        machine = replace(machine, fault_bytes=size_from(self.fault, "--fault"), translation_seconds=self.translation)
        machine = machine.with_moves() if self.host_flash else machine
        return machine if self.gpu_direct else machine.staged()


def simulate(
    trace: Path, schedule: Path | None, device: str, machine_options: MachineOptions, links: LinkOptions,
    all_reduce: str | None, json: Path | None, html: Path | None,
) -> None:  # fmt: skip
    """Simulate a step under a schedule, or under every strategy; `all_reduce`: on two devices, too."""
    check_writable(json)
    check_writable(html)
    machine = links.on(machine_from(device, *machine_options))

    console = console_for(json)
    found = read_trace(trace)
    given = None if schedule is None else schedule_file.load(schedule)
    refused: dict[str, str] = {}
    show_trace(console, found)
    if given is not None:
        runs = [(GIVEN, given, simulated(found, given, machine, timeline=True))]
    else:
        with status_line(console, "simulating") as report:
            runs, refused = all_strategies(found, machine, report)
    bound = lower_bound(found, machine)
    show_runs(console, runs, found, bound)
    for name, reason in refused.items():
        console.print(f"{name}: {reason}", soft_wrap=True)
    pairs = None if all_reduce is None else [*on_two_devices(console, runs, found, machine, all_reduce)]
    if html is not None:
        blocks = placed_pieces(found, runs[-1][1], PLACING_SECONDS, ALIGNMENT)
        map_ = OffsetMap(blocks, _times(runs[-1][2]), capacity=machine.device_bytes)
        write_page(html, PageSubject(found, machine, bound, tuple(runs), map=map_))
    write_result(
        json, "simulate", trace=trace_to_json(found), machine=machine_to_json(machine), bound_seconds=bound.seconds,
        runs=[run_to_json(name, found, each, run) for name, each, run in runs],
        refused=[{"name": name, "reason": reason} for name, reason in refused.items()], two_devices=pairs,
    )  # fmt: skip


def on_two_devices(
    console: Console, runs: Sequence[tuple[str, SwapSchedule, SimulatedRun]], trace: MemoryTrace,
    machine: MemoryMachine, named: str,
) -> Iterator[dict[str, str | float]]:  # fmt: skip
    """Simulate the schedules on two devices that exchange gradients during backward or after it; print and return."""
    exchanges = gradient_exchanges(trace, named)
    if not exchanges:
        raise OptionError(f"--all-reduce: no tensor with {named!r} in its name is read after it is written")
    size = sum(trace.tensors[each.tensor].size for each in exchanges)
    console.print(f"two devices that exchange {plural(len(exchanges), 'gradient')}, {format_bytes(size)}:")
    for name, schedule, run in runs:
        found = [simulated(trace, schedule, machine, exchanges=each).seconds
                 for each in (exchanges, after_backward(exchanges))]  # fmt: skip
        console.print(
            f"  {name}: {format_seconds(found[0])} during backward, {format_seconds(found[1])} after it, "
            f"{format_seconds(run.seconds)} alone",
            soft_wrap=True,
        )
        yield {"name": name, "seconds": found[0], "after_backward_seconds": found[1]}


def ours(
    trace: MemoryTrace, machine: MemoryMachine, report: Callable[[str], None]
) -> tuple[SwapSchedule, SimulatedRun]:
    """Search for a schedule and simulate it with its timeline. Raises `MemoryPlanError` if there is none."""
    tried, best = 0, 0.0

    def judged(each: JudgedSchedule) -> None:
        nonlocal tried, best
        tried += 1
        best = max(best, trace.seconds / each.seconds if each.seconds else 1.0)
        report(f"looking for a schedule: {tried} tried, the best at {best:.4f} of the ideal")

    schedule = search(trace, machine, on_judged=judged)
    return schedule, simulated(trace, schedule, machine, timeline=True)


def all_strategies(
    trace: MemoryTrace, machine: MemoryMachine, report: Callable[[str], None]
) -> tuple[list[tuple[str, SwapSchedule, SimulatedRun]], dict[str, str]]:
    """Simulate every published strategy and our own; also return the strategies that failed, with the reason.

    Raises `MemoryPlanError` if no schedule is possible.
    """
    check_possible(trace, machine)
    found, refused = [], {}
    for name, strategy in PUBLISHED.items():
        report(f"simulating {name}")
        try:
            schedule = strategy(trace, machine)
            found.append((name, schedule, simulated(trace, schedule, machine, timeline=True)))
        except MemoryPlanError as error:
            refused[name] = str(error)
    return [*found, (OURS, *ours(trace, machine, report))], refused
