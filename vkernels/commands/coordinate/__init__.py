"""`vk coordinate`: who shares this machine's CPU, by priority."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..formatting import format_seconds
from ..options import Json
from ..plain_help import Commands
from ..results import check_writable, console_for, table_of, write_results

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from vkernels.runtime.coordinator.status import ProcessStatus

app = Commands(help="Show how processes share this machine's CPU by priority.", no_args_is_help=True)

LEAST_SECONDS = 0.1


@app.command()
def status(
    live: Annotated[bool, typer.Option("--live", help="Show it again and again, until interrupted.")] = False,
    every: Annotated[float, typer.Option(min=LEAST_SECONDS, help="Seconds between two views of `--live`.")] = 1.0,
    json: Json = None,
) -> None:
    """Show the processes of this user that use `vk.priority`: their calls by priority, who pauses for others, how
    their contracts of latency are kept, who runs beside whom, and gaps of GPUs that were filled.

    With `--live`, calls and seconds are those since the view before.
    """
    from vkernels.runtime.coordinator.status import process_statuses

    check_writable(json)
    console = console_for(json, is_wide=True)
    found = process_statuses(time.time())
    if live:
        found = _watch(found, every)
    elif found:
        console.print(view_of(found))
    else:
        console.print("no process of this user uses vk.priority")
    write_results(json, "coordinate status", processes=[_as_json(each) for each in found])


def _watch(found: list[ProcessStatus], every: float) -> list[ProcessStatus]:
    """Show what happens until the user interrupts it; returns the last status."""
    from rich.live import Live

    from vkernels.runtime.coordinator.status import process_statuses, since

    with Live(view_of(found), console=console_for(is_wide=True), auto_refresh=False) as view:
        try:
            while True:
                time.sleep(every)
                before, found = found, process_statuses(time.time())
                view.update(view_of(since(before, found)), refresh=True)
        except KeyboardInterrupt:
            return found


def view_of(found: list[ProcessStatus]) -> RenderableType:
    """Calls by priority, and below them contracts, who runs beside whom, and gaps filled, if there are any."""
    from rich.console import Group

    parts: list[RenderableType] = [table(found)]
    if any(each.contracts for each in found):
        parts += ["", contracts_table(found)]
    if any(each.companies for each in found):
        parts += ["", companies_table(found)]
    if filled := [each for each in found if each.fills]:
        parts += ["", *(f"{e.process}: {e.fills} gaps filled, {format_seconds(e.filled_seconds)}" for e in filled)]
    return parts[0] if len(parts) == 1 else Group(*parts)


def companies_table(found: list[ProcessStatus]) -> Table:
    """A line for each set of tasks that met within `vk.cohost`."""
    numbers = ("of all", "allowed", "gain", "decided")
    shown = table_of("process", "company", "run", "need", *numbers, right=("process", *numbers))
    for each in found:
        head = str(each.process)
        for company in each.companies:
            shown.add_row(
                head, " | ".join(company.kernels), "side by side" if company.is_beside else "in turns", company.what,
                f"{company.needed:.2f}", f"{1 + company.oversubscription:.2f}",
                "" if company.gain is None else f"{company.gain:.2f}", f"{company.beside} : {company.turns}",
            )  # fmt: skip
            head = ""
    return shown


def contracts_table(found: list[ProcessStatus]) -> Table:
    """A line for each contract of latency."""
    numbers = ("p99", "calls", "late", "longest", "broken")
    shown = table_of("process", "contract", "priority", *numbers, "beside", right=("process", *numbers))
    for each in found:
        head = str(each.process)
        for contract in each.contracts:
            shown.add_row(
                head, contract.kernel, contract.priority, format_seconds(contract.p99), str(contract.calls),
                str(contract.late), format_seconds(contract.longest), f"{contract.broken} of {contract.hundreds}",
                ", ".join(contract.beside),
            )  # fmt: skip
            head = ""
    return shown


def _as_json(status: ProcessStatus) -> dict[str, Any]:
    contracts = [{**asdict(each), "is_kept": each.is_kept} for each in status.contracts]
    return {**asdict(status), "contracts": contracts}


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
