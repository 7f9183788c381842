"""Kernel calls with one tensor for several parameters: when that is correct, and the kernel with these merged."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from ..analysis.accesses import MemoryAccess, accesses_of, ancestors
from ..analysis.meeting import elementwise, never_meet
from ..dialect import FetchOp, KernelOp, RangeOp, TileOp


def works_in_place(kernel: KernelOp, one: str, other: str) -> bool:
    """Whether two tensors of a kernel, by their parameters' names, may be the same memory with unchanged results.

    Only one of them may be written. Every store to it must be after every load from the other, so that nothing reads
    what has been written already, and meet it only at the same positions of all tile axes, since otherwise several
    programs access the same elements; or it must never meet it. Their declared dimensions must be the same. Both may
    be written if both are only updated by the same atomic operation: with `atomic_add` alone, they are two parts of
    one sum. What updates of one find would depend on those of the other, so no result of theirs may be used.
    """
    arguments = _arguments(kernel)
    first, second = arguments[one], arguments[other]
    if first.type != second.type:
        return False
    tiles = {op.axis.data for op in kernel.walk() if isinstance(op, TileOp)}
    accesses = accesses_of(kernel)
    order = {access: number for number, access in enumerate(accesses)}

    def apart(a: MemoryAccess, b: MemoryAccess) -> bool:
        if a.writes and b.writes:
            fetches = isinstance(a.op, FetchOp) or isinstance(b.op, FetchOp)
            return bool(a.atomic) and a.atomic == b.atomic and not fetches
        load, store = (b, a) if a.writes else (a, b)
        is_later = order[load] < order[store] and not (_loops(load.op) & _loops(store.op))
        return (is_later and elementwise(a, b, tiles)) or never_meet(a, b)

    ones, others = ([a for a in accesses if a.base is base] for base in (first, second))
    return all(apart(a, b) for a in ones for b in others if a.writes or b.writes)


def with_one_for(module: ModuleOp, same: Mapping[str, str]) -> ModuleOp:
    """A copy of a module whose kernel uses one parameter instead of others that are the same tensor.

    `same`: the parameter to use, by the name of each that it replaces. So all rules for accesses to one tensor apply.
    The parameters remain.
    """
    made = module.clone()
    for kernel in (op for op in made.ops if isinstance(op, KernelOp)):
        arguments = _arguments(kernel)
        for name, used in same.items():
            arguments[name].replace_all_uses_with(arguments[used])
    return made


def _arguments(kernel: KernelOp) -> dict[str, SSAValue]:
    return dict(zip((name.data for name in kernel.parameters), kernel.body.block.args, strict=True))


def _loops(op: Operation) -> set[Operation]:
    """The loops around an operation."""
    return {parent for parent in ancestors(op) if isinstance(parent, RangeOp | scf.WhileOp)}
