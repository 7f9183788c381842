"""`vk memory record`: one iteration of a torch program as a trace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..results import check_writable
from .options import Json, console_for, telling, write_result

if TYPE_CHECKING:
    from vkernels.runtime.memory.trace import Trace

Step = Annotated[
    str, typer.Argument(metavar="FILE.py:FUNCTION", help="FUNCTION() runs one iteration; the file is executed first.")
]
Out = Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Where to; packed where it ends in .gz.")]
WarmUp = Annotated[int, typer.Option(min=0, help="Iterations that are run before it is watched.")]


def record(step: Step, out: Out = Path("trace.json.gz"), warm_up: WarmUp = 1, json: Json = None) -> None:
    """Run a torch program's iteration, watch it, and write what it does with memory."""
    check_writable(out)
    check_writable(json)
    from vkernels.runtime.memory.trace_file import save

    from .results import trace_to_json
    from .show import show_trace

    console = console_for(json)
    with telling(console, "running the file") as tell:
        trace = recorded(step, warm_up, tell)
    save(trace, out)
    show_trace(console, trace)
    console.print(f"  written to {out}")
    write_result(json, "record", file=str(out), trace=trace_to_json(trace))


def recorded(named: str, warm_up: int, tell: Callable[[str], None]) -> Trace:
    """The trace of FILE.py:FUNCTION. Raises `OptionError` where there is no such function, `FileError` with the line
    where it fails, and `TraceError` where its iterations differ."""
    from vkernels.ir.errors import Error
    from vkernels.runtime.memory.record import record

    path, name, step = step_named(named)
    number = 0

    def counted() -> None:
        nonlocal number
        number += 1
        tell(f"iteration {number} of {warm_up + 2}{'' if number <= warm_up else ', watched'}")
        step()

    try:
        return record(counted, name, warm_up)
    except Error:
        raise
    except Exception as error:
        from .twins import failed

        raise failed(path, name, error) from error


def step_named(named: str, afresh: bool = False) -> tuple[str, str, Callable[[], Any]]:
    """Path, name and function of FILE.py:FUNCTION, the file executed; once more, if it was before, where `afresh` is
    said. Raises `OptionError` and `FileError`."""
    from vkernels.ir.errors import OptionError
    from vkernels.ir.nearest import meant
    from vkernels.runtime.checking.files import executed

    path, colon, name = named.rpartition(":")
    if not colon or not path.endswith(".py") or not name:
        raise OptionError(f"{named!r} names no step: expected FILE.py:FUNCTION, which runs one iteration")
    module = (executed.__wrapped__ if afresh else executed)(path)
    step = getattr(module, name, None)
    if not callable(step):
        functions = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
        raise OptionError(f"{path} has no function {name!r}; {meant(name, functions or ['none'])}")
    return path, name, step
