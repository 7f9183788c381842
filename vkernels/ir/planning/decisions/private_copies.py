"""Private copies of tensors that atomics update, among which programs are divided."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from ...cost_model.atomics import copied_bytes
from ...cost_model.plan_batch import Numbers, PlanBatch
from ..bounds import SWAP
from ..space import PlanSearchSpace, StructuralChoices
from .decision import Alternatives, PlanDecision

PER_CORE = (1, 4)
"""Copies for each core that are tried: several even out what programs take."""


def _alternatives(space: PlanSearchSpace) -> list[Alternatives]:
    return [partial(_copies, space)] if space.limits.warp == 1 and space.updates.private else []


def _copies(space: PlanSearchSpace, choices: StructuralChoices) -> Iterator[StructuralChoices]:
    """None, one, or some for each core; beside neither several launches nor a split axis."""
    several = [number * space.limits.multiprocessors for number in PER_CORE] if space.tiles else []
    numbers = sorted({0, 1, *several})
    if choices.split is None and not choices.launches:
        yield from (replace(choices, private_copies=n) for n in numbers if n != choices.private_copies)


def _fit(space: PlanSearchSpace, at: PlanBatch) -> Numbers:
    """Plans whose copies find room in memory, beside the tensors."""
    return copied_bytes(at)[0] <= space.limits.memory * SWAP or space.pin.private_copies is not None


PRIVATE_COPIES = PlanDecision(
    "private_copies", "",
    "copies of tensors that atomics update, among which programs are divided; 1: programs that meet run in turn",
    _alternatives, title="private copies", plain=0, weight=2, with_split=False, worthwhile=_fit,
)  # fmt: skip
