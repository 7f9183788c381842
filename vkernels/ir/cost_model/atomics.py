"""What updating tensors by atomics costs on a CPU, and what private copies of them take."""

from __future__ import annotations

import numpy as np

from ..limits import Limits
from .cpu_registers import slots
from .loops import LINE, LoopStep
from .plan_batch import Numbers, PlanBatch

UPDATE_MANY = 4.0
"""Cycles more where more than `AT_ONCE` elements are updated at once: beyond, integers are loaded ahead of all updates
and wait on the stack, and cores are slow to find there what was written before a store to an unknown address. Typed in
from one machine; plans are the same with half and twice as much."""
AT_ONCE = 8
IN_TURN = 3.0
"""Cycles to begin the next program of a copy: a step of a loop."""


def update_cycles(step: LoopStep, at: PlanBatch, width: int, limits: Limits) -> Numbers:
    """Cycles of updating a tile once."""
    touch, core = step.touch, limits.core_costs
    assert touch is not None
    elements, is_far = at.tile(step.axes), at.updates.tensors.get(touch.place, 0) > limits.shared
    is_alone = touch.home is not None or (at.choices.private_copies > 0 and touch.place in at.updates.private)
    if not is_alone:
        busy = np.minimum(limits.multiprocessors, at.threads_of_work)
        lines = max(1.0, at.updates.tensors.get(touch.place, 0) / LINE)
        contended = np.minimum(core.atomic * busy, core.contended * np.maximum(1.0, busy / lines))
        return elements * (contended + core.atomic_far * is_far)
    if touch.run is not None and touch.run == at.choices.lanes:
        return slots(step.axes, at, width) * (core.update + core.update_far * is_far)
    return elements * (core.update + core.update_far * is_far + np.where(elements > AT_ONCE, UPDATE_MANY, 0.0))


def copied_bytes(at: PlanBatch) -> tuple[float, float]:
    """Bytes of all private copies together, and of the tensors that they are combined into."""
    copies = at.choices.private_copies
    if copies < 2:
        return 0.0, 0.0
    private = at.updates.private
    return copies * float(sum(private.values())), float(sum(at.updates.tensors[name] for name in private))
