"""What a plan's launches take by what no binary shows, for each number of programs that a multiprocessor holds.

How many it holds is known once a launch is compiled: by its registers and its shared memory. Needs foretell both, and
often foretell more than there is.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..cost_model.gpu import room_of
from ..cost_model.launches import parts_of
from ..cost_model.model_time import model_time
from ..cost_model.plan_batch import ModeledTimes, PlanBatch
from ..limits import Limits
from ..plan import Plan
from ..unseen_time import UnseenTime
from .one_plan import batch_of
from .space import PlanSearchSpace

UNSEEN = ("memory", "latency")
"""Parts of a modelled time that no binary shows."""
SHARED = "shared memory"
"""Neither does it show which addresses meet in a bank; those of operands of dots never do."""


def unseen_time(space: PlanSearchSpace, plan: Plan, least: float = 0.0) -> UnseenTime:
    """What a plan takes so on a GPU. Raises `PlanError` where the kernel cannot have it."""
    at = batch_of(space, plan)
    parts = parts_of(at) if at.launched else (at,)
    launches = space.limits.launch_seconds * at.launches
    return UnseenTime(least, tuple(_by_residency(part, space.limits) for part in parts), launches)


def _by_residency(at: PlanBatch, limits: Limits) -> tuple[float, ...]:
    """Programs are taken to share a multiprocessor's shared memory: so many are there as each leaves room for."""
    room = room_of(limits)
    counts = np.arange(1, room.programs + 1)
    alike = replace(at, sizes={name: np.repeat(size, len(counts)) for name, size in at.sizes.items()})
    times = model_time(alike, limits, np.ones(len(counts)), room.shared // counts)
    names = UNSEEN if any(loop.has_dots for loop in at.loops) else (*UNSEEN, SHARED)
    unseen = ModeledTimes({name: times.parts[name] for name in names}, 0.0)
    return tuple(map(float, np.broadcast_to(unseen.seconds, counts.shape)))
