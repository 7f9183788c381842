"""Registers that are made where dots first use them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, overload

from xdsl.ir import Block, Operation, SSAValue

from ...dialect import (
    AccessOp,
    DotOp,
    ReadOp,
    SpillOp,
    StoreOp,
    TensorArgumentType,
    WordDotOp,
    WordsOp,
    WriteOp,
)

if TYPE_CHECKING:
    from .state import LlvmState


def is_for_dots(state: LlvmState, operation: AccessOp | WordsOp) -> bool:
    """Whether only dots that follow directly take what a load loads, or what is joined to words.

    Its registers are made where they are first used: all at once, they would take room from the sums.
    """
    waiting = {use.operation for use in operation.results[0].uses}
    if state.lanes.axis is None or not all(isinstance(user, DotOp | WordDotOp | WordsOp) for user in waiting):
        return False
    after = operation.next_op
    while waiting and after is not None and not after.regions and not isinstance(after, WriteOp | SpillOp):
        waiting.discard(after)
        after = after.next_op
    return not waiting


def is_written_before(load: ReadOp, user: Operation) -> bool:
    """Whether what a load reads may be written before an operation that would read it in the load's place."""
    after = load.next_op
    while after is not None and after is not user:
        if any(isinstance(op, WriteOp) and _may_be_same(op.base, load.base) for op in after.walk()):
            return True
        if after.is_ancestor(user):
            return False
        after = after.next_op
    return after is None


def _may_be_same(one: SSAValue, other: SSAValue) -> bool:
    """Whether two memories may overlap: tensors, one memory, or one that a loop carries."""
    tensors = [isinstance(base.type, TensorArgumentType) for base in (one, other)]
    if any(tensors):
        return all(tensors)
    return one is other or isinstance(one.owner, Block) or isinstance(other.owner, Block)


def goes_to_stores(value: SSAValue) -> bool:
    """Whether a value only goes to stores that follow in its block, through operations on elements.

    Its registers may be made store by store: no more of them are alive than a store takes.
    """
    users = [use.operation for use in value.uses]
    return bool(users) and all(isinstance(value.owner, Operation) and _is_reached(value.owner, user) for user in users)


def _is_reached(operation: Operation, user: Operation) -> bool:
    """Whether a store, or an operation on elements for stores, follows with no region between."""
    after = operation.next_op
    while after is not None and after is not user and not after.regions:
        after = after.next_op
    if after is not user:
        return False
    if isinstance(user, StoreOp):
        return user.atomic is None
    return user.name.startswith(("arith.", "math.")) and all(map(goes_to_stores, user.results))


class LateNames(Sequence[str]):
    """Names of registers, each made when it is first asked for. `steps`: of a load, the elements from one position of
    each axis but the lanes' to the next, 0 where that is not known."""

    def __init__(self, make: Sequence[Callable[[], str]], steps: Mapping[str, int]):
        self._make, self.steps = make, steps
        self._made: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._make)

    @overload
    def __getitem__(self, number: int) -> str: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[str]: ...
    def __getitem__(self, number: int | slice) -> str | Sequence[str]:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        if number not in self._made:
            self._made[number] = self._make[number]()
        return self._made[number]
