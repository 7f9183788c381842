"""Scratchpads in two copies, which a loop swaps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from ..space import PlanSearchSpace
from ..structural_choices import StructuralChoices
from .decision import Alternatives, PlanDecision


class Copies(PlanDecision):
    """Whether a scratchpad has two copies, so that reading the old one and writing the new one is one phase."""

    field = "copies"
    subject = "scratchpad"
    meaning = "kept twice: one copy is read while the other is written"

    def alternatives(self, space: PlanSearchSpace) -> Iterable[Alternatives]:
        return [partial(_toggle, scratchpad.label) for scratchpad in space.needs.scratchpads if scratchpad.can_copy]


def _toggle(label: str, choices: StructuralChoices) -> Iterator[StructuralChoices]:
    others = tuple(each for each in choices.copies if each != label)
    yield replace(choices, copies=others if label in choices.copies else (*others, label))
