"""Tensors whose tiles a GPU's copy unit moves, box by box, beside the program's threads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from ...analysis.descriptors import ELEMENT_BYTES, LEAST_BYTES, MOST_POSITIONS, feeds_dots, is_box, why_not_described
from ...cost_model.plan_batch import Numbers, PlanBatch
from ...dialect import AccessOp, axes_of_box
from ..bounds import tensors_of
from ..space import PlanSearchSpace, StructuralChoices
from .decision import Alternatives, PlanDecision


def _names(space: PlanSearchSpace) -> tuple[str, ...]:
    return tuple(name for name in tensors_of(space.kernel) if why_not_described(space.kernel, name) is None)


def _alternatives(space: PlanSearchSpace) -> list[Alternatives]:
    """Operands of dots, all of them or none: what threads handle anyway gains little."""
    operands = operands_to_describe(space)
    return [partial(_toggle, operands)] if operands else []


def operands_to_describe(space: PlanSearchSpace) -> tuple[str, ...]:
    """Operands of dots that a device's copy unit can move."""
    if not space.limits.tensor_copies or not space.needs.dots:
        return ()
    return tuple(name for name in _names(space) if all(map(feeds_dots, _boxes(space, name))))


def _toggle(operands: tuple[str, ...], choices: StructuralChoices) -> Iterator[StructuralChoices]:
    if not choices.warp_specialized:
        yield replace(choices, descriptors=() if choices.descriptors else operands)


def _boxes(space: PlanSearchSpace, name: str) -> list[AccessOp]:
    users = (use.operation for use in space.kernel.parameter(name).uses)
    return [user for user in users if isinstance(user, AccessOp) and is_box(user)]


def _are_boxes(space: PlanSearchSpace, at: PlanBatch) -> Numbers:
    """Plans whose tiles are boxes that descriptors have."""
    able: Numbers = True
    for name in at.choices.descriptors if space.pin.descriptors is None else ():
        for op in _boxes(space, name):
            axes = axes_of_box(op.index) or ()
            sizes = [1 if axis is None else at.size(axis) for axis in axes]
            strides = space.strides.get(name, ())
            last = sizes[list(strides).index(1) if 1 in strides else len(sizes) - 1]
            able = able & (np.asarray(last) * ELEMENT_BYTES[str(op.memory.element)] >= LEAST_BYTES)
            for size in sizes:
                able = able & (np.asarray(size) <= MOST_POSITIONS)
    return able


DESCRIPTORS = PlanDecision(
    "descriptors", "tensor", "its tiles are moved by descriptors, where the GPU and the call's layout allow it",
    _alternatives, title="described tensors", entry="descriptor", gpu_only=True, names=_names, weight=1,
    as_one=True, worthwhile=_are_boxes,
)  # fmt: skip
