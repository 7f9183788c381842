"""Judge the best plans of cells on GPUs by their binaries, as calls do, and take the best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from vkernels.compiler.judge_by_static_bound import (
    PlanBound,
    best_by_bound,
    bound_of_launches,
    is_of_use,
    spills_in_loops,
    unless_loops_spill,
    worth_neighbours,
)
from vkernels.compiler.plan_fallback import BOTTOM

from ..cases import KernelCase
from ..worker_client import InspectPool
from .cells import CHOSEN, Cell
from .prepare_cells import CellRequest, PreparedCell, prepare_to_judge


def judge_cells(
    wants: Sequence[CellRequest],
    cells: Sequence[Cell],
    count: int,
    pool: InspectPool,
    verdicts: Callable[[Sequence[PreparedCell]], Sequence[Cell]],
) -> list[Cell]:
    """The cells, of which those whose plan was chosen for a GPU have the best of `count` plans by its binaries.

    `pool`: prepares plans. `verdicts`: compiles prepared plans. Raises mistakes that affect a case on all targets.
    """
    found = list(cells)
    numbers = [number for number, want in enumerate(wants) if _is_judged(want, cells[number])]
    asked = [replace(wants[number], present=_plan_of(cells[number])) for number in numbers]
    judged = judged_plans(asked, count, pool, verdicts)
    for number, each in zip(numbers, judged, strict=True):
        found[number] = _best(cells[number], *each)
    return found


def judged_plans(
    wants: Sequence[CellRequest],
    count: int,
    pool: InspectPool,
    verdicts: Callable[[Sequence[PreparedCell]], Sequence[Cell]],
) -> list[tuple[list[PreparedCell], list[Cell]]]:
    """The plans to judge of each request, compiled; others take the place of those that cannot be taken. Neighbours of
    the best of them come last."""
    found: list[tuple[list[PreparedCell], list[Cell]]] = [([], []) for _ in wants]
    going_on, asked = list(range(len(wants))), list(wants)
    while going_on:
        prepared = list(prepare_to_judge([asked[number] for number in going_on], count, pool))
        judged = iter(verdicts([each for plans in prepared for each in plans]) if any(prepared) else [])
        for number, plans in zip(going_on, prepared, strict=True):
            cells = [next(judged) for _ in plans]
            of_use = [is_of_use(_bound(*each)) for each in zip(plans, cells, strict=True)]
            found[number][0].extend(plans)
            found[number][1].extend(cells)
            asked[number] = replace(asked[number], of_use=(*asked[number].of_use, *of_use))
        going_on = [
            number for number, plans in zip(going_on, prepared, strict=True)
            if not all(asked[number].of_use[len(found[number][0]) - len(plans) :])
        ]  # fmt: skip
    wanted = {number: _near(asked[number], *each) for number, each in enumerate(found)}
    wanted = {number: want for number, want in wanted.items() if want.near}
    near = list(prepare_to_judge(list(wanted.values()), count, pool))
    judged = iter(verdicts([each for plans in near for each in plans]) if any(near) else [])
    for number, plans in zip(wanted, near, strict=True):
        found[number][0].extend(plans)
        found[number][1].extend(next(judged) for _ in plans)
    return found


def _near(want: CellRequest, plans: Sequence[PreparedCell], verdicts: Sequence[Cell]) -> CellRequest:
    """The request for neighbours of the plans that are worth it."""
    bounds = [_bound(*each) for each in zip(plans, verdicts, strict=True)]
    judged = [each.planned.plan for each in plans if each.planned is not None]
    numbers = worth_neighbours(bounds)
    near = [found.plan for number in numbers if (found := plans[number].planned) is not None]
    spilling = [
        found.plan for number in numbers
        if spills_in_loops(bounds[number]) and (found := plans[number].planned) is not None
    ]  # fmt: skip
    return replace(want, judged=tuple(judged), near=tuple(near), spilling_near=tuple(spilling))


def _is_judged(want: CellRequest, cell: Cell) -> bool:
    planned = cell.planned
    if not isinstance(want.case, KernelCase) or want.target.vendor == "cpu" or cell.unknown or planned is None:
        return False
    return planned.origin == CHOSEN and planned.rung != BOTTOM and not planned.deterministic


def _plan_of(cell: Cell) -> Mapping[str, Any] | None:
    return None if cell.planned is None else cell.planned.plan


def _best(cell: Cell, plans: Sequence[PreparedCell], verdicts: Sequence[Cell]) -> Cell:
    """The cell of the best plan; the present one where no plan can be judged."""
    best = number_of_best(plans, verdicts)
    chosen = cell if best is None else verdicts[best]
    if chosen.planned is None:
        return chosen
    return replace(chosen, planned=replace(chosen.planned, judged=len(plans)))


def number_of_best(plans: Sequence[PreparedCell], verdicts: Sequence[Cell]) -> int | None:
    """Which of some plans is the best by its binaries; None where none can be judged."""
    return best_by_bound([_bound(plan, verdict) for plan, verdict in zip(plans, verdicts, strict=True)])


def _bound(plan: PreparedCell, verdict: Cell) -> PlanBound | None:
    if not verdict.fits:
        return None
    loops = [launch.loops for launch in verdict.launches if launch.loops is not None]
    bound = bound_of_launches(loops, plan.unseen) if len(loops) == len(verdict.launches) else None
    return bound if verdict.shortage is None else unless_loops_spill(bound)
