"""`vk memory record`: record one iteration of a torch program as a trace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..results import check_writable
from .options import Json, console_for, status_line, write_result
from .step_file import step_error, step_named

if TYPE_CHECKING:
    from vkernels.memory.trace import MemoryTrace

Step = Annotated[
    str, typer.Argument(metavar="FILE.py:FUNCTION", help="FUNCTION() runs one iteration; the file is executed first.")
]
Out = Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Output file; compressed if it ends in .gz.")]
WarmUp = Annotated[int, typer.Option(min=0, help="Iterations to run before recording.")]


def record(step: Step, out: Out = Path("trace.json.gz"), warm_up: WarmUp = 1, json: Json = None) -> None:
    """Run iterations of a torch program, and record the memory use of one."""
    check_writable(out)
    check_writable(json)
    from vkernels.memory.trace_file import save

    from .show import show_trace, trace_to_json

    console = console_for(json)
    with status_line(console, "running the file") as report:
        trace = recorded(step, warm_up, report)
    save(trace, out)
    show_trace(console, trace)
    console.print(f"  written to {out}")
    write_result(json, "record", file=str(out), trace=trace_to_json(trace))


def recorded(named: str, warm_up: int, report: Callable[[str], None]) -> MemoryTrace:
    """Record FILE.py:FUNCTION. Raises `OptionError` for an unknown function, `FileError` with the line that failed, and
    `TraceError` if iterations differ."""
    from vkernels.ir.errors import Error
    from vkernels.memory.record import record

    path, name, step = step_named(named)
    number = 0

    def counted() -> None:
        nonlocal number
        number += 1
        report(f"iteration {number} of {warm_up + 2}{'' if number <= warm_up else ', recorded'}")
        step()

    try:
        return record(counted, name, warm_up)
    except Error:
        raise
    except Exception as error:
        raise step_error(path, name, error) from error
