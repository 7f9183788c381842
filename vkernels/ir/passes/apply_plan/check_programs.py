"""Refuse plans under which programs of one launch would meet in memory."""

from __future__ import annotations

from ...errors import PlanError
from ...places import place_of
from ..races import programs_meet
from .reading import Reading


def check_programs(reading: Reading) -> None:
    """Raise `PlanError` where a tensor is written and accessed again at what may be another program's positions."""
    shared = [axis.name for axis in reading.axes.values() if axis.is_tile and not axis.has_one_program]
    found = [access for item in reading.phase for access in reading.accesses(item)]
    for race in programs_meet(found, shared):
        raise PlanError(
            f"{race.write.base.name_hint or 'a tensor'} is written and accessed again at positions that programs"
            f" along {race.axis} share: give {race.axis} one program, or make it a whole axis",
            place_of(race.write.op),
        )
