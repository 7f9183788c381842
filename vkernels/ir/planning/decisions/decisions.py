"""Every decision of a plan, in the order in which the search makes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..space import PlanSearchSpace
from ..structural_choices import StructuralChoices
from .copies import Copies
from .decision import Alternatives, PlanDecision
from .homes import Homes, all_in_memory
from .lanes import MAX_LANE_AXES, Lanes
from .launches import Launches
from .online import Online
from .order import Order
from .packs import Packs
from .sizes import Chunks, ResidentPrograms, Stages, Tiles, Warps
from .splits import Splits
from .streams import Streams

DECISIONS: tuple[PlanDecision, ...] = (
    Tiles(),
    Chunks(),
    Homes(),
    Copies(),
    Order(),
    Lanes(),
    Splits(),
    Online(),
    Packs(),
    Streams(),
    Launches(),
    Warps(),
    Stages(),
    ResidentPrograms(),
)


def things_to_decide(space: PlanSearchSpace) -> list[Alternatives]:
    """What there is to decide about a kernel, one thing after another."""
    return [alternatives for decision in DECISIONS for alternatives in decision.alternatives(space)]


def neighbours(space: PlanSearchSpace, choices: StructuralChoices) -> Iterator[StructuralChoices]:
    """What is one decision away."""
    for alternatives in things_to_decide(space):
        yield from alternatives(choices)


def starting_choices(space: PlanSearchSpace) -> Iterator[StructuralChoices]:
    """A start for each set of whole axes that may be held at once and each axis along the lanes, the rest plain.

    Where lanes do not lie along an operand, a CPU packs it: changes from there one by one would each look worse.
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
