"""May a kernel write its result over what it reads?"""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.ir import Operation

from .dialect import AccessOp, KernelOp, RangeOp, TileOp
from .passes.accesses import Access, accesses_of, elementwise


def works_in_place(kernel: KernelOp, one: str, other: str) -> bool:
    """Whether two tensors of a kernel, by their parameters' names, may be the very same memory.

    They may where every store to either is at the index of every access to the other, and comes after its loads: then
    nothing reads what has been written already. Every tile axis must be in those indices, as otherwise several programs
    read and write the same elements. Their declared dimensions must be the same as well.
    """
    arguments = dict(zip((name.data for name in kernel.parameters), kernel.body.block.args, strict=True))
    first, second = arguments[one], arguments[other]
    if first.type != second.type:
        return False
    tiles = {op.axis.data for op in kernel.walk() if isinstance(op, TileOp)}
    accesses: list[Access] = [a for op in kernel.walk() if isinstance(op, AccessOp) for a in accesses_of(op)]
    order = {access: number for number, access in enumerate(accesses)}

    def apart(a: Access, b: Access) -> bool:
        if not elementwise(a, b, a.axes | b.axes | tiles):
            return False
        if a.writes and b.writes:
            return True
        load, store = (b, a) if a.writes else (a, b)
        return order[load] < order[store] and not (_loops(load.op) & _loops(store.op))

    ones, others = ([a for a in accesses if a.base is base] for base in (first, second))
    return all(apart(a, b) for a in ones for b in others if a.writes or b.writes)


def _loops(op: Operation) -> set[Operation]:
    """The loops around an operation."""
    found: set[Operation] = set()
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, RangeOp | scf.WhileOp):
            found.add(parent)
        parent = parent.parent_op()
    return found
