"""The page: a step's iteration on a device with too little memory, moment by moment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vkernels.ir.write_file import write_file
from vkernels.runtime.memory.bound import Bound
from vkernels.runtime.memory.links import ANY_SIZE, Machine
from vkernels.runtime.memory.schedule import Schedule
from vkernels.runtime.memory.simulate import Run
from vkernels.runtime.memory.trace import Trace

from ..explain.html.markup import paragraph, table, tag, text
from ..explain.html.style import STYLE
from ..explain.words import bytes_in_words, seconds_in_words
from ..report.page import POLICY
from ..report.style import MORE_STYLE
from .drawings import memory_over_time, transfers_over_time, waits_over_time
from .show import HEADS, bound_in_words, rows_of, trace_in_words

MOST = 12
"""Rows of a table."""
OWN_STYLE = ".live{fill:none;stroke:var(--total);stroke-width:1.2}.here{fill:var(--need);fill-opacity:.55}"
OWN_STYLE += ".host{fill:none;stroke:#2b8a3e;stroke-width:1.6}.out{fill:var(--hot)}.back{fill:var(--need)}"


@dataclass(frozen=True)
class Subject:
    """What the page is about. `runs`: by name; the last, which has its timeline, is drawn. `said`: where it is from."""

    trace: Trace
    machine: Machine
    bound: Bound
    runs: tuple[tuple[str, Schedule, Run], ...]
    said: str = "Simulated, not run."


def write_page(path: Path, subject: Subject) -> None:
    """Raises as `write_file`."""
    write_file(path, page_of(subject))


def page_of(subject: Subject) -> str:
    """The whole page."""
    trace, machine = subject.trace, subject.machine
    name, schedule, run = subject.runs[-1]
    title = f"Memory of {trace.name}"
    host = bytes_in_words(machine.host_bytes) if machine.host_bytes < ANY_SIZE else "as much as it takes"
    where = f"A device of {bytes_in_words(machine.device_bytes)}, a host of {host}."
    drawn = f"An iteration under {name}: {seconds_in_words(run.seconds)}, {run.fraction:.4f} of the ideal time."
    steady = "" if run.steady else "Iterations did not settle: the next one may look different."
    body = [
        paragraph(f"{trace_in_words(trace)}. {where} {subject.said}"),
        table(HEADS, rows_of(subject.runs, trace)),
        paragraph(f"{bound_in_words(trace, subject.bound)}."),
        _section("Memory", drawn, memory_over_time(trace, machine, run)) + paragraph(steady, "bad"),
        _section("Transfers", "What each link carries, and when.", transfers_over_time(trace, schedule, run)),
        _section("Waits", _waiting(run), waits_over_time(trace, run) + _longest_waits(trace, run)),
        _section("Away", "Tensors that leave the device, largest first.", _absences(trace, schedule)),
    ]
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><title>{text(title)}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}{MORE_STYLE}{OWN_STYLE}</style></head>\n<body><main><h1>{text(title)}</h1>"
        f"{''.join(body)}</main></body></html>\n"
    )


def _section(title: str, said: str, inside: str) -> str:
    return f"<section>{tag('h2', text(title))}{paragraph(said, 'about')}{inside}</section>\n"


def _waiting(run: Run) -> str:
    waiting = sum(run.stalls)
    if not waiting:
        return "No operation waits."
    return f"Operations wait {seconds_in_words(waiting)} altogether for tensors to come, or for room."


def _longest_waits(trace: Trace, run: Run) -> str:
    longest = sorted((at for at, wait in enumerate(run.stalls) if wait), key=lambda at: -run.stalls[at])[:MOST]
    rows = [(at, trace.operations[at].name, seconds_in_words(run.stalls[at])) for at in longest]
    return table(("operation", "", "waits"), rows) if rows else ""


def _absences(trace: Trace, schedule: Schedule) -> str:
    largest = sorted(schedule.absences, key=lambda each: -trace.tensors[each.tensor].size)
    rows = []
    for each in largest[:MOST]:
        tensor = trace.tensors[each.tensor]
        copied = "kept" if each.copy is None else each.copy
        rows.append((tensor.name, bytes_in_words(tensor.size), each.tier, copied, each.leave, each.back, each.next))
    heads = ("tensor", "size", "to", "copied after", "leaves after", "fetched before", "needed by")
    more = len(largest) - len(rows)
    return table(heads, rows) + paragraph(f"and {more} more" if more > 0 else "")
