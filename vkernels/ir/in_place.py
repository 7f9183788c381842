"""May a kernel write its result over what it reads?"""

from __future__ import annotations

from .dialect import AccessOp, KernelOp
from .passes.accesses import Access, accesses_of, elementwise


def works_in_place(kernel: KernelOp, one: str, other: str) -> bool:
    """Whether two tensors of a kernel, by their parameters' names, may be the very same memory.

    They may where every store to either is at the index of every access to the other: then no program, and no chunk,
    reads what another has written. Their declared dimensions must be the same as well.
    """
    arguments = dict(zip((name.data for name in kernel.parameters), kernel.body.block.args, strict=True))
    first, second = arguments[one], arguments[other]
    if first.type != second.type:
        return False
    accesses: list[Access] = [a for op in kernel.walk() if isinstance(op, AccessOp) for a in accesses_of(op)]
    return all(
        elementwise(a, b)
        for a in accesses
        if a.base is first
        for b in accesses
        if b.base is second and (a.writes or b.writes)
    )
