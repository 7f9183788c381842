"""Operands that a launch of its own copies first, so that the axis which dots contract is contiguous."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from ...cost_model.item_widths import tensor_rate
from ...cost_model.operand_copies import more_instructions
from ..space import PlanSearchSpace, StructuralChoices
from .decision import Alternatives, PlanDecision


def _alternatives(space: PlanSearchSpace) -> Iterable[Alternatives]:
    names = _worth_copying(space)
    yield from (partial(_toggle, tensor) for tensor in names)
    if len(names) > 1:
        yield partial(_all, names)


def _worth_copying(space: PlanSearchSpace) -> tuple[str, ...]:
    """Operands of a GPU's tensor cores that are not moved in whole vectors as they lie."""
    if space.limits.warp == 1 or not space.needs.contracted:
        return ()
    slow = {
        touch.place
        for loop in space.loops(StructuralChoices(order=space.tiles, lanes=space.lanes[0]))
        for _, touch in loop.touches
        if tensor_rate(loop.tensor_dtype, space.limits) and more_instructions(touch, space.limits)
    }
    return tuple(name for name in sorted(space.needs.contracted) if name in slow)


def _names(space: PlanSearchSpace) -> list[str]:
    return sorted(space.needs.contracted) if space.limits.warp > 1 else []


def _toggle(tensor: str, choices: StructuralChoices) -> Iterator[StructuralChoices]:
    others = tuple(name for name in choices.k_major if name != tensor)
    yield replace(choices, k_major=others if tensor in choices.k_major else tuple(sorted((*others, tensor))))


def _all(names: tuple[str, ...], choices: StructuralChoices) -> Iterator[StructuralChoices]:
    if choices.k_major != names:
        yield replace(choices, k_major=names)


K_MAJOR = PlanDecision(
    "k_major", "tensor", "copied first, so that the axis which dots contract is contiguous, in rows of whole chunks",
    _alternatives, title="K-major copies", entry="k_major", gpu_only=True, names=_names, weight=1,
)  # fmt: skip
