"""Refuse plans under which programs of one launch would meet in memory."""

from __future__ import annotations

from ...dialect import TensorArgumentType
from ...errors import PlanError
from ..accesses import clash, elementwise
from .reading import Reading


def check_programs(reading: Reading) -> None:
    """Raise `PlanError` where a tensor is written and accessed again at what may be another program's positions."""
    shared = [axis.name for axis in reading.axes.values() if axis.is_tile and not axis.has_one_program]
    found = [
        access
        for item in reading.phase
        for access in reading.accesses(item)
        if isinstance(access.base.type, TensorArgumentType)
    ]
    for number, one in enumerate(found):
        for other in found[number + 1 :]:
            if clash(one, other) and (bad := [axis for axis in shared if not elementwise(one, other, [axis])]):
                raise PlanError(
                    f"{one.base.name_hint or 'a tensor'} is written and accessed again at positions that programs"
                    f" along {bad[0]} share: give {bad[0]} one program, or make it a whole axis"
                )
