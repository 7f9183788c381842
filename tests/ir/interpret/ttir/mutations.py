"""Code with one thing taken out: a barrier, a mask, or a comparison that bounds something."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr, TensorType, i1, i64
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter

from vkernels.ir.dialect import arith, tt
from vkernels.ir.locations import place_of
from vkernels.ir.lowering.ttir import LoweredTtir


@dataclass(frozen=True)
class Mutation:
    """One operation, by its number in a launch's module, that is changed. `text`: what it was.

    `is_harmless`: whether it can be seen to change nothing.
    """

    launch: int
    operation: int
    kind: str
    text: str
    is_harmless: bool

    def of(self, lowered: LoweredTtir) -> LoweredTtir:
        """The kernel with this change; the one given stays as it is."""
        launches = list(lowered.launches)
        module = launches[self.launch].module.clone()
        _REMOVE[self.kind](list(module.walk())[self.operation])
        launches[self.launch] = replace(launches[self.launch], module=module)
        return replace(lowered, launches=tuple(launches))

    def __str__(self) -> str:
        return f"launch {self.launch}, {self.kind} of operation {self.operation}: {self.text}"


def mutations_of(lowered: LoweredTtir) -> Iterator[Mutation]:
    """All of a kernel's."""
    for number, launch in enumerate(lowered.launches):
        for position, op in enumerate(launch.module.walk()):
            for kind in _kinds(op):
                yield Mutation(
                    number,
                    position,
                    kind,
                    f"{op.name} at {place_of(op)}",
                    is_harmless=kind == "bound" and only_bounds_scratchpad_stores(op),
                )


def _kinds(op: Operation) -> list[str]:
    """What may be taken out of an operation. Whether a tail is left is no bound: all of a tail is masked."""
    match op:
        case tt.BarrierOp():
            return ["barrier"]
        case tt.LoadOp() | tt.StoreOp() | tt.AtomicOp() if op.mask is not None:
            return ["mask"]
        case arith.CmpiOp() if isinstance(op.result.type, TensorType) and _bounds(op):
            return ["bound"]
        case arith.CmpiOp() if op.predicate.value.data == _AT_LEAST and _is_branched_on(op):
            return ["full"]
        case _:
            return []


_BELOW, _AT_LEAST, _WITHIN = 2, 5, 6


def _bounds(op: arith.CmpiOp) -> bool:
    """Positions below a count, or indices within a guarded dimension; others are mathematical functions' own."""
    within = op.predicate.value.data == _WITHIN and tt.element(op.lhs.type) == i64
    return op.predicate.value.data == _BELOW or within


def _is_branched_on(op: arith.CmpiOp) -> bool:
    return any(isinstance(use.operation, scf.IfOp) for use in op.result.uses)


def only_bounds_scratchpad_stores(op: Operation) -> bool:
    """Whether a comparison has no use but to send inactive elements of stores to the scratchpad's slot.

    Without it they go to the padding of the scratchpad, whose dimensions are whole chunks, and nothing reads them.
    """
    users = [use.operation for result in op.results for use in result.uses]
    return all(
        user.asm_string.data.startswith("vk.store.")
        if isinstance(user, tt.ScratchpadOp)
        else user.results and only_bounds_scratchpad_stores(user)
        for user in users
    )


def _remove_barrier(op: Operation) -> None:
    Rewriter.erase_op(op)


def _remove_mask(op: Operation) -> None:
    match op:
        case tt.LoadOp():
            new: Operation = tt.LoadOp(op.ptr)
        case tt.StoreOp():
            new = tt.StoreOp(op.ptr, op.value)
        case tt.AtomicOp():
            new = tt.AtomicOp(op.kind, op.ptr, op.val)
        case _:
            raise ValueError(op.name)
    new.location = op.location
    Rewriter.replace_op(op, new)


def _remove_bound(op: Operation) -> None:
    """Let the comparison always hold."""
    assert isinstance(op, arith.CmpiOp), "a comparison"
    true = arith.ConstantOp(IntegerAttr(1, i1))
    Rewriter.replace_op(op, [true, tt.SplatOp(true.result, tt.shape(op.result.type))])


def _remove_condition(op: Operation) -> None:
    Rewriter.replace_op(op, arith.ConstantOp(IntegerAttr(1, i1)))


_REMOVE: dict[str, Callable[[Operation], None]] = {
    "barrier": _remove_barrier,
    "mask": _remove_mask,
    "bound": _remove_bound,
    "full": _remove_condition,
}
