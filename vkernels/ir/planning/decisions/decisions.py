"""Every decision of a plan, in the order in which the search makes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from ...pin import Pin
from ..space import PlanSearchSpace, StructuralChoices
from .copies import COPIES
from .decision import Alternatives, PlanDecision
from .descriptors import DESCRIPTORS
from .guards import GUARDS
from .homes import HOMES, all_in_memory, all_on_chip
from .k_major import K_MAJOR
from .lanes import LANES, batch_lanes, lane_axes
from .launches import LAUNCHES, homes_across
from .online import ONLINE
from .order import ORDER
from .packs import PACKS
from .parallel import PARALLEL
from .private_copies import PRIVATE_COPIES
from .sizes import CHUNKS, RESIDENT_PROGRAMS, STAGES, TILES, WARPS
from .splits import SPLITS
from .streams import STREAMS
from .swizzle import SWIZZLE
from .warp_specialized import WARP_SPECIALIZED

DECISIONS = (
    TILES, CHUNKS, HOMES, COPIES, ORDER, LANES, SPLITS, ONLINE, GUARDS, PACKS, K_MAJOR, STREAMS, SWIZZLE,
    PRIVATE_COPIES, DESCRIPTORS, WARP_SPECIALIZED, LAUNCHES, PARALLEL, WARPS, STAGES, RESIDENT_PROGRAMS,
)  # fmt: skip
DECISION_OF = {decision.field: decision for decision in DECISIONS}
NEVER_SPLIT = {
    decision.field: getattr(StructuralChoices(), decision.field) for decision in DECISIONS if not decision.with_split
}
"""What a kernel with a split axis cannot have otherwise."""


def things_to_decide(space: PlanSearchSpace) -> list[Alternatives]:
    """What there is to decide about a kernel, one thing after another."""
    found = (alternatives for decision in DECISIONS for alternatives in decision.alternatives(space))
    return [partial(_consistent, alternatives) for alternatives in found]


def _consistent(alternatives: Alternatives, choices: StructuralChoices) -> Iterator[StructuralChoices]:
    """Alternatives; where an axis is split, without what excludes that; K-major copies are moved by no descriptor, and
    warps have roles in loops whose operands are, of kernels that keep nothing in memory."""
    for found in alternatives(choices):
        if copied := set(found.descriptors) & set(found.k_major):
            found = replace(found, descriptors=tuple(name for name in found.descriptors if name not in copied))
            found = replace(found, warp_specialized=())
        if found.held.intersection(found.parallel):
            found = replace(found, parallel=tuple(axis for axis in found.parallel if axis not in found.held))
        if found.homes or found.launches or found.held.intersection(found.warp_specialized):
            found = replace(found, warp_specialized=())
        yield found if found.split is None else replace(found, **NEVER_SPLIT)


def excludes_split(pin: Pin) -> bool:
    """Whether a pin asks for what a kernel with a split axis cannot have."""
    return any(getattr(pin, field) not in (None, plain) for field, plain in NEVER_SPLIT.items())


def weight_of(choices: StructuralChoices) -> int:
    """The decisions that were made, each with its weight."""
    made = {**vars(choices), "splits": choices.split}
    return sum(each.weight * _count(made[each.field], each) for each in DECISIONS if each.weight)


def _count(chosen: object, decision: PlanDecision) -> int:
    if isinstance(chosen, tuple):
        return min(1, len(chosen)) if decision.as_one else len(chosen)
    return chosen != decision.plain


def neighbours(space: PlanSearchSpace, choices: StructuralChoices) -> Iterator[StructuralChoices]:
    """What is one decision away; values that cross launches are in memory."""
    for alternatives in things_to_decide(space):
        for found in alternatives(choices):
            yield replace(found, homes=homes_across(space, found, found.launches)) if found.launches else found


def starting_choices(space: PlanSearchSpace) -> Iterator[StructuralChoices]:
    """A start for each set of whole axes that may be held at once and each axis along the lanes, the rest plain.

    A CPU may pack all operands at once: packing them one by one would look worse at each step. It may go online while
    holding the results of dots, or while accumulating them in their homes: without going online, it must not hold what
    its registers do not. Where lanes are along a batch of small products, what one gives the next is kept for all of
    the batch.
    """
    on_cpu = space.limits.warp == 1
    packable = tuple(sorted(space.needs.packable)) if space.needs.dots else ()
    for held in space.holdable():
        for lanes in (lane_axes(space) if on_cpu else space.lanes[:1]) or (None,):
            plain = StructuralChoices(held=held, order=space.tiles, lanes=lanes)
            yield plain
            if on_cpu and lanes in batch_lanes(space) and (homes := all_on_chip(space, held)):
                yield replace(plain, homes=homes)
            if space.lean:
                yield replace(plain, homes=all_in_memory(space))
            if on_cpu and packable:
                yield replace(plain, packs=packable)
            for axis in space.can_go_online if on_cpu else ():
                if axis not in held and space.beside_online[axis]:
                    homes = tuple(sorted(space.homed_online(axis, held).items()))
                    if homes or space.beside_online[axis] <= held:
                        yield replace(plain, online=(axis,), homes=homes)
                    if homes and packable:
                        yield replace(plain, online=(axis,), homes=homes, packs=packable)
