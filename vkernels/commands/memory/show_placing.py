"""Calibrations and placements in words, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from math import isfinite
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from vkernels.runtime.memory.calibration import Calibration
from vkernels.runtime.memory.calibration_file import MACHINE
from vkernels.runtime.memory.placement.choose import Alternative, Choice, Decision
from vkernels.runtime.memory.placement.costs import Placement

from ..explain.words import bytes_in_words, printable, seconds_in_words

if TYPE_CHECKING:
    from vkernels.autotune.task import Task

LEGEND = (
    "Seconds of the whole call, if that tensor alone were placed otherwise. Bytes: of the memory that the device works "
    "in. ! does not fit the limit."
)


def show_calibration(console: Console, found: Calibration) -> None:
    """A line a figure; * is unverified."""
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
        console.print("  * rests on no measurement and no published figure")


def _access_rows(found: Calibration) -> Iterator[tuple[str, str]]:
    for each in fields(found.access) if found.access is not None else ():
        value = getattr(found.access, each.name)
        if hasattr(value, "__dataclass_fields__"):
            for part in fields(value):
                name = f"{each.name}.{part.name}"
                marked = name in found.unverified or each.name in found.unverified
                yield name + "*" * marked, _figure(part.name, getattr(value, part.name))
        else:
            yield each.name + "*" * (each.name in found.unverified), _figure(each.name, value)


def _figure(name: str, value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    number = float(value)  # type: ignore[arg-type]
    if name.endswith("seconds"):
        return seconds_in_words(number)
    if name.endswith("bytes"):
        return bytes_in_words(number)
    return f"{number / 1e9:.3g} GB/s" if isfinite(number) else "no end"


def show_decision(console: Console, task: Task, found: Calibration, decision: Decision) -> None:
    """A row for each tensor, and the sum."""
    console.print(printable(f"{task} on {found.target}, {found.origin}"), style="bold")
    table = _table("tensor", "bytes", "choice", *Placement, "takes")
    for choice in decision.choices:
        table.add_row(*_cells(choice))
    console.print(table)
    for choice in decision.choices:
        console.print(f"  {printable(choice.buffer)}: {choice.why}", soft_wrap=True)
    limit = "" if decision.limit is None else f" of {bytes_in_words(decision.limit)}"
    console.print(
        f"{seconds_in_words(decision.seconds)} in {bytes_in_words(decision.footprint)}{limit}; all copied: "
        f"{seconds_in_words(decision.copying_seconds)} in {bytes_in_words(decision.copying_footprint)}, "
        f"{decision.gain:.3g} times as long; {found.origin}",
        soft_wrap=True,
    )
    console.print(LEGEND, soft_wrap=True)


def _cells(choice: Choice) -> Iterator[str]:
    yield printable(choice.buffer)
    yield bytes_in_words(choice.size)
    yield choice.placement
    by_placement = {each.cost.placement: each for each in choice.alternatives}
    for placement in Placement:
        each = by_placement.get(placement)
        yield "–" if each is None else seconds_in_words(each.seconds) + "!" * (not each.fits)
    yield bytes_in_words(choice.cost.footprint)


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    for number, head in enumerate(heads):
        table.add_column(head, justify="right" if number and head != "choice" else "left", no_wrap=True)
    return table


def decision_to_json(decision: Decision) -> dict[str, Any]:
    """docs/json.md has the fields."""
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


def _alternative(each: Alternative) -> dict[str, Any]:
    cost = each.cost
    return {
        "placement": str(cost.placement), "seconds": each.seconds, "fits": each.fits,
        "moving_seconds": cost.moving, "access_seconds": sum(cost.memory) + sum(cost.link),
        "host_seconds": cost.host, "footprint_bytes": cost.footprint, "prefetched": cost.prefetched, "why": cost.why,
    }  # fmt: skip
