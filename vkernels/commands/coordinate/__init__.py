"""`vk coordinate`: who shares this machine's CPU, by priority."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from ..options import Json
from ..results import check_writable, console_for, table_of, write_results

if TYPE_CHECKING:
    from rich.table import Table

    from vkernels.runtime.coordinator.status import ProcessStatus

app = typer.Typer(help="Show how processes share this machine's CPU by priority.", no_args_is_help=True)

LEAST_SECONDS = 0.1


@app.command()
def status(
    live: Annotated[bool, typer.Option("--live", help="Show it again and again, until interrupted.")] = False,
    every: Annotated[float, typer.Option(min=LEAST_SECONDS, help="Seconds between two views of `--live`.")] = 1.0,
    json: Json = None,
) -> None:
    """Show the processes of this user that use `vk.priority`: their calls by priority, and who pauses for others.

    With `--live`, calls and seconds are those since the view before.
    """
    from vkernels.runtime.coordinator.status import process_statuses

    check_writable(json)
    console = console_for(json, is_wide=True)
    found = process_statuses(time.time())
    if live:
        found = _watch(found, every)
    elif found:
        console.print(table(found))
    else:
        console.print("no process of this user uses vk.priority")
    write_results(json, "coordinate status", processes=[asdict(each) for each in found])


def _watch(found: list[ProcessStatus], every: float) -> list[ProcessStatus]:
    """Show what happens until the user interrupts it; returns the last status."""
    from rich.live import Live

    from vkernels.runtime.coordinator.status import process_statuses, since

    with Live(table(found), console=console_for(is_wide=True), auto_refresh=False) as view:
        try:
            while True:
                time.sleep(every)
                before, found = found, process_statuses(time.time())
                view.update(table(since(before, found)), refresh=True)
        except KeyboardInterrupt:
            return found


def table(found: list[ProcessStatus]) -> Table:
    """A line for each process and priority that did anything, or does; one for a process that did nothing."""
    numbers = ("cores", "at work", "calls", "of the time", "paused", "pauses", "paused for")
    shown = table_of("process", "", "for", "cores", "priority", *numbers[1:], right=("process", "for", *numbers))
    for each in found:
        head = [str(each.process), each.name, f"{each.elapsed:.0f} s", str(len(each.cores))]
        used = [level for level in each.levels if level.calls or level.at_work or level.paused]
        for level in used:
            shown.add_row(
                *head, level.priority, str(level.at_work), str(level.calls), f"{100 * level.of_the_time:.1f} %",
                str(level.paused), str(level.pauses), f"{level.paused_seconds:.2f} s",
            )  # fmt: skip
            head = [""] * len(head)
        if not used:
            shown.add_row(*head, "no calls")
    return shown
