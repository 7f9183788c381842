"""What a plan decides that is no size."""

from __future__ import annotations

from dataclasses import dataclass

from ..plan import Home


@dataclass(frozen=True)
class StructuralChoices:
    """The decisions of a plan that are no sizes: plans that share them are one family.

    `held`: the whole axes that are held at once. `homes`: those that are not the default. `split`: the axis that
    programs share. `cuts`: the phases after which a launch begins. The rest as `Plan` has it.
    """

    held: frozenset[str] = frozenset()
    homes: tuple[tuple[str, Home], ...] = ()
    copies: tuple[str, ...] = ()
    packs: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    lanes: str | None = None
    split: str | None = None
    online: tuple[str, ...] = ()
    cuts: tuple[str, ...] = ()
