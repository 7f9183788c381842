"""How the elements of tiles are distributed over threads.

As by Triton's `BlockedEncodingAttr`, after its coalescing pass has found which axis is contiguous in memory: threads
along that axis first, each with up to 16 contiguous bytes, then those of the other axes, from the last to the first.
All threads along an axis that a tile lacks hold the same elements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile

from xdsl.dialects.builtin import AnyFloat, IntegerType, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialect import AccessOp, KernelOp, MemoryType, TensorArgumentType, axes_of, element_of
from .algebra import ONE, Expr, least, most, number, product, symbol

WARP = symbol("device.warp")
THREADS = symbol("plan.warps") * WARP
WIDEST = 16
"""Bytes of a thread's widest access."""


def width(type_: Attribute) -> int:
    """Bytes of an element."""
    element = element_of(type_)
    if isinstance(element, AnyFloat | IntegerType):
        return max(1, element.bitwidth // 8)
    return 8


def element_in(memory: SSAValue) -> Attribute:
    """The element type of addressable memory."""
    type_ = memory.type
    if not isinstance(type_, MemoryType):
        raise TypeError(f"{type_} is not memory")
    return type_.element


@dataclass
class Spaces:
    """`fast`: the axis that is contiguous in most accesses; `vector`: elements of the widest access."""

    sizes: Mapping[str, Expr]
    fast: str | None
    vector: int
    _layouts: dict[tuple[str | None, ...], dict[str, tuple[Expr, Expr]]] = field(default_factory=dict)

    def per_thread(self, axes: Iterable[str], space: Iterable[str], fast: str | None = None) -> Expr:
        """Elements per thread of a tile with some axes, distributed like a tile with all axes of the space.

        `fast`: the axis that is contiguous for this tile, if it is not the kernel's.
        """
        layout = self._layout(space, fast)
        return product(layout[axis][1] for axis in axes)

    def _layout(self, space: Iterable[str], fast: str | None = None) -> dict[str, tuple[Expr, Expr]]:
        """For each axis, the threads along it and the elements that each of them holds."""
        known = set(space)
        fast = self.fast if fast is None else fast
        order = sorted((axis for axis in reversed(list(self.sizes)) if axis in known), key=lambda axis: axis != fast)
        key = (fast if fast in known else None, *order)
        if key not in self._layouts:
            self._layouts[key] = self._distributed(order, fast)
        return self._layouts[key]

    def warps_along(self, axis: str, space: Iterable[str]) -> Expr:
        """The number of warps along an axis."""
        layout = self._layout(space)
        before = product(layout[name][0] for name in takewhile(lambda name: name != axis, layout))
        threads = layout[axis][0]
        return least((threads, most((ONE, threads * before / WARP))))

    def _distributed(self, order: list[str], fast: str | None) -> dict[str, tuple[Expr, Expr]]:
        layout: dict[str, tuple[Expr, Expr]] = {}
        rest = THREADS
        elements = product(self.sizes[axis] for axis in order)
        for place, axis in enumerate(order):
            size = blocks = self.sizes[axis]
            if place == 0 and axis == fast:
                blocks = most((ONE, size / least((number(self.vector), most((ONE, elements / THREADS))))))
            threads = rest if place + 1 == len(order) else least((rest, blocks))
            layout[axis] = threads, most((ONE, size / threads))
            rest = rest / threads
        return layout


def spaces_of(kernel: KernelOp, sizes: Mapping[str, Expr]) -> Spaces:
    votes: Counter[str] = Counter()
    widths: Counter[int] = Counter()
    for op in kernel.walk():
        if isinstance(op, AccessOp) and isinstance(op.base.type, TensorArgumentType) and len(op.index):
            size = len(axes_of(op.tile))
            for axis, coefficient in op.index.data[-1].terms:
                if coefficient == 1:
                    votes[axis] += size
            widths[width(op.base.type.element)] += size
    fast = votes.most_common(1)[0][0] if votes else list(sizes)[-1] if sizes else None
    return Spaces(sizes, fast, WIDEST // min((w for w, _ in widths.most_common(1)), default=4))


def contiguous_axis(op: AccessOp) -> str | None:
    """The axis along which an access of a tensor is contiguous, if any."""
    if not len(op.index):
        return None
    mine = axes_of(op.tile)
    return next((axis for axis, coefficient in op.index.data[-1].terms if coefficient == 1 and axis in mine), None)


def largest_spaces(items: Iterable[Operation]) -> list[frozenset[str]]:
    """The axis sets of tiles in some items, without subsets of others."""
    values = (value for item in items for op in item.walk() for value in (*op.operands, *op.results))
    sets = {frozenset(axes_of(value)) for value in values if isinstance(value.type, TensorType)}
    return sorted((one for one in sets if not any(one < other for other in sets)), key=sorted)


def space_for(axes: frozenset[str], spaces: list[frozenset[str]]) -> frozenset[str]:
    """The largest space that contains some axes."""
    return max((space for space in spaces if axes <= space), key=len, default=axes)
