"""Needs against binaries: random plans of the library's kernels, compiled for many GPUs that need not be here.

    python benchmarks/needs.py collect RECORDS.jsonl [--plans 20] [--only softmax] [--workers 2]
    python benchmarks/needs.py judge RECORDS.jsonl … [--wrong]

`collect` appends what each binary takes to a file of one JSON object a line and may be stopped and begun again: what
is there, or in the compile cache, is not compiled anew. `judge` compares with what `annotate_needs` predicts: whether
the plan fits the device, and in which order plans use registers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from needs_judge import judged, table
from needs_plans import console, plans_of, subject_of

from vkernels.compiler.backends.resources import read_taken
from vkernels.compiler.backends.triton_adapter import Binary, GpuOptions
from vkernels.compiler.workers.compile_cached import compile_cached
from vkernels.compiler.workers.compile_pool import CompilePool
from vkernels.compiler.workers.jobs import CompiledBinary, CompileJob
from vkernels.ir.disk_cache import DiskCache
from vkernels.ir.plan import Plan
from vkernels.ir.plan_json import plan_to_json
from vkernels.library.catalogue import CATALOGUE

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120", "gfx90a", "gfx942", "gfx1100")
app = typer.Typer(add_completion=False)


@app.command()
def collect(
    records: Path,
    plans: int = 20,
    only: str = "",
    workers: int = 2,
    architectures: Annotated[str, typer.Option(help="comma-separated")] = ",".join(ARCHITECTURES),
) -> None:
    """Compile and append to RECORDS; a plan after another of every kernel, so that it can be stopped at any time."""
    have = set()
    if records.exists():
        have = {_key(json.loads(line)) for line in records.read_text().splitlines()}
    subjects = [subject_of(entry) for entry in CATALOGUE if not only or only in (entry.name, entry.family)]
    streams = {subject.name: plans_of(subject, plans) for subject in subjects}
    with CompilePool(workers, seconds=90) as pool, records.open("a") as file:
        for number in range(plans):
            for name, stream in streams.items():
                pair = next(stream, None)
                if pair is None:
                    continue
                plan, launches = pair
                wanted = [a for a in architectures.split(",") if (name, number, a) not in have]
                for record in _compiled(name, number, plan, launches, wanted, pool):
                    file.write(json.dumps(record) + "\n")
                file.flush()
            console.print(f"plan {number + 1} of {plans}")


@app.command()
def judge(records: list[Path], wrong: bool = False) -> None:
    """Compare RECORDS with predictions; `--wrong` lists the plans about whose fit they are wrong."""
    rows = list(judged(line for path in records for line in path.read_text().splitlines()))
    for line in table(rows):
        print(line)
    for row in rows if wrong else ():
        if row.fits != row.predicted_fit:
            print(row)


def _key(record: Mapping[str, Any]) -> tuple[str, int, str]:
    return record["kernel"], record["number"], record["architecture"]


def _compiled(
    name: str,
    number: int,
    plan: Plan,
    launches: list[tuple[str, str, GpuOptions]],
    wanted: list[str],
    pool: CompilePool,
) -> Iterator[dict[str, Any]]:
    jobs = [CompileJob(text, a, options) for a in wanted for _, text, options in launches]
    found: dict[int, dict[str, Any]] = {}
    for finished in compile_cached(jobs, pool, DiskCache()):
        outcome = finished.outcome
        at = {"name": launches[finished.index % len(launches)][0], "seconds": outcome.seconds}
        at["scratch"] = jobs[finished.index].options.scratch_bytes
        kept = taken(outcome.binary) if isinstance(outcome, CompiledBinary) else {"failure": outcome.message[:200]}
        found[finished.index] = at | kept
    for place, architecture in enumerate(wanted):
        mine = [found[place * len(launches) + n] for n in range(len(launches))]
        yield {
            "kernel": name, "number": number, "architecture": architecture, "plan": plan_to_json(plan),
            "launches": mine,
        }  # fmt: skip


def taken(binary: Binary) -> dict[str, int]:
    """Registers and stack bytes a thread, shared bytes a program, as the binary's own tables say."""
    found = read_taken(binary)
    return {
        "registers": found.use.registers, "stack": found.stack, "shared": found.use.shared, "threads": binary.threads,
        "tensor_memory": binary.tensor_memory,
    }  # fmt: skip


if __name__ == "__main__":
    app()
