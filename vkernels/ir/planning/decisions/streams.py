"""Tensors whose stores bypass a CPU's caches, because nothing reads them soon."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from ...cost_model.item_widths import bytes_of
from ...cost_model.loops import MOST_ALIGNED
from ...dialect import GatherOp, LoadOp
from ..bounds import tensors_of
from ..space import PlanSearchSpace, StructuralChoices
from .decision import Alternatives, PlanDecision


def _alternatives(space: PlanSearchSpace) -> list[Alternatives]:
    found = streamable(space) if space.limits.warp == 1 else ()
    return [partial(_toggle, found)] if found else []


def _toggle(names: tuple[str, ...], choices: StructuralChoices) -> Iterator[StructuralChoices]:
    yield replace(choices, streams=() if choices.streams else names)


def streamable(space: PlanSearchSpace) -> tuple[str, ...]:
    """Tensors that a kernel writes and does not read, whose rows begin at whole registers.

    None where all that the kernel touches fits the second cache: whatever reads a result soon finds it there.
    """
    tensors = tensors_of(space.kernel)
    if sum(map(space.tensor_bytes, tensors.values())) <= space.limits.shared:
        return ()
    found: list[str] = []
    read = {op.base for op in space.kernel.walk() if isinstance(op, GatherOp | LoadOp)}
    for name, tensor in tensors.items():
        if name in space.stored and space.kernel.parameter(name) not in read:
            width = bytes_of(tensor.element)
            steps = [stride * width for stride in space.strides[name] if stride != 1]
            if all(step % min(MOST_ALIGNED, space.limits.register_bytes) == 0 for step in steps):
                found.append(name)
    return tuple(sorted(found))


STREAMS = PlanDecision(
    "streams", "tensor", "its stores pass the caches: nothing reads them soon", _alternatives,
    title="streamed tensors", weight=1,
)  # fmt: skip
