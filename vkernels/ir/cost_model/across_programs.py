"""What persistent programs on a GPU save whose loop of dots goes on from each program to the next."""

from __future__ import annotations

import numpy as np

from ..plan import Home
from .plan_batch import Numbers, PlanBatch


def goes_on(at: PlanBatch) -> Numbers:
    """Of which plans a persistent program's loop of chunks goes on to the next program's, pipelined: those with stages
    and with tiles that are all full, of a kernel with just one loop, a loop of dots
    (`lowering/ttir/across_programs.py` says of which code).
    """
    looping = [loop for loop in at.loops if loop.axes or loop.ranges]
    in_memory = any(home in (Home.MEMORY, Home.SHARED) for _, home in at.choices.homes)
    if len(looping) != 1 or looping[0].ranges or len(looping[0].axes) != 1 or not looping[0].has_dots or in_memory:
        return False
    if at.choices.split is not None or at.choices.launches or looping[0].visits:
        return False
    (axis,) = looping[0].axes
    full: Numbers = (np.asarray(at.resident) > 0) & (np.asarray(at.stages) > 1) & (at.trips(axis) > 1)
    for tile in at.choices.order:
        full = full & (at.extents[tile] % np.maximum(1, at.size(tile)) == 0)
    return full


def seconds_saved(at: PlanBatch, waves: Numbers, between: float) -> Numbers:
    """Seconds that plans do not wait between programs. `waves`: programs one after another; `between`: seconds from the
    end of one to the first products of the next."""
    return np.where(goes_on(at), np.maximum(0, waves - 1) * between, 0.0)
