"""Check results as text, a table for each kernel with a row for each target, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from vkernels.compiler.binaries.launch_loops import loops_as_json
from vkernels.compiler.plan_fallback import BOTTOM
from vkernels.inspect.check.cells import Cell, CellLaunch, PlanSummary
from vkernels.inspect.check.check import Checked
from vkernels.inspect.check.input_file import inputs_shown
from vkernels.inspect.check.inputs import InputsRun
from vkernels.ir.planning.resources import Resource
from vkernels.ir.slow_plan import SlowPlan

from ..formatting import format_seconds
from ..results import print_table, table_of, widths_of

NO_PLAN = PlanSummary("", {})


def as_json(checked: Checked, triton: str, seconds: float) -> dict[str, Any]:
    """Return all results as JSON."""
    return {
        "triton": triton, "seconds": round(seconds, 3),
        "binaries": checked.binaries, "from_cache": checked.cached, "counts": counts(checked.cells),
        "cells": [cell_as_json(cell) for cell in checked.cells],
    }  # fmt: skip


def show_inputs(ran: Sequence[InputsRun], inputs: str, console: Console) -> None:
    """Print what running on the author's inputs found, a line for each kernel and configuration, and each finding."""
    for each in ran:
        given = "".join(f" {name}={value}" for name, value in each.configuration.items())
        what = f"{each.kernel}{given} on {inputs_shown(inputs)}"
        if each.finding:
            console.print(f"{what}:", style="bold", markup=False, highlight=False)
            console.print(each.finding, markup=False, highlight=False, soft_wrap=True)
        elif each.unknown:
            console.print(f"{what}: not run: {each.unknown}", markup=False, highlight=False, soft_wrap=True)
        else:
            said = f"{what}: {each.programs} programs, no race and no access out of bounds"
            console.print(said, markup=False, highlight=False, soft_wrap=True)


def counts(cells: tuple[Cell, ...]) -> dict[str, int]:
    """Count the cells by verdict."""
    verdicts = Counter(cell.fits for cell in cells)
    spilling = sum(bool(cell.spill_bytes) for cell in cells)
    return {
        "cells": len(cells), "fit": verdicts[True], "misfit": verdicts[False], "unknown": verdicts[None],
        "spill": spilling, "slow": sum(cell.planned is not None and cell.planned.slow is not None for cell in cells),
    }  # fmt: skip


def cell_as_json(cell: Cell) -> dict[str, Any]:
    """Return one cell with its launches."""
    return {
        "kernel": cell.kernel, "target": cell.target, "architecture": cell.architecture, "dtype": cell.dtype,
        "shape": dict(cell.shape), "configuration": dict(cell.configuration), "fits": cell.fits,
        "reason": cell.reason, "registers_per_thread": cell.registers_per_thread, "shared_bytes": cell.shared_bytes,
        "spill_bytes": cell.spill_bytes, "blocks_per_multiprocessor": cell.blocks_per_multiprocessor,
        "limited_by": list(cell.limited_by), "compile_seconds": round(cell.compile_seconds, 3),
        "launches": [launch_as_json(launch) for launch in cell.launches], "tensor_bytes": cell.tensor_bytes,
        "swap_bytes": cell.swap_bytes, "bound_seconds": cell.bound_seconds, **plan_as_json(cell.planned),
    }  # fmt: skip


def plan_as_json(planned: PlanSummary | None) -> dict[str, Any]:
    """Return the plan of a cell; all fields are null without one."""
    if planned is None:
        planned = NO_PLAN
    return {
        "plan": planned.plan or None, "plan_origin": planned.origin or None,
        "plans_tried": len(planned.tried) + 1 if planned.origin else None,
        "plans_without_code": planned.tried.count(Resource.CODE) if planned.origin else None,
        "plans_judged": planned.judged if planned.origin else None,
        "homes": dict(planned.homes) if planned.origin else None, "rung": planned.rung,
        "modelled_seconds": planned.modelled_seconds, "bottleneck": planned.bottleneck,
        "roofline_seconds": planned.roofline_seconds,
        "slow": None if planned.slow is None else slow_as_json(planned.slow),
        "units": [*planned.units] if planned.origin else None,
        "deterministic": planned.deterministic if planned.origin else None,
    }  # fmt: skip


