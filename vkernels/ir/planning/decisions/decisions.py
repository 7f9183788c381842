"""Every decision of a plan, in the order in which the search makes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..space import PlanSearchSpace, StructuralChoices
from .copies import COPIES
from .decision import Alternatives
from .homes import HOMES, all_in_memory
from .lanes import LANES, MAX_LANE_AXES
from .launches import LAUNCHES
from .online import ONLINE
from .order import ORDER
from .packs import PACKS
from .sizes import CHUNKS, RESIDENT_PROGRAMS, STAGES, TILES, WARPS
from .splits import SPLITS
from .streams import STREAMS
from .swizzle import SWIZZLE

DECISIONS = (
    TILES, CHUNKS, HOMES, COPIES, ORDER, LANES, SPLITS, ONLINE, PACKS, STREAMS, SWIZZLE, LAUNCHES, WARPS,
    STAGES, RESIDENT_PROGRAMS,
)  # fmt: skip
DECISION_OF = {decision.field: decision for decision in DECISIONS}


def things_to_decide(space: PlanSearchSpace) -> list[Alternatives]:
    """What there is to decide about a kernel, one thing after another."""
    return [alternatives for decision in DECISIONS for alternatives in decision.alternatives(space)]


def neighbours(space: PlanSearchSpace, choices: StructuralChoices) -> Iterator[StructuralChoices]:
    """What is one decision away."""
    for alternatives in things_to_decide(space):
        yield from alternatives(choices)


def starting_choices(space: PlanSearchSpace) -> Iterator[StructuralChoices]:
    """A start for each set of whole axes that may be held at once and each axis along the lanes, the rest plain.

    A CPU may pack all operands at once: packing them one by one would look worse at each step.
    """
    on_cpu = space.limits.warp == 1
    packable = tuple(sorted(space.needs.packable)) if space.needs.dots else ()
    for held in space.holdable():
        for lanes in (space.lanes[:MAX_LANE_AXES] if on_cpu else space.lanes[:1]) or (None,):
            plain = StructuralChoices(held=held, order=space.tiles, lanes=lanes)
            yield plain
            if space.lean:
                yield replace(plain, homes=all_in_memory(space))
            if on_cpu and packable:
                yield replace(plain, packs=packable)
