"""`vk targets`: list known devices, user-defined devices, and those of this machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vkernels.ir.occupancy import AmdSizes, NvidiaSizes
from vkernels.targets import Target, known_targets, limits_of, load_targets
from vkernels.targets.slices import present_slices
from vkernels.targets.table import known_sources

from .options import Json
from .results import check_writable, console_for, table_of, write_results

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Own = Annotated[
    Path | None, typer.Option("--table", metavar="FILE.toml", help="Also list the devices that this file describes.")
]


Calibrate = Annotated[
    bool, typer.Option("--calibrate", help="Measure this machine's CPU first (some seconds) and save its rates.")
]


def targets(table: Own = None, json: Json = None, calibrate: Calibrate = False) -> None:
    """List the devices that kernels can be compiled for, those of this machine, and their slices."""
    check_writable(json)
    console = console_for(json)
    if calibrate:
        _calibrate(console)

    own = load_targets(table) if table is not None else {}
    groups = {"present": present_slices(), "own": (*own.values(),), "known": (*known_targets().values(),)}
    _show(groups, console)
    lists = {group: [as_json(target) for target in members] for group, members in groups.items()}
    write_results(json, "targets", **lists, sources=dict(known_sources()))


def _calibrate(console: Console) -> None:
    """Measure the CPU, and show its rates beside those that are assumed without."""
    from vkernels.compiler.calibrate_cpu import measure_and_store
    from vkernels.runtime.launch_cost import measure_launch
    from vkernels.targets.cpu_rates import CpuRates, family_cpu_rates

    found, assumed = measure_and_store(launch=measure_launch), family_cpu_rates()
    figures = ("measured", "assumed")
    table = table_of("rate", *figures, "", right=figures, title="This machine's CPU")
    for field in dataclasses.fields(CpuRates):
        unit, scale, words = RATES[field.name]
        values = (f"{getattr(rates, field.name) / scale:.3g}" for rates in (found.rates, assumed))
        table.add_row(words, *values, unit)
    console.print(table)
    if found.disturbed:
        console.print("Not saved: other work disturbed the measurement. Run this again when the machine is idle.")
    elif not found.stored:
        console.print("Not saved: the cache folder cannot be written.")
    console.print("")


RATES = {
    "clock": ("GHz", 1e9, "clock"),
    "memory": ("GB/s", 1e9, "memory, all cores"),
    "core_memory": ("GB/s", 1e9, "memory, one core"),
    "cache": ("GB/s", 1e9, "L3, all cores"),
    "core_cache": ("GB/s", 1e9, "L3, one core"),
    "shared": ("GB/s", 1e9, "L2, all cores"),
    "multiply_adds": ("G/s", 1e9, "multiply-adds of float32, all cores"),
    "register_bytes": ("bytes", 1, "vectors"),
    "loads": ("a cycle", 1, "vectors loaded"),
    "stores": ("a cycle", 1, "vectors stored"),
    "latency": ("cycles", 1, "latency of a multiply-add"),
    "stored_2": ("bytes read", 1, "a byte written to L2"),
    "stored_3": ("bytes read", 1, "a byte written to L3"),
    "stored": ("bytes read", 1, "a byte written to memory"),
    "past_3": ("bytes read", 1, "a byte stored past the caches, for L3"),
    "past": ("bytes read", 1, "a byte stored past the caches, for memory"),
    "past_3_alone": ("bytes read", 1, "the same by one core, for L3"),
    "past_alone": ("bytes read", 1, "the same by one core, for memory"),
    "past_store": ("cycles", 1, "a store past the caches, not hidden"),
    "past_straight": ("cycles", 1, "the same in straight code"),
    "waited_3": ("", 1, "part of L3's time in which instructions wait"),
    "waited": ("", 1, "part of memory's time in which instructions wait"),
    "cache_share": ("", 1, "part of L3 that a process finds its own"),
    "own": ("", 1, "part of L2 that loses half of what is used again"),
    "gradual": ("", 1, "part of that by which losses begin sooner, and end later"),
    "apart": ("cycles", 1, "an element of a vector that is loaded from several rows"),
    "store_apart": ("cycles", 1, "an element of a vector that is stored to several rows"),
    "apart_narrow": ("cycles", 1, "an element of two bytes that is loaded into a lane by itself"),
    "store_apart_narrow": ("cycles", 1, "an element of two bytes that is stored from a lane by itself"),
    "apart_alone": ("", 1, "part of the time of such elements without arithmetic"),
    "found": ("cycles", 1, "an element found by an index"),
    "index": ("cycles", 1, "an index"),
    "masked": ("cycles", 1, "a mask of a vector's access"),
    "across": ("cycles", 1, "each halving when a vector's lanes are added up"),
    "atomic": ("cycles", 1, "an atomic addition"),
    "atomic_far": ("cycles", 1, "an atomic addition beyond L2, more"),
    "update": ("cycles", 1, "an addition to memory"),
    "update_far": ("cycles", 1, "an addition to memory beyond L2, more"),
    "hop": ("cycles", 1, "a line on another page beyond L2, more than beside others"),
    "line_3": ("cycles", 1, "a line of L3 in no order, more than beside others"),
    "line": ("cycles", 1, "a line of memory in no order, more than beside others"),
    "lost_3": ("cycles", 1, "a line of L3, for each of many rows beside one another"),
    "lost": ("cycles", 1, "a line of memory, for each of many rows beside one another"),
    "streams": ("", 1, "rows beside one another that prefetchers follow"),
    "pages": ("", 1, "pages whose places a core knows"),
    "fetched_store": ("cycles", 1, "a line stored in short rows on other pages, more than beside others"),
    "begun_3": ("cycles", 1, "a row of L3 that begins beside others"),
    "begun": ("cycles", 1, "a row of memory that begins beside others"),
    "contended": ("cycles", 1, "an atomic addition to a line that another core has"),
    "way": ("KiB", 1024, "bytes after which addresses share places in L2 (of the system)"),
    "buffered": ("", 1, "stores that a core holds (of the family)"),
    "crossed": ("cycles", 1, "a vector loaded from two lines"),
    "doubled": ("cycles", 1, "each doubling when a vector's lanes are scanned"),
    "carried": ("cycles", 1, "from one vector of a scan to the next"),
    "divided": ("cycles", 1, "a remainder of 64-bit integers"),
    "mispredicted": ("cycles", 1, "a branch that is not foreseen"),
    "widened": ("cycles", 1, "extending a vector of 16-bit elements beside multiply-adds"),
    "shuffled": ("cycles", 1, "interleaving two vectors"),
    "packed": ("cycles", 1, "packing an element, beyond its bytes"),
    "packed_turned": ("cycles", 1, "packing an element that is turned, beyond its bytes"),
    "worded": ("cycles", 1, "packing a word of narrow elements, beyond its bytes"),
    "matrix_row": ("cycles", 1, "a row of a matrix unit's product"),
    "matrix_latency": ("cycles", 1, "a matrix unit's product that adds to the sums of the last one"),
    "settled": ("cycles", 1, "from a matrix unit's operand in memory to a vector of its sums"),
    "given_back": ("cycles", 1, "a row of a matrix unit's sums, stored and loaded"),
    "staged": ("cycles", 1, "a row stored for a matrix unit, and loaded by it"),
    "chunked": ("", 1, "part longer for each doubling of what is stored at once"),
    "passed": ("cycles", 1, "a line of L2 that a matrix unit loads from rows apart, more than side by side"),
    "reshaped": ("cycles", 1, "setting up a matrix unit's registers"),
    "launch": ("µs", 1e-6, "handing a launch to threads that wait for it"),
    "wake": ("µs", 1e-6, "handing a launch to threads that sleep"),
}
"""Unit, scale and words of each rate."""


def as_json(target: Target) -> dict[str, Any]:
    """Return a target's fields and the limits that planning uses."""
    fields = dataclasses.asdict(target, dict_factory=_plain)
    return {**fields, "limits": dataclasses.asdict(limits_of(target))}


