"""Scratchpads in two copies, which a loop swaps: reading the old one and writing the new one is one phase."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from ..space import PlanSearchSpace, StructuralChoices
from .decision import Alternatives, PlanDecision


def _alternatives(space: PlanSearchSpace) -> Iterable[Alternatives]:
    """One scratchpad, and all that a value needs so as not to be kept: one of them alone saves nothing."""
    together = dict.fromkeys(value.freed_by for value in space.needs.crossing if len(value.freed_by) > 1)
    return [partial(_toggle, labels) for labels in [*((label,) for label in _names(space)), *together]]


def _names(space: PlanSearchSpace) -> tuple[str, ...]:
    return tuple(scratchpad.label for scratchpad in space.needs.scratchpads if scratchpad.can_copy)


def _toggle(labels: tuple[str, ...], choices: StructuralChoices) -> Iterator[StructuralChoices]:
    others = tuple(each for each in choices.copies if each not in labels)
    yield replace(choices, copies=others if {*labels} <= {*choices.copies} else (*others, *labels))


COPIES = PlanDecision(
    "copies", "scratchpad", "kept twice: one copy is read while the other is written", _alternatives,
    entry="copy", names=_names, weight=1,
)  # fmt: skip
