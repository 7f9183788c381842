"""Refuse plans under which programs of one launch would meet in memory."""

from __future__ import annotations

from ...analysis.kernel_analysis import KernelAnalysis
from ...analysis.races import programs_meet
from ...errors import PlanError
from ...locations import place_of


def check_programs(analysis: KernelAnalysis) -> None:
    """Raise `PlanError` where a tensor is written and accessed again at what may be another program's positions."""
    shared = [axis.name for axis in analysis.axes.values() if axis.is_tile and not axis.has_one_program]
    found = [access for item in analysis.phase for access in analysis.accesses(item)]
    for race in programs_meet(found, shared):
        raise PlanError(
            f"{race.write.base.name_hint or 'a tensor'} is written and accessed again at positions that programs"
            f" along {race.axis} share: give {race.axis} one program, or make it a whole axis",
            place_of(race.write.op),
        )
