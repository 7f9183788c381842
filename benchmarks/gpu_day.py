"""Half an hour on a machine with a GPU: what is right, how fast it is, and what the models say of it.

    python benchmarks/gpu_day.py gather WHEELS                                  (before, where there is a network)
    python benchmarks/gpu_day.py run DAY.jsonl [--stage smoke] [--seconds 540] [--wheels WHEELS]
    python benchmarks/gpu_day.py show DAY.jsonl [--markdown FILE]

`run` takes the stages smoke, library, time, model and memory in that order, and writes what came of each case before
the next begins; the same command goes on where it stopped. Cases of a stage share a process. What ends it, stops it or
breaks the device is run again by itself, and the rest goes on in a new process. `--simulated` tries every step without
a GPU. The page docs/gpu-day.md says what to do in which order. Exits with 3 where there is no GPU, with 1 where a case
was not right, with 4 where time did not suffice.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from gpu_stages import PARTS, STAGES, Part
from gpu_stages.children import Child
from gpu_stages.conduct import Day, NoGpuError, StartError
from gpu_stages.wheels import MOST, gather_wheels, unpack_missing
from rich.console import Console

ROOT = Path(__file__).parents[1]
NOT_RIGHT, NO_GPU, UNFINISHED = 1, 3, 4

console = Console(highlight=False, soft_wrap=True)
app = typer.Typer(add_completion=False, help=__doc__)


@app.command()
def gather(folder: Path) -> None:
    """Download what the other machine may lack, as wheels for Python 3.12 on x86-64 Linux."""
    files = gather_wheels(folder, ROOT / "constraints.txt")
    size = sum(file.stat().st_size for file in files)
    console.print(f"{len(files)} wheels, {size / 2**20:.1f} MiB of at most {MOST / 2**20:.0f}")


@app.command()
def run(
    records: Annotated[Path, typer.Argument(help="File of JSON lines, which is made or gone on with.")],
    stage: Annotated[list[str] | None, typer.Option(help=f"{', '.join(STAGES)}; all unless given.")] = None,
    seconds: Annotated[float, typer.Option(help="Begin nothing after so long.")] = 540.0,
    wheels: Annotated[Path | None, typer.Option(help="Folder of wheels, of which missing ones are used.")] = None,
    processes: Annotated[int, typer.Option(min=1, help="That check at once; what is timed runs alone.")] = 4,
    only: Annotated[str, typer.Option(help="Cases whose names have one of these parts, between commas.")] = "",
    again: Annotated[bool, typer.Option("--again", help="Run cases again that were not right.")] = False,
    simulated: Annotated[bool, typer.Option("--simulated", help="Without a GPU, on small sizes.")] = False,
    commit: Annotated[str, typer.Option(help="Where git cannot say it.")] = "",
) -> None:
    """Run what the records lack, for a limited time."""
    began = time.monotonic()
    unknown = set(stage or ()) - set(STAGES)
    if unknown:
        raise typer.BadParameter(f"no stage {', '.join(sorted(unknown))}; there are {', '.join(STAGES)}")
    paths = [str(ROOT), str(ROOT / "benchmarks")]
    if wheels is not None:
        unpacked = unpack_missing(wheels, records.parent / "unpacked-wheels")
        paths.append(str(unpacked))
    sys.path[:0] = paths
    from gpu_stages.records import Records

    kept = Records(records)
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join([*paths, *filter(None, [os.environ.get("PYTHONPATH")])]),
        "XDG_CACHE_HOME": str(records.parent.absolute() / "gpu-day-cache"),
    }  # fmt: skip
    environment["TRITON_CACHE_DIR"] = f"{environment['XDG_CACHE_HOME']}/triton"

    def start(part: Part) -> Child:
        command = [sys.executable, __file__, "work", part.name, str(records), *(["--simulated"] if simulated else [])]
        more = {"TRITON_INTERPRET": "1"} if simulated and part in STAGES["time"] else {}  # kernels by hand run here
        if part in STAGES["memory"]:
            more["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # steps are to give the same bits twice
        return Child(command, {**environment, **more})

    noted: list[dict[str, Any]] = []

    def note(machine: dict[str, Any]) -> None:
        if not noted:
            noted.append(machine)
            about = {
                "run": len(kept.runs()), "date": datetime.now(UTC).isoformat(timespec="seconds"),
                "commit": commit or commit_here(), "command": shlex.join(["benchmarks/gpu_day.py", *sys.argv[1:]]),
                "machine": machine,
            }  # fmt: skip
            kept.add(about)
            console.print(f"{machine['device']}, torch {machine['torch']}, Triton {machine['triton']}")

    def wants(name: str) -> bool:
        return not only or any(part in name for part in only.split(","))

    def say(record: dict[str, Any]) -> None:
        right = record["status"] == "right"
        why = "" if right else f": {record.get('why', '').strip().splitlines()[0] if record.get('why') else ''}"
        mark = "" if right else "[red]"
        console.print(f"{mark}{record['status']} {record['part']}/{record['case']}, {record['seconds']:.1f} s{why}")

    day = Day(kept, start, seconds, processes, wants, again, say, note, began)
    try:
        done = day.run([part for name, parts in STAGES.items() if not stage or name in stage for part in parts])
    except NoGpuError as error:
        console.print(f"no GPU: {error}")
        raise typer.Exit(NO_GPU) from None
    except StartError as error:
        console.print(f"[red]{error}")
        raise typer.Exit(NOT_RIGHT) from None
    if not done:
        console.print(f"stopped after {time.monotonic() - began:.0f} s: the same command goes on")
        raise typer.Exit(UNFINISHED)
    wrong = [each for each in kept.cases() if each["status"] not in ("right", "skipped")]
    console.print(f"{len(list(kept.cases()))} cases, {len(wrong)} not right")
    raise typer.Exit(NOT_RIGHT if wrong else 0)


def commit_here() -> str:
    """The commit of this tree, and whether it is changed; empty without git."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=20,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


@app.command()
def show(
    records: Path,
    markdown: Annotated[Path | None, typer.Option(help="Write the tables to this file.")] = None,
) -> None:
    """Print what a day found as Markdown: machine, commands, and each case, also those that failed."""
    sys.path[:0] = [str(ROOT)]
    from gpu_stages.records import Records
    from gpu_stages.tables import report

    text = report(Records(records))
    print(text)
    if markdown is not None:
        markdown.write_text(text)


@app.command(hidden=True)
def work(part: str, records: Path, simulated: Annotated[bool, typer.Option("--simulated")] = False) -> None:
    """Run cases of a part, as standard input names them: what `run` starts."""
    from gpu_stages.work import work as work_

    work_(PARTS[part], simulated, records)


if __name__ == "__main__":
    app()
