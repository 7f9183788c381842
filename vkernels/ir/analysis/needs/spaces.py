"""How the elements of tiles are dealt to threads.

As Triton's `BlockedEncodingAttr` deals them once its coalescing pass has found which axis is contiguous in memory:
that axis's threads first, each with up to 16 bytes side by side, then those of the others, from the last to the first.
A tile that lacks an axis is held once by all threads along that axis.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

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
    """What something addressable holds."""
    type_ = memory.type
    if not isinstance(type_, MemoryType):
        raise TypeError(f"{type_} is no memory")
    return type_.element


@dataclass
class Spaces:
    """`fast`: the axis along which most accesses find elements side by side; `vector`: elements of a widest one."""

    sizes: Mapping[str, Expr]
    fast: str | None
    vector: int
    _dealt: dict[tuple[str | None, ...], dict[str, tuple[Expr, Expr]]] = field(default_factory=dict)

    def a_thread(self, axes: Iterable[str], space: Iterable[str], fast: str | None = None) -> Expr:
        """Elements that a thread holds of a tile with some axes, dealt out as a tile of all axes of the space is.

        `fast`: the axis that is contiguous for this tile, if another than the kernel's.
        """
        dealt = self.dealt(space, fast)
        return product(dealt[axis][1] for axis in axes)

    def dealt(self, space: Iterable[str], fast: str | None = None) -> dict[str, tuple[Expr, Expr]]:
        """Of each axis: the threads along it, and the elements that each of them holds."""
        known = set(space)
        fast = self.fast if fast is None else fast
        order = [axis for axis in reversed(list(self.sizes)) if axis in known]
        order.sort(key=lambda axis: axis != fast)
        key = (fast if fast in known else None, *order)
        found = self._dealt.get(key)
        if found is None:
            found = self._dealt[key] = self._deal(order, fast)
        return found

    def warps_along(self, axis: str, space: Iterable[str]) -> Expr:
        """How many warps lie beside each other along an axis."""
        before = ONE
        for name, (threads, _) in self.dealt(space).items():
            if name == axis:
                return least((threads, most((ONE, threads * before / WARP))))
            before = before * threads
        raise KeyError(axis)

    def _deal(self, order: list[str], fast: str | None) -> dict[str, tuple[Expr, Expr]]:
        dealt: dict[str, tuple[Expr, Expr]] = {}
        rest = THREADS
        elements = product(self.sizes[axis] for axis in order)
        for place, axis in enumerate(order):
            size = self.sizes[axis]
            blocks = size
            if place == 0 and axis == fast:
                blocks = most((ONE, size / least((number(self.vector), most((ONE, elements / THREADS))))))
            threads = rest if place + 1 == len(order) else least((rest, blocks))
            dealt[axis] = threads, most((ONE, size / threads))
            rest = rest / threads
        return dealt


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
    """The axis along which an access of a tensor finds elements side by side, if any."""
    if not len(op.index):
        return None
    mine = axes_of(op.tile)
    return next((axis for axis, coefficient in op.index.data[-1].terms if coefficient == 1 and axis in mine), None)


def largest_spaces(ops: Iterable[Operation]) -> list[frozenset[str]]:
    """The axis sets of tiles that are part of no other."""
    sets = {frozenset(axes_of(v)) for op in ops for v in (*op.operands, *op.results) if isinstance(v.type, TensorType)}
    return sorted((one for one in sets if not any(one < other for other in sets)), key=sorted)


def space_for(axes: frozenset[str], spaces: list[frozenset[str]]) -> frozenset[str]:
    """The largest space that holds some axes."""
    return max((space for space in spaces if axes <= space), key=len, default=axes)
