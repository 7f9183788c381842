"""Where the tensors of library kernels go on integrated and on discrete GPUs, and what that gains over copying all.

    python benchmarks/placement.py [--docs FILE]

Everything is modelled: calls of the catalogue's sizes with inputs from the host and results that it wants, on devices
of the table. The tables go to docs/memory-placement.md; about a minute on one core.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from vkernels.commands.formatting import format_bytes, format_seconds
from vkernels.commands.memory.placing import placed
from vkernels.inspect.specialisation import SpecialisationRequest
from vkernels.inspect.task import Task
from vkernels.ir.errors import MemoryPlanError
from vkernels.library.tasks import library_tasks
from vkernels.memory.placement.choose import PlacementDecision
from vkernels.memory.placement.modelled import modelled
from vkernels.targets import target_named

PAGE = Path(__file__).parents[1] / "docs" / "memory-placement.md"
BEGIN, END = "<!-- made by benchmarks/placement.py -->", "<!-- end -->"
TARGETS = ("jetson-agx-orin-64", "dgx-spark-gb10", "t4", "h100-sxm5-80", "gh200-96")
KERNELS = (
    "softmax_rows", "layer_norm_rows", "matmul_bias", "attention_rows", "stencil_cross", "ell_times_dense",
    "csr_times_dense", "bags_of_rows",
)  # fmt: skip
LIMITED = ("matmul_bias", ("jetson-agx-orin-64", "h100-sxm5-80"), (1.0, 0.75, 0.5, 0.35, 0.2))
"""A kernel, targets, and parts of the bytes that all copies take."""
SHORT = {"copy": "c", "zero-copy": "z", "managed": "m"}
console = Console(highlight=False)


def main(docs: Annotated[Path, typer.Option(help="The page that has the tables.")] = PAGE) -> None:
    """Make the tables, and put them into the page."""
    text = "\n".join([*_table(), "", *_limited()])
    console.print(text)
    page = docs.read_text()
    start, stop = page.index(BEGIN) + len(BEGIN), page.index(END)
    docs.write_text(f"{page[:start]}\n{text}\n{page[stop:]}")


def _table() -> list[str]:
    lines = [f"| | {' | '.join(TARGETS)} |", f"|---|{'---|' * len(TARGETS)}"]
    for name in KERNELS:
        task = _task(name)
        cells = [_cell(_placed(task, key)) for key in TARGETS]
        sizes = " ".join(f"{size}={value}" for size, value in task.shape.items())
        lines.append(f"| `{name}` {sizes}, {task.dtype} | {' | '.join(cells)} |")
    return lines


def _cell(decision: PlacementDecision) -> str:
    """Placements in the order of the tensors, how many times as long copying takes, and bytes beside copying's."""
    letters = " ".join(f"{each.buffer}:{SHORT[each.placement]}" for each in decision.choices)
    part = decision.footprint / decision.copying_footprint
    return f"{letters}<br>{decision.gain:.2f}×, {part:.0%}"


def _limited() -> list[str]:
    name, targets, parts = LIMITED
    task = _task(name)
    lines = ["| limit, of all copies' bytes | " + " | ".join(targets) + " |", "|---|" + "---|" * len(targets)]
    for part in parts:
        cells = []
        for key in targets:
            whole = _placed(task, key).copying_footprint
            try:
                found = _placed(task, key, int(whole * part))
            except MemoryPlanError:
                cells.append("does not fit")
                continue
            letters = " ".join(f"{each.buffer}:{SHORT[each.placement]}" for each in found.choices)
            cells.append(f"{letters}, {format_seconds(found.seconds)} in {format_bytes(found.footprint)}")
        lines.append(f"| {part:.0%} | {' | '.join(cells)} |")
    return lines


def _task(name: str) -> Task:
    return library_tasks([name], SpecialisationRequest(), on_gpu=True)[0]


def _placed(task: Task, key: str, limit: int | None = None) -> PlacementDecision:
    target = target_named(key)
    return placed(task, target, modelled(target), limit)


if __name__ == "__main__":
    typer.run(main)
