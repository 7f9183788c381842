"""The portability matrix: kernels × devices and slices × dtypes × sizes, each planned and compiled; nothing is run.

    python benchmarks/portability.py run RECORDS.jsonl [--only softmax] [--on h100] [--few] [--again] [--workers 1]
    python benchmarks/portability.py fixed RECORDS.jsonl [--sizes large]
    python benchmarks/portability.py plan RECORDS.jsonl [--only softmax] [--on h100] [--few]
    python benchmarks/portability.py show RECORDS.jsonl [--html FILE] [--markdown FILE]

`run` appends one JSON object a cell, those of `vk check` and the name of its size, and may be stopped and begun again:
what is there already is left out, and what the compile cache knows is not compiled anew. `fixed` compiles, for every
target, the one plan that was chosen for the largest GPU. `plan` compiles nothing: it prints how close to the roofline
the chosen plans of the first table's kernels are modelled, from records of its own. Of several records of a cell the
last counts.
Where the installed Triton has no compiler for a device, another version may add to the same records.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from common import json_lines
from portability_cases import DTYPES, LARGEST, SIZES, SUBJECTS, case_of, one_of_each, targets
from portability_plans import FIRST, plan_cells, show_planned
from portability_show import as_html, as_markdown, print_matrix
from rich.console import Console

from vkernels.commands.check.results import cell_as_json
from vkernels.compiler.calibrate_cpu import calibrate_cpu
from vkernels.compiler.workers.compile_pool import CompilePool
from vkernels.inspect.cases import KernelCase
from vkernels.inspect.check.check import CheckTools, check, triton_version
from vkernels.inspect.worker_client import InspectPool
from vkernels.ir.disk_cache import DiskCache
from vkernels.ir.errors import Error
from vkernels.targets import Target

WIDE = 140
"""Columns that the matrix takes."""

console = Console(highlight=False)
app = typer.Typer(add_completion=False)

PREPARING_SECONDS = 900.0
"""How long a child may take to plan and lower a kernel for some targets, on a machine that has other work too."""
SECONDS = 300.0
"""How long one compile may take."""
AT_ONCE = 3
"""Cases under way by default: while one is planned, another compiles."""

Record = dict[str, Any]
Key = tuple[str, str, str, str, bool]


def key_of(record: Mapping[str, Any]) -> Key:
    return record["kernel"], record["dtype"], record["size"], record["target"], bool(record.get("fixed"))


def records_in(path: Path) -> dict[Key, Record]:
    """The cells of a file, the last of each."""
    return {key_of(record): record for record in json_lines(path)}


@dataclass(frozen=True)
class Work:
    """A case, and the targets that it has no record of. `record`: what all its records have."""

    case: KernelCase
    targets: tuple[Target, ...]
    record: Mapping[str, Any]


class Writer:
    """Appends records as they come, from several threads."""

    def __init__(self, path: Path, workers: int, seconds: float, cells: int, at_once: int = AT_ONCE):
        self.path, self.workers, self.seconds, self.cells, self.at_once = path, workers, seconds, cells, at_once
        self.done = 0
        self.begun = time.monotonic()
        self._lock = threading.Lock()

    def run(self, works: Iterable[Work]) -> None:
        triton, cache = triton_version(), DiskCache(limit_bytes=4 << 30)
        with (
            InspectPool(self.workers, PREPARING_SECONDS) as preparing,
            CompilePool(self.workers, self.seconds) as compiling,
            ThreadPoolExecutor(self.at_once) as threads,
        ):
            tools = CheckTools(preparing, compiling, cache, triton)
            for result in threads.map(lambda work: self._one(work, tools), works):
                if result:
                    console.print(f"[red]{result}")

    def _one(self, work: Work, tools: CheckTools) -> str:
        try:
            checked = check([work.case], work.targets, tools, lambda *step: None)
        except Error as error:
            return f"{work.case.source.name} {dict(work.record)}: {error}"
        with self._lock, self.path.open("a") as file:
            for cell in checked.cells:
                record = {**cell_as_json(cell), **work.record, "triton": tools.triton}
                file.write(json.dumps(record) + "\n")
            self.done += len(checked.cells)
            fit = sum(cell.fits is True for cell in checked.cells)
            told = f"{work.case.source.name} {work.case.dtype} {work.record['size']}: {fit} of {len(checked.cells)} fit"
            minutes = (time.monotonic() - self.begun) / 60
            console.print(f"{self.done}/{self.cells} cells, {minutes:.1f} min; {told}, {checked.binaries} binaries")
        return ""


def is_named(name: str, parts: str) -> bool:
    """Whether a kernel is chosen by parts of names between commas: a whole name chooses its kernel alone."""
    whole = {subject.name for subject in SUBJECTS}
    return not parts or any(name == part if part in whole else part in name for part in parts.split(","))


def works_for(
    known: Mapping[Key, Record],
    only: str,
    on: str,
    sizes: Iterable[str],
    again: bool,
    fixed: bool,
    few: bool = False,
    dtypes: Iterable[str] = DTYPES,
) -> list[Work]:
    """What there is to do: the names, or parts of them, that `only` and `on` have between commas choose kernels and
    targets."""
    named = one_of_each(targets()) if few else targets()
    if LARGEST not in named:
        named = {**named, LARGEST: targets()[LARGEST]}
    chosen = [target for key, target in named.items() if not on or any(part in key for part in on.split(","))]
    works = []
    for size in sizes:
        for subject in SUBJECTS:
            for dtype in dtypes:
                if not is_named(subject.name, only):
                    continue
                case, record = case_of(subject, dtype, size), {"size": size, "fixed": fixed}
                if fixed:
                    plan = known.get((subject.name, dtype, size, LARGEST, False), {}).get("plan")
                    if plan is None:
                        continue
                    case = replace(case, fixed=plan)
                wanted = tuple(
                    target
                    for target in chosen
                    if (again or (subject.name, dtype, size, target.key, fixed) not in known)
                    and not (fixed and target.vendor == "cpu")
                )
                if wanted:
                    works.append(Work(case, wanted, record))
    return works


EVERY_SIZE, EVERY_DTYPE, FIRST_KERNELS = ",".join(SIZES), ",".join(DTYPES), ",".join(FIRST)
Sizes = Annotated[str, typer.Option(help="Between commas: small, large, absurd.")]
Dtypes = Annotated[str, typer.Option(help="Between commas: float32, float16.")]
Only = Annotated[str, typer.Option(help="Kernels whose names have one of these parts; whole names choose these alone.")]
Few = Annotated[bool, typer.Option("--few", help="Slices, and only the first device of each architecture.")]
On = Annotated[str, typer.Option(help="Targets whose names have one of these parts.")]


@app.command()
def run(
    records: Path,
    only: Only = "",
    on: On = "",
    sizes: Sizes = EVERY_SIZE,
    dtypes: Dtypes = EVERY_DTYPE,
    again: Annotated[bool, typer.Option("--again", help="Also what is there already.")] = False,
    few: Few = False,
    workers: int = 1,
    seconds: Annotated[float, typer.Option(help="How long one compile may take.")] = SECONDS,
    at_once: Annotated[
        int, typer.Option(help="Cases under way; with 1, none is planned while another compiles.")
    ] = AT_ONCE,
) -> None:
    """Plan and compile every cell that RECORDS lacks."""
    calibrate_cpu()
    known, wanted = records_in(records), (sizes.split(","), dtypes.split(","))
    works = works_for(known, only, on, wanted[0], again, fixed=False, few=few, dtypes=wanted[1])
    Writer(records, workers, seconds, sum(len(work.targets) for work in works), at_once).run(works)


@app.command()
def fixed(
    records: Path,
    only: Only = "",
    on: On = "",
    sizes: Sizes = "large",
    again: Annotated[bool, typer.Option("--again")] = False,
    few: Few = False,
    workers: int = 1,
    seconds: float = SECONDS,
) -> None:
    """Compile the plan of the largest GPU for every GPU."""
    known = records_in(records)
    if not any(target == LARGEST and not is_fixed for *_, target, is_fixed in known):
        raise typer.BadParameter(f"{records} has no plan for {LARGEST}: `run` it for this target first")
    works = works_for(known, only, on, sizes.split(","), again, fixed=True, few=few)
    Writer(records, workers, seconds, sum(len(work.targets) for work in works)).run(works)


@app.command()
def plan(
    records: Path,
    only: Only = FIRST_KERNELS,
    on: On = "",
    sizes: Sizes = EVERY_SIZE,
    dtypes: Dtypes = EVERY_DTYPE,
    few: Few = False,
) -> None:
    """Plan every cell that RECORDS lacks, without compiling, and say how close to the roofline all are modelled."""
    calibrate_cpu()
    known = records_in(records)
    for work in works_for(known, only, on, sizes.split(","), False, False, few, dtypes.split(",")):
        planned = plan_cells(work.case, work.targets, work.record, records)
        name = f"{work.case.source.name} {work.case.dtype} {work.record['size']}"
        console.print(f"{name}: {planned} of {len(work.targets)} planned")
    show_planned(records_in(records).values(), Console(highlight=False, width=max(console.width, WIDE)))


@app.command()
def show(records: Path, html: Path | None = None, markdown: Path | None = None) -> None:
    """Print the matrix; --html draws it as a page, --markdown writes the tables of docs/portability.md."""
    found = list(records_in(records).values())
    print_matrix(found, Console(highlight=False, width=max(console.width, WIDE)))
    if html is not None:
        html.write_text(as_html(found))
    if markdown is not None:
        markdown.write_text(as_markdown(found))


if __name__ == "__main__":
    app()
