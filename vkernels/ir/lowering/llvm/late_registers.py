"""Registers that are made where dots first use them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import overload

from ...dialect import AccessOp, DotOp, ScatterOp, SpillOp, StoreOp, WordDotOp, WordsOp
from .state import LlvmState


def is_for_dots(state: LlvmState, operation: AccessOp | WordsOp) -> bool:
    """Whether only dots that follow directly take what a load loads, or what is joined to words.

    Its registers are made where they are first used: all at once, they would take room from the sums.
    """
    waiting = {use.operation for use in operation.results[0].uses}
    if state.lanes.axis is None or not all(isinstance(user, DotOp | WordDotOp | WordsOp) for user in waiting):
        return False
    after = operation.next_op
    while waiting and after is not None and not after.regions and not isinstance(after, StoreOp | ScatterOp | SpillOp):
        waiting.discard(after)
        after = after.next_op
    return not waiting


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
