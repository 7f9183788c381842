"""What GPU code may assume of a tensor's place in memory: strides that matter, alignment, and how far it reaches."""

from __future__ import annotations

from .arguments import ArrayView
from .size_classes import WIDE

FAR = 1 << 31
"""Elements from the first one that no 32-bit offset reaches."""


def seen_strides(view: ArrayView) -> tuple[int, ...]:
    """Strides with 0 for those that do not matter: of dimensions of one element, and of empty tensors."""
    return tuple(
        stride if length > 1 and view.size else 0 for length, stride in zip(view.shape, view.strides, strict=True)
    )


def is_aligned(view: ArrayView) -> bool:
    """Whether its address is a multiple of 16 bytes and so are the strides that matter but are not 1 element, and none
    is negative."""
    strides = seen_strides(view)
    return view.address % WIDE == 0 and all(s == 1 or (s >= 0 and s * view.itemsize % WIDE == 0) for s in strides)


def is_large(view: ArrayView) -> bool:
    """Whether some element is 2³¹ elements or more from the first."""
    low, high = view.reach
    return max(-low, high - view.itemsize) // view.itemsize >= FAR
