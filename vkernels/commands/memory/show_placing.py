"""Print calibrations and placements, and return them as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins
from rich.console import Console
from rich.table import Table

from vkernels.memory.calibration import Calibration
from vkernels.memory.calibration_file import MACHINE
from vkernels.memory.placement.choose import AlternativePlacement, PlacementChoice, PlacementDecision
from vkernels.memory.placement.costs import BufferPlacement

from ..formatting import format_bytes, format_seconds, printable

if TYPE_CHECKING:
    from vkernels.inspect.task import Task

LEGEND = "Times: of the whole call if only that tensor were placed differently. !: exceeds the limit."


def show_calibration(console: Console, found: Calibration) -> None:
    """Print a calibration, a line for each figure; * marks unverified ones."""
    console.print(printable(f"{found.target}: {found.device}, {found.origin}"), style="bold")
    table = _table("", "machine")
    for name in MACHINE:
        value = getattr(found.machine, name)
        if value is not None and not name.startswith("fault"):
            table.add_row(name + "*" * (name in found.unverified), _figure(name, value))
    console.print(table)
    if found.access is not None:
        table = _table("", "access")
        for name, text in _access_rows(found):
            table.add_row(name, text)
        console.print(table)
    if found.unverified:
        console.print("  * neither measured nor published")


def _access_rows(found: Calibration) -> Iterator[tuple[str, str]]:
    for name, value in to_builtins(found.access).items():
        if not isinstance(value, dict):
            yield name + "*" * (name in found.unverified), _figure(name, value)
            continue
        for part, figure in value.items():
            is_unverified = name in found.unverified or f"{name}.{part}" in found.unverified
            yield f"{name}.{part}" + "*" * is_unverified, _figure(part, figure)


def _figure(name: str, value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    number = float(value)  # type: ignore[arg-type]
    if name.endswith("seconds"):
        return format_seconds(number)
    if name.endswith("bytes"):
        return format_bytes(number)
    return f"{number / 1e9:.3g} GB/s" if isfinite(number) else "unlimited"


def show_decision(console: Console, task: Task, found: Calibration, decision: PlacementDecision) -> None:
    """Print a decision, a row for each tensor."""
    console.print(printable(f"{task} on {found.target}, {found.origin}"), style="bold")
    table = _table("tensor", "bytes", "choice", *BufferPlacement, "takes")
    for choice in decision.choices:
        table.add_row(*_cells(choice))
    console.print(table)
    for choice in decision.choices:
        console.print(f"  {printable(choice.buffer)}: {choice.why}", soft_wrap=True)
    limit = "" if decision.limit is None else f" of {format_bytes(decision.limit)}"
    console.print(
        f"{format_seconds(decision.seconds)} in {format_bytes(decision.footprint)}{limit}; all copied: "
        f"{format_seconds(decision.copying_seconds)} in {format_bytes(decision.copying_footprint)}, "
        f"{decision.gain:.3g} times as long; {found.origin}",
        soft_wrap=True,
    )
    console.print(LEGEND, soft_wrap=True)


def _cells(choice: PlacementChoice) -> Iterator[str]:
    yield printable(choice.buffer)
    yield format_bytes(choice.size)
    yield choice.placement
    by_placement = {each.cost.placement: each for each in choice.alternatives}
    for placement in BufferPlacement:
        each = by_placement.get(placement)
        yield "–" if each is None else format_seconds(each.seconds) + "!" * (not each.fits)
    yield format_bytes(choice.cost.footprint)


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    for number, head in enumerate(heads):
        table.add_column(head, justify="right" if number and head != "choice" else "left", no_wrap=True)
    return table


def decision_to_json(decision: PlacementDecision) -> dict[str, Any]:
    """Return a decision as JSON; docs/json.md documents the fields."""
    return {
        "seconds": decision.seconds, "footprint_bytes": decision.footprint, "limit_bytes": decision.limit,
        "copying_seconds": decision.copying_seconds, "copying_footprint_bytes": decision.copying_footprint,
        "tensors": [
            {
                "tensor": each.buffer, "bytes": each.size, "placement": str(each.placement), "why": each.why,
                "footprint_bytes": each.cost.footprint,
                "alternatives": [_alternative(other) for other in each.alternatives],
            }
            for each in decision.choices
        ],
    }  # fmt: skip


def _alternative(each: AlternativePlacement) -> dict[str, Any]:
    cost = each.cost
    return {
        "placement": str(cost.placement), "seconds": each.seconds, "fits": each.fits,
        "moving_seconds": cost.moving, "access_seconds": sum(cost.memory) + sum(cost.link),
        "host_seconds": cost.host, "footprint_bytes": cost.footprint, "prefetched": cost.prefetched, "why": cost.why,
    }  # fmt: skip
