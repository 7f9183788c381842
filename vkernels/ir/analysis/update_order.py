"""Atomic updates of floats, and updates that say what they found, whose result depends on the order of all."""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import SSAValue

from ..dialect import FetchOp, KernelOp, TensorArgumentType, element_of
from .accesses import LOOPS, MemoryAccess, accesses_of, ancestors
from .meeting import fixed_axes
from .private_copies import private_tensors


def updates_in_any_order(kernel: KernelOp, on_gpu: bool, has_copies: bool) -> MemoryAccess | None:
    """The first atomic update of a kernel whose result depends on an order that may change; None if there is none.

    Tensors are distinct. On a CPU a program makes its updates in order. With `has_copies` (a plan's `private_copies`)
    so do programs that meet in a tensor that only one kind of atomic updates: they run in turn, or in copies of their
    own. On a GPU the threads of a program may meet, too. Integers are the same in any order; so are extrema of floats
    on a GPU, which compares their bits, and on a CPU but for the bits of NaN.
    """
    private = private_tensors(kernel, True) if has_copies and not on_gpu else {}
    of_tensor: dict[SSAValue, list[MemoryAccess]] = {}
    for access in accesses_of(kernel):
        if access.writes and isinstance(access.base.type, TensorArgumentType):
            of_tensor.setdefault(access.base, []).append(access)
    for tensor, accesses in of_tensor.items():
        for access in accesses:
            if tensor not in private and _has_order(access, on_gpu) and _meets(access, accesses, on_gpu):
                return access
    return None


def _has_order(access: MemoryAccess, on_gpu: bool) -> bool:
    if isinstance(access.op, FetchOp):
        return True
    is_float = isinstance(element_of(access.op.tile), AnyFloat)
    return is_float and (access.atomic == "add" or (access.atomic != "" and not on_gpu))


def _meets(access: MemoryAccess, accesses: list[MemoryAccess], on_gpu: bool) -> bool:
    """Whether programs, or the threads of one on a GPU, may update the same element. Plans may split any axis."""
    *_, loop = (None, *(op for op in ancestors(access.op) if isinstance(op, LOOPS)))
    if on_gpu and loop is not None:
        return True
    found = [(other, fixed) for other in accesses if (fixed := fixed_axes(access, other, loop)) is not None]
    return any(
        (on_gpu and other is not access) or not access.axes | other.axes <= fixed for other, fixed in found
    )  # fmt: skip
