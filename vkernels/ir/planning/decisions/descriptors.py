"""Tensors whose tiles a GPU's copy unit moves, box by box, beside the program's threads."""

from __future__ import annotations

from ...analysis.descriptors import why_not_described
from ..bounds import tensors_of
from ..space import PlanSearchSpace
from .decision import PlanDecision


def _names(space: PlanSearchSpace) -> tuple[str, ...]:
    return tuple(name for name in tensors_of(space.kernel) if why_not_described(space.kernel, name) is None)


DESCRIPTORS = PlanDecision(
    "descriptors", "tensor", "its tiles are moved by descriptors, where the GPU and the call's layout allow it",
    title="described tensors", entry="descriptor", gpu_only=True, names=_names, weight=1,
)  # fmt: skip
