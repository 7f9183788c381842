"""Judge a cell by the resources of its launches: whether it fits, and if not, what is short."""

from __future__ import annotations

from collections.abc import Sequence

from vkernels.compiler.backends.resources import taken_by
from vkernels.ir.planning.resources import Resource, Shortage, misfit, spill
from vkernels.targets import Target, limits_of

from .cell_requests import CellVerdict, PreparedCell
from .cells import Cell, LaunchFailure, LaunchUse, judge
from .memory import swap_bytes, too_large, too_many


def verdict(prepared: PreparedCell, found: Sequence[LaunchUse | LaunchFailure]) -> CellVerdict:
    """The cell, of what each of its launches takes."""
    case, target = prepared.want.case, prepared.want.target
    launches = tuple(judge(each["name"], use, target) for each, use in zip(prepared.launches, found, strict=True))
    if prepared.misfit:
        launches = (judge(case.source.name, LaunchFailure(prepared.misfit, 0.0), target),)
    swap = swap_bytes(prepared.launches, launches, prepared.own_bytes, target) if not prepared.misfit else None
    whole = None
    if swap is not None and prepared.tensor_bytes is not None:
        whole = too_many(prepared.launches) or too_large(prepared.tensor_bytes, swap, target)
    cell = Cell(
        case.source.shown, target.key, target.architecture, case.dtype, case.shape, case.configuration, launches,
        prepared.want.unknown, prepared.planned, prepared.tensor_bytes, swap, whole.reason if whole else "",
    )  # fmt: skip
    hopeless = prepared.tensor_bytes is not None and prepared.tensor_bytes > target.memory  # whatever the plan
    return CellVerdict(cell, None if hopeless else shortage_of(found, target) or whole)


def shortage_of(found: Sequence[LaunchUse | LaunchFailure], target: Target) -> Shortage | None:
    """What the launches take too much of; a spill is told of where there is nothing worse."""
    limits = limits_of(target)
    taken = [taken_by(use.resources, use.threads) for use in found if isinstance(use, LaunchUse)]
    if len(taken) < len(found):
        reason = next(use.reason for use in found if isinstance(use, LaunchFailure))
        return Shortage(Resource.CODE, 0, 0, reason)
    reasons = [*(misfit(each, limits) for each in taken), *(spill(each) for each in taken)]
    return next((reason for reason in reasons if reason is not None), None)
