"""Check results as JSON; docs/json.md documents the fields."""

from __future__ import annotations

from collections import Counter
from typing import Any

from vkernels.inspect.check.cells import Cell, CellLaunch
from vkernels.inspect.check.check import Checked
from vkernels.inspect.check.plan_summary import PlanSummary

SCHEMA = 1
NO_PLAN = PlanSummary("", {})


def as_json(checked: Checked, triton: str, seconds: float) -> dict[str, Any]:
    """Return all results as JSON."""
    return {
        "schema_version": SCHEMA, "command": "check", "triton": triton, "seconds": round(seconds, 3),
        "binaries": checked.binaries, "from_cache": checked.cached, "counts": counts(checked.cells),
        "cells": [cell_as_json(cell) for cell in checked.cells],
    }  # fmt: skip


def counts(cells: tuple[Cell, ...]) -> dict[str, int]:
    """Count the cells by verdict."""
    verdicts = Counter(cell.fits for cell in cells)
    spilling = sum(bool(cell.spill_bytes) for cell in cells)
    return {
        "cells": len(cells), "fit": verdicts[True], "misfit": verdicts[False], "unknown": verdicts[None],
        "spill": spilling,
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
        "swap_bytes": cell.swap_bytes, **plan_as_json(cell.planned),
    }  # fmt: skip


def plan_as_json(planned: PlanSummary | None) -> dict[str, Any]:
    """Return the plan of a cell; all fields are null without one."""
    if planned is None:
        planned = NO_PLAN
    return {
        "plan": planned.plan or None, "plan_origin": planned.origin or None,
        "plans_tried": len(planned.tried) + 1 if planned.origin else None,
        "homes": dict(planned.homes) if planned.origin else None, "rung": planned.rung,
        "modelled_seconds": planned.modelled_seconds, "bottleneck": planned.bottleneck,
        "roofline_seconds": planned.roofline_seconds,
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
    }  # fmt: skip
