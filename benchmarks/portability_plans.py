"""Plans of the portability matrix without their binaries: how close to the roofline they are modelled, and what takes
longest."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from portability_cases import ORDINARY
from rich.console import Console
from rich.table import Table

from vkernels.inspect.cases import KernelCase, kernel_at
from vkernels.inspect.check.prepare_kernel import KernelPreparer
from vkernels.ir.cost_model.roofline import roofline
from vkernels.ir.errors import Error
from vkernels.ir.plan_json import plan_to_json
from vkernels.ir.planning.choose_plan import choose_plan
from vkernels.targets import Target
from vkernels.targets.slices import planned_limits

FIRST = (
    "softmax_rows", "layer_norm_rows", "matmul_bias", "mlp_rows", "attention_rows", "sum_segments", "csr_times_dense",
    "cumulative_sum_rows", "stencil_cross", "stencil_square", "spdnn",
)  # fmt: skip
"""The kernels of the first table of docs/portability.md."""
NEAR = 3.0
"""How many times the roofline a plan may be modelled to take, to count as near it."""

Record = Mapping[str, Any]


def plan_cells(case: KernelCase, targets: Sequence[Target], record: Record, path: Path) -> int:
    """Append a record for each target: its chosen plan, the modelled time and the roofline by their parts. Returns how
    many have a plan."""
    preparer = KernelPreparer(kernel_at(case.source), case.shape, case.dtypes, case.scalars, case.constants)
    planned = 0
    with path.open("a") as file:
        for target in targets:
            told = {"kernel": case.source.name, "dtype": case.dtype, "target": target.key, **record}
            told |= _planned(preparer, case, target)
            planned += "plan" in told
            file.write(json.dumps(told) + "\n")
    return planned


def _planned(preparer: KernelPreparer, case: KernelCase, target: Target) -> dict[str, Any]:
    limits = planned_limits(target)
    try:
        chosen = choose_plan(preparer.ir_kernel, case.shape, limits, strides=preparer.arguments.strides)
        least = roofline(preparer.ir_kernel, case.shape, limits)
    except Error as error:
        return {"architecture": target.architecture, "error": str(error)}
    return {
        "architecture": target.architecture, "plan": plan_to_json(chosen.plan), "rung": chosen.rung,
        "modelled_seconds": chosen.seconds, "roofline_seconds": float(least.seconds),
        "bottleneck": chosen.times.bottleneck, "roofline_bottleneck": least.bottleneck,
        "parts": {name: float(seconds) for name, seconds in chosen.times.parts.items()},
        "roofline_parts": {name: float(seconds) for name, seconds in least.parts.items()},
    }  # fmt: skip


def times_of(record: Record) -> float:
    """How many times its roofline a cell is modelled to take."""
    return float(record["modelled_seconds"] / record["roofline_seconds"])


def show_planned(records: Iterable[Record], console: Console) -> None:
    """Print medians and cells near the roofline by kernel, size and dtype, and what takes longest in the others."""
    some = list(records)
    planned = [record for record in some if "plan" in record]
    usual = [record for record in planned if record["size"] in ORDINARY]
    near = sum(times_of(record) <= NEAR for record in usual)
    bottom = sum(record["rung"] == "bottom" for record in usual)
    console.print(f"{len(planned)} of {len(some)} cells have a plan")
    if not usual:
        return
    console.print(
        f"{near} of {len(usual)} ordinary ones ({100 * near / len(usual):.1f} %) are modelled within {NEAR:g}× of the "
        f"roofline, {bottom} stand on the bottom rung"
    )
    table = Table("kernel", "size", "dtype", "median", "near", "of", "longest part of the others", box=None)
    for kernel, size, dtype in dict.fromkeys((r["kernel"], r["size"], r["dtype"]) for r in usual):
        mine = [r for r in usual if (r["kernel"], r["size"], r["dtype"]) == (kernel, size, dtype)]
        far = [record for record in mine if times_of(record) > NEAR]
        why = Counter(record["bottleneck"] for record in far)
        table.add_row(
            kernel, size, dtype, f"{median(map(times_of, mine)):.1f}", str(len(mine) - len(far)), str(len(mine)),
            ", ".join(f"{name} {count}" for name, count in why.most_common()),
        )  # fmt: skip
    console.print(table)
