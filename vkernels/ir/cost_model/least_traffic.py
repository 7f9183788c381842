"""The bytes of each tensor that a call has to read and to write, whatever its plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf, prod

from xdsl.ir import SSAValue

from ..dialect import AccessOp, GatherOp, KernelOp, ScatterOp, TensorArgumentType, WriteOp
from .index_sums import Elements, elements_taken
from .item_widths import bytes_of
from .loops import Loop, LoopStep

_Taken = tuple[Elements | None, ...]


@dataclass
class BytesOfTensor:
    """Bytes of a tensor: of the `whole`, that are `gathered` by indices which may point anywhere, in rows of which the
    shortest has `row` bytes, and of elements that are `read` and `written`, each once."""

    whole: int
    gathered: float = 0.0
    row: float = inf
    read: _Union = field(default_factory=lambda: _Union())
    written: _Union = field(default_factory=lambda: _Union())

    @property
    def moved(self) -> float:
        return min(self.whole, self.read.bytes) + min(self.whole, self.written.bytes)


@dataclass
class _Union:
    """What accesses of one tensor take together, at least: those that have no element in common, the largest first."""

    accesses: list[tuple[float, _Taken]] = field(default_factory=list)
    found: float = 0.0
    """Bytes at places that are not known, which may be anywhere."""

    @property
    def bytes(self) -> float:
        apart: list[_Taken] = []
        total = 0.0
        for moved, taken in sorted(self.accesses, key=lambda each: -each[0]):
            if not any(_meet(taken, other) for other in apart):
                apart.append(taken)
                total += moved
        return max(total, self.found)


def bytes_of_tensors(
    kernel: KernelOp,
    work: Iterable[tuple[Loop, LoopStep, float]],
    extents: Mapping[str, int],
    sizes: Mapping[str, int],
) -> list[BytesOfTensor]:
    """What all accesses move. `work`: each one's loop and step, and the part of its positions that masks leave."""
    found: dict[SSAValue, BytesOfTensor] = {}
    for loop, step, part in work:
        op = step.origin
        if not isinstance(op, AccessOp) or not isinstance(op.base.type, TensorArgumentType) or step.touch is None:
            continue
        shape = [sizes[each] if isinstance(each, str) else each for each in op.base.type.shape]
        width = bytes_of(op.base.type.element)
        tensor = found.setdefault(op.base, BytesOfTensor(prod(shape) * width))
        taken = tuple(elements_taken(each, extents, sizes) for each in step.touch.index)
        is_found = isinstance(op, GatherOp | ScatterOp) and None in taken
        axes = dict.fromkeys((*step.touch.axes, *((*loop.ranges, *step.ranges) if is_found else ())))
        asked = prod(extents.get(axis, 1) for axis in axes) * part * width
        side = tensor.written if isinstance(op, WriteOp) else tensor.read
        if None not in taken:
            reached = prod(min(each.count, length) for each, length in zip(taken, shape, strict=True) if each)
            side.accesses.append((min(asked, reached * width), taken))
        else:
            side.found += asked
            if is_found and side is tensor.read:
                rows = prod(length for each, length in zip(taken, shape, strict=True) if each is None)
                tensor.gathered += asked
                tensor.row = min(tensor.row, tensor.whole / max(1, rows))
    return list(found.values())


def _meet(one: _Taken, other: _Taken) -> bool:
    return all(a is None or b is None or a.meet(b) for a, b in zip(one, other, strict=True))