def slow_as_json(slow: SlowPlan) -> dict[str, Any]:
    """Return how a plan is far from the roofline."""
    place = slow.place
    return {
        "times_roofline": round(slow.times, 1), "reasons": list(slow.reasons),
        "file": None if place is None else place.file, "line": None if place is None else place.line,
    }  # fmt: skip


def launch_as_json(launch: CellLaunch) -> dict[str, Any]:
    """Return one launch, with the resources of its binary if there is one."""
    found = {
        "name": launch.name, "fits": launch.fits, "reason": launch.reason,
        "compile_seconds": round(launch.seconds, 3),
    }  # fmt: skip
    if launch.use is None or launch.occupancy is None:
        return found
    resources = launch.use.resources
    return {
        **found, "threads": launch.use.threads, "registers_per_thread": resources.registers,
        "shared_bytes": resources.shared, "spill_bytes": resources.spill_bytes, "stack_bytes": resources.stack,
        "tensor_memory_columns": resources.tensor_memory, "blocks_per_multiprocessor": launch.occupancy.blocks,
        "limited_by": list(launch.occupancy.limited_by), "instructions": dict(vars(resources.mix)),
        **({"loops": None, "bound": None} if launch.loops is None else loops_as_json(launch.loops)),
    }  # fmt: skip


LEGEND = (
    "Registers: per thread. Shared: bytes per program. Spilled: bytes per thread. Blocks: programs that one "
    "multiprocessor holds at once (on RDNA a work-group processor), and the resource that limits them. Seconds: "
    "compile time, shared by devices of one architecture and plan. Rung: where the plan stands on its fallback ladder, "
    "how many plans were tried if more than one, for how many of them the compiler gave no code, and of how many "
    "compiled plans it is the best by its loops. Modelled: predicted milliseconds of a call. Bottleneck: its longest "
    "part. Slow: modelled to take more than 20 times what the device could do."
)

_VERDICTS = {True: "yes", False: "no", None: "?"}
_STYLES = {True: "green", False: "red", None: "yellow"}


def _verdict(cell: Cell) -> Text:
    """Whether a cell fits. A plan that fits, but badly, says so."""
    plan = cell.planned
    if cell.fits and plan is not None and (plan.slow is not None or plan.rung == BOTTOM):
        return Text("yes, slow" if plan.slow is not None else "yes, bottom", "yellow")
    return Text(_VERDICTS[cell.fits], _STYLES[cell.fits])


def show(checked: Checked, triton: str, seconds: float, console: Console) -> None:
    """Print the results."""
    for title, group in groupby(checked.cells, key=_title):
        cells = list(group)
        print_table(_fitting(title, cells, console), console)
        reasons: dict[str, list[str]] = {}
        for cell in cells:
            if cell.reason:
                reasons.setdefault(cell.reason, []).append(cell.target)
        units: dict[str, list[str]] = {}
        for cell in cells:
            for unit in cell.planned.units if cell.planned is not None else ():
                units.setdefault(unit, []).append(cell.target)
        for unit, names in units.items():
            console.print(f"{', '.join(names)}: multiplies on the dot unit {unit}", soft_wrap=True)
        if len(cells) <= MAX_SHOWN_LOOPS:
            for cell in cells:
                if line := loop_text(cell):
                    console.print(f"{cell.target}: {line}", soft_wrap=True, markup=False)
        for reason, names in reasons.items():
            console.print(f"{', '.join(names)}: {reason}", soft_wrap=True)
        for cell in cells:
            if cell.fits and cell.planned is not None and cell.planned.slow is not None:
                message = cell.planned.slow.message(cell.kernel.rpartition(":")[2], cell.target)
                console.print(message, soft_wrap=True, markup=False)
        console.print()
    console.print(LEGEND)
    n = counts(checked.cells)
    console.print(
        f"{n['cells']} {'cell' if n['cells'] == 1 else 'cells'}: {n['fit']} fit, {n['misfit']} do not, "
        f"{n['unknown']} unknown, {n['spill']} spill"
        f"{', {} are slow'.format(n['slow']) if n['slow'] else ''}. "
        f"{checked.binaries} binaries, {checked.cached} from the cache, by Triton {triton}, in {seconds:.1f} s."
    )


