"""The interface of a decision of a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

from ..space import PlanSearchSpace
from ..structural_choices import StructuralChoices

Alternatives = Callable[[StructuralChoices], Iterable[StructuralChoices]]
"""What one thing could be decided to be instead, all else as chosen."""


class PlanDecision:
    """One field of a plan.

    `field`: its name in `Plan`, and in `Pin`. `subject`: what a pin of it names: a tile axis, a whole axis, an axis, a
    tensor, a scratchpad, a phase, or nothing (`pinned.py` knows the names of each); `meaning`: what it says, for
    `vk explain`.

    Whether a kernel can have what is decided is checked where it is mapped (`transforms/apply_plan/check_plan.py`).
    """

    field: ClassVar[str]
    subject: ClassVar[str] = ""
    meaning: ClassVar[str] = ""

    def alternatives(self, space: PlanSearchSpace) -> Iterable[Alternatives]:
        """What the search tries, one thing after another; nothing for sizes, which are tried all at once."""
        return ()