def _plain(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: str(value) if isinstance(value, Fraction) else value for name, value in pairs}


TITLES = {"present": "On this machine", "own": "Your own", "known": "Known"}
LEGEND = (
    "Shared memory: the most that one program can have. Registers: 32-bit registers of a multiprocessor (CPU: vector "
    "registers). On RDNA a multiprocessor is a work-group processor. Figures marked * are unverified."
)


def _show(groups: dict[str, tuple[Target, ...]], console: Console) -> None:
    for group, members in groups.items():
        if members:
            console.print(_devices(TITLES[group], members), "")
    cut = [target for members in groups.values() for target in members if target.slices]
    if cut:
        table = table_of("target", "can be cut into", whole=["target"], title="Slices")
        for target in cut:
            table.add_row(target.key, "  ".join(f"{slice.most} × {slice.name}" for slice in target.slices))
        console.print(table, "")
    console.print(LEGEND)


def _devices(title: str, members: Iterable[Target]) -> Table:
    figures = ("multi-\nprocessors", "shared\nKiB", "registers", "memory\nGiB")
    architecture = "archi-\ntecture"
    whole = ("target", architecture, *figures)
    table = table_of("target", "device", architecture, *figures, right=figures, whole=whole, title=title)
    for target in members:
        shown = {
            "key": target.key,
            "name": target.name,
            "architecture": target.architecture,
            "multiprocessors": f"{target.multiprocessors}",
            "block_shared": f"{target.sizes.block_shared / 1024:.4g}",
            "registers": f"{_registers(target)}",
            "memory": f"{target.memory / 2**30:.4g}",
        }
        table.add_row(*(text + "*" * (field in target.unverified) for field, text in shown.items()))
    return table


def _registers(target: Target) -> int:
    sizes = target.sizes
    if isinstance(sizes, AmdSizes):
        return sizes.registers * sizes.warp * sizes.partitions
    return sizes.registers if isinstance(sizes, NvidiaSizes) else sizes.thread_registers