MAX_SHOWN_LOOPS = 6
"""Cells of a table under which their loops are printed; of more, the JSON has them."""


def loop_text(cell: Cell) -> str:
    """The loop in which a cell spends most of its time at least, and the bound of the call's; empty if unknown."""
    loops = [loop for launch in cell.launches if launch.loops is not None for loop in launch.loops.loops]
    parts = []
    if loops:
        parts.append(max(loops, key=lambda loop: (loop.trips or 1.0) * loop.slowest).text)
    if (bound := cell.bound_seconds) is not None:
        least = cell.planned.roofline_seconds if cell.planned is not None else None
        share = f", {least / bound:.2f} of the roofline" if least else ""
        parts.append(f"bound {format_seconds(bound)}{share}")
    return "; ".join(parts)


def _title(cell: Cell) -> str:
    sizes = [f"{name}={value}" for name, value in {**cell.shape, **cell.configuration}.items()]
    deterministic = ["deterministic"] if cell.planned is not None and cell.planned.deterministic else []
    return " ".join([cell.kernel, cell.dtype, *sizes, *deterministic])


MAY_GO = "bottleneck", "seconds", "limited by", "rung"
"""Columns that narrow terminals leave to the JSON, the first of these first, so that words of the others stay whole."""


def _fitting(title: str, cells: list[Cell], console: Console) -> Table:
    """The table with the most columns for which a terminal has room."""
    for count in range(len(MAY_GO) + 1):
        table = _table(title, cells, MAY_GO[:count])
        if not console.is_terminal or widths_of(table, console)[0] <= console.width:
            break
    return table


def _table(title: str, cells: list[Cell], left_out: Collection[str]) -> Table:
    planned = any(cell.planned for cell in cells)
    rows = [_row(cell, planned) for cell in cells]
    columns = [name for name in rows[0] if name not in left_out]
    right = ("registers", "shared", "spilled", "blocks", "seconds", "modelled")
    table = table_of(*columns, right=right, whole=set(columns) - {"limited by", "rung"}, title=title)
    for name, column in zip(columns, table.columns, strict=True):
        column.min_width = max(len(word) for row in rows for word in [name, *str(row[name]).split()])
    for row in rows:
        table.add_row(*(row[name] for name in columns))
    return table


def _row(cell: Cell, planned: bool) -> dict[str, str | Text]:
    figures = {
        "registers": cell.registers_per_thread, "shared": cell.shared_bytes, "spilled": cell.spill_bytes,
        "blocks": cell.blocks_per_multiprocessor,
    }  # fmt: skip
    plan = dict(zip(("rung", "modelled", "bottleneck"), _plan(cell), strict=True)) if planned else {}
    return {
        "target": cell.target, "fits": _verdict(cell),
        **{name: "" if figure is None else str(figure) for name, figure in figures.items()},
        "limited by": ", ".join(cell.limited_by),
        "seconds": f"{cell.compile_seconds:.2f}" if cell.launches else "", **plan,
    }  # fmt: skip


def _plan(cell: Cell) -> tuple[str, str, str]:
    plan = cell.planned
    if plan is None:
        return "", "", ""
    without = plan.tried.count(Resource.CODE)
    uncompiled = f", {without} without code" if without else ""
    tries = f" ({len(plan.tried) + 1} plans{uncompiled})" if plan.tried else ""
    tries += f" (best of {plan.judged})" if plan.judged else ""
    modelled = "" if plan.modelled_seconds is None else f"{1e3 * plan.modelled_seconds:.3g}"
    return f"{plan.rung or ''}{tries}", modelled, plan.bottleneck or ""
