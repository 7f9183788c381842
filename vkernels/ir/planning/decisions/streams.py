"""Tensors whose stores bypass a CPU's caches, because nothing reads them soon."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from ..space import PlanSearchSpace, StructuralChoices
from .decision import PlanDecision


def _toggle(space: PlanSearchSpace, choices: StructuralChoices) -> Iterator[StructuralChoices]:
    yield replace(choices, streams=() if choices.streams else space.streamable)


STREAMS = PlanDecision(
    "streams", "tensor", "its stores pass the caches: nothing reads them soon",
    lambda space: [partial(_toggle, space)] if space.limits.warp == 1 and space.streamable else [],
    title="streamed tensors", weight=1,
)  # fmt: skip
