"""Stores that pass a CPU's caches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from ..space import PlanSearchSpace
from ..structural_choices import StructuralChoices
from .decision import Alternatives, PlanDecision


class Streams(PlanDecision):
    """The tensors whose stores pass the caches, because nothing reads them soon."""

    field = "streams"
    subject = "tensor"
    meaning = "its stores pass the caches: nothing reads them soon"

    def alternatives(self, space: PlanSearchSpace) -> Iterable[Alternatives]:
        return [partial(_toggle, space)] if space.limits.warp == 1 and space.streamable else []


def _toggle(space: PlanSearchSpace, choices: StructuralChoices) -> Iterator[StructuralChoices]:
    yield replace(choices, streams=() if choices.streams else space.streamable)
