"""`vk trace`: run a script and write a trace of its kernel calls."""

from __future__ import annotations

import runpy
import sys
import traceback
from collections import Counter
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vkernels.ir.errors import OptionError

from .formatting import format_seconds, plural
from .results import check_writable

if TYPE_CHECKING:
    from vkernels.runtime.tracing import Trace

ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}
"""Options after the script are the script's."""

Script = Annotated[Path, typer.Argument(metavar="SCRIPT.py", help="The script; it runs in this process.")]
Own = Annotated[list[str] | None, typer.Argument(metavar="ARGS…", help="Arguments and options of the script.")]
Out = Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Trace file, for ui.perfetto.dev.")]
Perf = Annotated[bool, typer.Option("--perf-map", help="Name CPU code for Linux's perf in /tmp/perf-PID.map.")]
Nvtx = Annotated[bool, typer.Option("--nvtx", help="Mark kernels and torch operations as NVTX ranges (CUDA).")]
Roctx = Annotated[bool, typer.Option("--roctx", help="Mark kernel calls as ROCTX ranges (ROCm).")]


def trace(
    script: Script,
    arguments: Own = None,
    output: Out = Path("trace.json"),
    perf_map: Perf = False,
    nvtx: Nvtx = False,
    roctx: Roctx = False,
) -> None:
    """Run a script and write a trace of its kernel calls: when they were planned, compiled and run, in which thread.

    The exit code is the script's. The trace is also written if the script fails.
    """
    if not script.is_file():
        raise OptionError(f"there is no script {script}")
    check_writable(output)

    from vkernels.runtime.perf_map import perf_map as mapped
    from vkernels.runtime.tracing import tracing
    from vkernels.runtime.vendor_ranges import profiler_ranges

    found: Trace | None = None
    try:
        with ExitStack() as stack:
            if perf_map:
                typer.echo(f"functions for perf: {stack.enter_context(mapped())}", err=True)
            if nvtx:
                _emit_nvtx(stack)
            if roctx:
                stack.enter_context(profiler_ranges("roctx"))
            found = stack.enter_context(tracing())
            _run(script, arguments or [])
    finally:
        if found is not None:
            found.write(output)
            typer.echo(_summary(found, output), err=True)


def _run(script: Path, arguments: list[str]) -> None:
    """Run a script as `python SCRIPT` does."""
    before = sys.argv, sys.path[:]
    sys.argv, sys.path[:] = [str(script), *arguments], [str(script.resolve().parent), *sys.path]
    try:
        runpy.run_path(str(script), run_name="__main__")
    except Exception as error:  # the script's, not ours
        _print_failure(error, script)
        raise SystemExit(1) from error
    finally:
        sys.argv, sys.path[:] = before


def _print_failure(error: Exception, script: Path) -> None:
    """Print an exception as Python does, from the script on."""
    inner = error.__traceback__
    while inner is not None and inner.tb_frame.f_code.co_filename != str(script):
        inner = inner.tb_next
    traceback.print_exception(type(error), error, inner or error.__traceback__)


def _emit_nvtx(stack: ExitStack) -> None:
    """Mark torch's operations too, where torch runs on a GPU of NVIDIA's."""
    from vkernels.runtime.vendor_ranges import profiler_ranges

    if find_spec("torch") is not None:
        import torch

        if torch.cuda.is_available() and torch.version.hip is None:
            stack.enter_context(torch.autograd.profiler.emit_nvtx())  # type: ignore[no-untyped-call]
            return
    stack.enter_context(profiler_ranges("nvtx"))


def _summary(found: Trace, output: Path) -> str:
    counts = Counter(span.kind for span in found.spans)
    seconds = sum(span.end - span.start for span in found.spans if span.kind in ("build", "plan", "compile"))
    return (
        f"{plural(counts['call'], 'kernel call')} in {plural(len(found.threads), 'thread')}, "
        f"{plural(counts['compile'], 'compile')}; building, planning and compiling took {format_seconds(seconds)}: "
        f"{output}"
    )
