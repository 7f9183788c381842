"""`vk memory`: record a training step, plan its device memory, and run it with less. The work is in heavier modules."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .. import complete
from ..options import Constants, DType, Json, Kernel, Shape
from ..plain_help import Commands

app = Commands(
    help="Record a training step, plan its memory, and run it with less device memory.", no_args_is_help=True
)

Step = Annotated[
    str, typer.Argument(metavar="FILE.py:FUNCTION", help="FUNCTION() runs one iteration; the file is executed first.")
]
TraceOut = Annotated[
    Path, typer.Option("--out", "-o", metavar="FILE", help="Output file; compressed if it ends in .gz.")
]
WarmUp = Annotated[int, typer.Option(min=0, help="Iterations to run before recording.")]
TraceFile = Annotated[
    Path, typer.Argument(metavar="TRACE", help="File written by `vk memory record`, or a step of G10's artifact.")
]
ScheduleFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="SCHEDULE", help="File written by `vk memory plan --out`. Default: simulate every strategy."
    ),
]
PlanDevice = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Device memory, such as 40GiB. Schedules swaps if the step needs more; a problem's capacity.",
    ),
]
Device = Annotated[str, typer.Option(metavar="SIZE", help="Device memory.")]
Host = Annotated[str, typer.Option(metavar="SIZE", help="Host memory for tensors that leave the device.")]
Flash = Annotated[str, typer.Option(metavar="SIZE", help="Flash memory; 0 for none.")]
Link = Annotated[
    str | None,
    typer.Option(
        metavar="RATE",
        help="Rate of the device's link, each way; shared with flash. Default: calibrated, else 15.754GB/s.",
    ),
]
FlashLink = Annotated[
    str | None, typer.Option(metavar="RATE", help="Rate of flash, each way. Default: calibrated, else 3.2GB/s.")
]
Fault = Annotated[
    str, typer.Option("--fault", metavar="SIZE", help="Bytes that each page fault of unified memory moves, in 45 µs.")
]
Direct = Annotated[
    bool,
    typer.Option("--gpu-direct/--staged", help="Flash is copied to the device directly, or through the host's memory."),
]
HostFlash = Annotated[
    bool,
    typer.Option(help="Our schedules also move tensors between host and flash, as fast as flash is."),
]
Translation = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        min=0.0,
        help="Seconds for a new address in the page table that device, host and flash share, for each 64 KiB moved.",
    ),
]
AllReduce = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Also simulate two devices that exchange gradients over this link: tensors with NAME in their names.",
    ),
]
Calibrated = Annotated[
    Path | None,
    typer.Option("--calibration", metavar="FILE", help="Rates written by `vk memory calibrate --out`."),
]
Costs = Annotated[
    Path | None,
    typer.Option(
        "--calibration", metavar="FILE", help="Costs written by `vk memory calibrate --out`. Default: modelled."
    ),
]
ScheduleOut = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        metavar="FILE",
        help="Write the schedule to this file, for `vk memory simulate`; of a problem: its CSV with offsets.",
    ),
]
Seconds = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        max=3600.0,
        help="Time limit of the placement, in seconds. Default: 1, or 10 within a problem's capacity.",
    ),
]
SnapshotOut = Annotated[
    Path | None,
    typer.Option("--snapshot", metavar="FILE", help="Write the pool as a memory snapshot, for pytorch.org/memory_viz."),
]
PlanFile = Annotated[
    Path,
    typer.Argument(
        metavar="TRACE",
        help="File written by `vk memory record`, a step of G10's artifact, a snapshot of torch's memory (.pickle), "
        "or an allocation problem (.csv).",
    ),
]
Html = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Also write an HTML report: memory, transfers, waits and offsets over time."),
]
Bytes = Annotated[str, typer.Option("--bytes", metavar="SIZE", help="Device memory: 4GiB, or 60% of the step's peak.")]
RunHost = Annotated[
    str | None, typer.Option("--host", metavar="SIZE", help="Host memory for swapped tensors. Default: unlimited.")
]
RunFlash = Annotated[
    Path | None, typer.Option("--flash", metavar="FOLDER", help="Folder of a file for what exceeds the host memory.")
]
Calls = Annotated[
    int, typer.Option(min=1, max=1_000_000, help="Number of planned calls, after those that make the plan.")
]
Measured = Annotated[
    str,
    typer.Option(
        "--target",
        metavar="NAME",
        help="cpu, nvidia:0 or amd:0: measured; any other target from `vk targets`: modelled.",
    ),
]
FlashFolder = Annotated[
    Path | None, typer.Option("--flash", metavar="FOLDER", help="Also measure the drive of this folder (cpu only).")
]
CalibrationOut = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FILE", help="Output file, for the --calibration option of other commands."),
]
Gpu = Annotated[
    str,
    typer.Option(
        "--target",
        metavar="NAME",
        autocompletion=complete.targets,
        help="A GPU from `vk targets`, integrated or discrete: jetson-agx-orin-64.",
    ),
]
Limit = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Limit of the device memory that all tensors use: 64MiB.")
]


@app.command()
def record(step: Step, out: TraceOut = Path("trace.json.gz"), warm_up: WarmUp = 1, json: Json = None) -> None:
    """Run iterations of a torch program, and record the memory use of one."""
    from . import step_file

    step_file.record(step, out, warm_up, json)


@app.command()
def plan(
    trace: PlanFile,
    device: PlanDevice = None,
    host: Host = "128GiB",
    flash: Flash = "unlimited",
    link: Link = None,
    flash_link: FlashLink = None,
    calibration: Calibrated = None,
    out: ScheduleOut = None,
    seconds: Seconds = None,
    json: Json = None,
    html: Html = None,
    snapshot: SnapshotOut = None,
) -> None:
    """Place a step's tensors in one pool; with --device also schedule which tensors are swapped out, and when.

    Both follow from the lifetimes of the tensors, which are known before the step runs. Blocks of a snapshot or an
    allocation problem have no operations: they are placed within --device. Exit code 1: they do not fit.
    """
    from . import problems, schedules

    outputs = problems.PlanOutputs(out, json, html, snapshot)
    schedules.plan(trace, device, (host, flash, link, flash_link, calibration), outputs, seconds)


@app.command()
def simulate(
    trace: TraceFile,
    schedule: ScheduleFile = None,
    device: Device = "40GiB",
    host: Host = "128GiB",
    flash: Flash = "unlimited",
    link: Link = None,
    flash_link: FlashLink = None,
    calibration: Calibrated = None,
    fault: Fault = "64KiB",
    gpu_direct: Direct = True,
    host_flash: HostFlash = False,
    translation: Translation = 0.0,
    all_reduce: AllReduce = None,
    json: Json = None,
    html: Html = None,
) -> None:
    """Simulate a step under a schedule, or under every strategy: re-implemented published ones and our own.

    Nothing is executed. The --html report shows an iteration under the last schedule.
    """
    from . import schedules

    options = (host, flash, link, flash_link, calibration)
    links = schedules.LinkOptions(fault, gpu_direct, host_flash, translation)
    schedules.simulate(trace, schedule, device, options, links, all_reduce, json, html)


@app.command()
def run(
    step: Step,
    limit: Bytes,
    host: RunHost = None,
    flash: RunFlash = None,
    calls: Calls = 20,
    calibration: Calibrated = None,
    json: Json = None,
    html: Html = None,
) -> None:
    """Run a torch program's iteration with and without a memory limit, interleaved; compare results bit by bit.

    The file is executed once for each, with the same seeds. Exit code 1: bits differ, or no call followed a plan.
    """
    from . import limited_run

    limited_run.run(step, limit, host, flash, calls, calibration, json, html)


@app.command()
def calibrate(
    target: Measured = "cpu", flash: FlashFolder = None, out: CalibrationOut = None, json: Json = None
) -> None:
    """Measure the cost of copies, links and memory accesses on this machine (some seconds).

    For an absent device the costs are modelled, from the target table and published figures.
    """
    from . import placing

    placing.calibrate(target, flash, out, json)


@app.command()
def place(
    kernel: Kernel,
    target: Gpu,
    shapes: Shape = None,
    dtype: DType = None,
    constants: Constants = None,
    limit: Limit = None,
    calibration: Costs = None,
    json: Json = None,
) -> None:
    """Choose where each tensor of a call lives, when inputs come from the host and results go back to it.

    On integrated devices copied, zero-copy and managed memory are the same chips; on discrete ones a link is between.
    """
    from . import placing

    placing.place(kernel, target, (dtype, shapes, constants), limit, calibration, json)
