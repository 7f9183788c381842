"""`vk targets`: list known devices, user-defined devices, and those of this machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Json
from .results import STANDARD_OUTPUT, check_writable, write_json

if TYPE_CHECKING:
    from rich.table import Table

    from vkernels.targets import Target

SCHEMA = 1

Own = Annotated[
    Path | None, typer.Option("--table", metavar="FILE.toml", help="Also list the devices that this file describes.")
]


Calibrate = Annotated[
    bool, typer.Option("--calibrate", help="Measure this machine's CPU first (some seconds) and save its rates.")
]


def targets(table: Own = None, json: Json = None, calibrate: Calibrate = False) -> None:
    """List the devices that kernels can be compiled for, those of this machine, and their slices."""
    check_writable(json)
    if calibrate:
        from vkernels.compiler.calibrate_cpu import calibrate_cpu

        calibrate_cpu(again=True)

    from vkernels.targets import known_targets, load_targets
    from vkernels.targets.slices import present_slices
    from vkernels.targets.table import known_sources

    own = load_targets(table) if table is not None else {}
    groups = {"present": present_slices(), "own": (*own.values(),), "known": (*known_targets().values(),)}
    _show(groups, to_errors=json == STANDARD_OUTPUT)
    if json is not None:
        lists = {group: [as_json(target) for target in members] for group, members in groups.items()}
        write_json(json, {"schema_version": SCHEMA, "command": "targets", **lists, "sources": dict(known_sources())})


def as_json(target: Target) -> dict[str, Any]:
    """Return a target's fields and the limits that planning uses."""
    from vkernels.targets import limits_of

    fields = dataclasses.asdict(target, dict_factory=_plain)
    return {**fields, "limits": dataclasses.asdict(limits_of(target))}


def _plain(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: str(value) if isinstance(value, Fraction) else value for name, value in pairs}


TITLES = {"present": "On this machine", "own": "Your own", "known": "Known"}
LEGEND = (
    "Shared memory: the most that one program can have. Registers: 32-bit registers of a multiprocessor (CPU: vector "
    "registers). On RDNA a multiprocessor is a work-group processor. Figures marked * are unverified."
)


def _show(groups: dict[str, tuple[Target, ...]], to_errors: bool) -> None:
    from rich.console import Console

    console = Console(stderr=to_errors, highlight=False, markup=False)
    for group, members in groups.items():
        if members:
            console.print(_devices(TITLES[group], members), "")
    cut = [target for members in groups.values() for target in members if target.slices]
    if cut:
        console.print(_slices(cut), "")
    console.print(LEGEND)


def _devices(title: str, members: Iterable[Target]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, title=title, title_justify="left", title_style="bold", pad_edge=False)
    table.add_column("target", no_wrap=True)
    table.add_column("device")
    table.add_column("archi-\ntecture", no_wrap=True)
    for column in ("multi-\nprocessors", "shared\nKiB", "registers", "memory\nGiB"):
        table.add_column(column, justify="right", no_wrap=True)
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
        table.add_row(*(Text(text + "*" * (field in target.unverified)) for field, text in shown.items()))
    return table


def _slices(members: Iterable[Target]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, title="Slices", title_justify="left", title_style="bold", pad_edge=False)
    table.add_column("target", no_wrap=True)
    table.add_column("can be cut into")
    for target in members:
        table.add_row(Text(target.key), Text("  ".join(f"{slice.most} × {slice.name}" for slice in target.slices)))
    return table


def _registers(target: Target) -> int:
    """Registers of a multiprocessor."""
    from vkernels.ir.occupancy import AmdSizes, NvidiaSizes

    sizes = target.sizes
    if isinstance(sizes, AmdSizes):
        return sizes.registers * sizes.warp * sizes.partitions
    return sizes.registers if isinstance(sizes, NvidiaSizes) else sizes.thread_registers
