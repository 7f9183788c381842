"""The command tree. Commands import heavy modules late, so that `--help` stays fast."""

from __future__ import annotations

from typing import Annotated

import typer

from . import (
    build,
    bundle,
    check,
    coordinate,
    db,
    doctor,
    explain,
    farm,
    memory,
    report,
    run_bp,
    run_spdnn,
    targets,
    trace,
    tune,
)
from .bench import spdnn as bench_spdnn
from .plain_help import Commands

app = Commands(
    name="vk",
    help="Write numerical kernels once, without resource limits; vkernels maps them onto each device.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
run = Commands(help="Run an application on this machine and check its result.", no_args_is_help=True)
app.add_typer(run, name="run")
run.command("bp")(run_bp.run_bp)
run.command("spdnn")(run_spdnn.run_spdnn)
bench = Commands(help="Benchmark an application against this machine's measured limits.", no_args_is_help=True)
app.add_typer(bench, name="bench")
bench.command("spdnn")(bench_spdnn.bench_spdnn)
app.command("build")(build.build)
app.add_typer(bundle.app, name="bundle")
app.command("check")(check.check)
app.add_typer(coordinate.app, name="coordinate")
app.add_typer(db.app, name="db")
app.command("doctor")(doctor.doctor)
app.command("explain")(explain.explain)
app.add_typer(farm.app, name="farm")
app.add_typer(memory.app, name="memory")
app.command("report")(report.report)
app.command("targets")(targets.targets)
app.command("trace", context_settings=trace.ARGUMENTS)(trace.trace)
app.command("tune")(tune.tune)


def _show_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        typer.echo(f"vkernels {version('vkernels')}")
        raise typer.Exit


def _log_to_stderr(times: int) -> None:
    """Print what vkernels logs: with one `-v` from INFO on, with two from DEBUG on."""
    if times:
        import logging

        logging.basicConfig(format="%(name)s: %(message)s")
        logging.getLogger("vkernels").setLevel(logging.INFO if times == 1 else logging.DEBUG)


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    verbose: Annotated[
        int, typer.Option("-v", "--verbose", count=True, help="Also print what is logged; -vv prints more.")
    ] = 0,
) -> None:
    _log_to_stderr(verbose)
