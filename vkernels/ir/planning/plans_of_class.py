"""The plan of a class of sizes: the one that is never far from the best, at sizes across the class."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import inf

from ..analysis.needs import NeedsUse
from ..dialect import KernelOp
from ..errors import Error
from ..limits import Limits
from ..pin import Pin
from ..plan import Plan
from .choose_plan import Chosen, plans_down, rung_of
from .fits import why_not
from .judge_plan import why_refused
from .one_plan import batch_of, model_plan, model_use, registers_of
from .space import PlanSearchSpace, read_space

PLANS_EACH = 3
"""Plans that are compared, of those that are best at one sample of a class."""


@dataclass(frozen=True)
class SampleSizes:
    """Sizes of a call by name, and the strides of its tensors in elements."""

    sizes: Mapping[str, int]
    strides: Mapping[str, Sequence[int]]


def plans_of_class(
    kernel: KernelOp,
    largest: SampleSizes,
    samples: Sequence[SampleSizes],
    limits: Limits,
    pin: Pin | None = None,
    wanted: Callable[[NeedsUse], bool] = lambda use: True,
) -> Iterator[Chosen]:
    """Plans for all sizes up to the largest of a class, the best first; then those of the largest, as `plans_down` has
    them. Each fits at the largest sizes.

    The first loses least against the best plan of each sample, at the sample where it loses most. An axis that it holds
    is held at its largest.
    """
    given: list[Plan] = []
    first = _least_loss(kernel, largest, samples, limits, pin)
    if first is not None and wanted(first.use):
        given.append(first.plan)
        yield first
    for chosen in plans_down(kernel, largest.sizes, limits, None, largest.strides, pin, wanted):
        if chosen.plan not in given:
            yield chosen


def _least_loss(
    kernel: KernelOp, largest: SampleSizes, samples: Sequence[SampleSizes], limits: Limits, pin: Pin | None
) -> Chosen | None:
    space = read_space(kernel, largest.sizes, limits, None, largest.strides, pin)
    spaces = [read_space(kernel, each.sizes, limits, space.needs, each.strides, pin) for each in samples]
    best = [
        list(islice(plans_down(kernel, each.sizes, limits, space.needs, each.strides, pin), PLANS_EACH))
        for each in (*samples, largest)
    ]
    plans = [
        _widened(chosen.plan, at, space) for at, found in zip((*spaces, space), best, strict=True) for chosen in found
    ]
    least = [found[0].seconds for found in best]
    losses = {
        number: max(_seconds(at, plan) / seconds for at, seconds in zip(spaces, least, strict=False))
        for number, plan in enumerate(plans)
        if plan not in plans[:number]
    }
    for number in sorted(losses, key=losses.__getitem__):
        plan = plans[number]
        if losses[number] < inf and why_refused(space, plan) is None:
            use, batch = space.use_of(plan), batch_of(space, plan)
            if why_not(use, limits, 0.0 if space.may_spill else registers_of(batch, use, limits)) is None:
                return Chosen(plan, use, model_use(batch, use, limits), rung_of(plan, space))
    return None


def _widened(plan: Plan, at: PlanSearchSpace, largest: PlanSearchSpace) -> Plan:
    """A plan of a sample for the whole class: axes that it holds, or has in one tile, at their largest."""

    def wide(sizes: Mapping[str, int]) -> dict[str, int]:
        return {
            axis: max(size, largest.extents[axis]) if 1 < at.extents[axis] <= size else size
            for axis, size in sizes.items()
        }

    if at.limits.warp > 1:  # powers of two
        return plan
    return replace(plan, tiles=wide(plan.tiles), chunks=wide(plan.chunks))


def _seconds(at: PlanSearchSpace, plan: Plan) -> float:
    try:
        return float(model_plan(at, plan).seconds)
    except Error:
        return inf
