"""A plan's decisions by name."""

from __future__ import annotations

from vkernels.ir.plan import Plan

from ..database.entry import Constant, Entry

NONE = "—"
GPU_ONLY = ("warps", "stages")


def choices_of(entry: Entry) -> dict[str, str]:
    """Of an entry's plan and constants: `tile i`, `home e`, `packs`, …, in words. On a CPU a program has no warps."""
    found = {**plan_choices(entry.plan), **{f"constant {name}": _word(of) for name, of in entry.constants.items()}}
    return {name: value for name, value in found.items() if entry.limits.warp > 1 or name not in GPU_ONLY}


def plan_choices(plan: Plan) -> dict[str, str]:
    """The same of a plan alone."""
    found = {f"tile {axis}": str(size) for axis, size in plan.tiles.items()}
    found |= {f"chunk {axis}": str(size) for axis, size in plan.chunks.items()}
    found |= {f"home {label}": str(home) for label, home in plan.homes.items()}
    found |= {f"split {axis}": str(programs) for axis, programs in plan.splits.items()}
    for name in ("copies", "launches", "online", "packs", "streams", "order"):
        found[name] = ", ".join(getattr(plan, name)) or NONE
    found["lanes"] = plan.lanes or NONE
    for name in ("warps", "stages", "resident_programs"):
        found[name.replace("_", " ")] = str(getattr(plan, name))
    return found


def _word(constant: Constant) -> str:
    return NONE if constant is None else str(constant)
