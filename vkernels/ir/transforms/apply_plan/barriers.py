"""Barriers between accesses of one program to the same memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import combinations_with_replacement

from xdsl.ir import Operation, SSAValue

from ...analysis.accesses import MemoryAccess, accesses_of
from ...analysis.meeting import meet_within_an_iteration
from ...analysis.schedule.nests import Nest, all_items, homes_read
from ...dialect import BarrierOp, RangeOp, TensorArgumentType
from .frames import LoopFrame
from .mapping_state import MappingState

Touched = dict[tuple[SSAValue, str], bool]
"""Memory (a scratchpad, a home, a tensor, and which copy of it) → whether it has been written."""


@dataclass
class Hazards:
    """The accesses of this program since its last barrier.

    The value of the kernel that names a tensor, scratchpad or home identifies it. `prefix`: in a loop's body, the
    accesses before its first barrier.
    """

    since: Touched = field(default_factory=dict)
    prefix: Touched = field(default_factory=dict)
    is_prefix: bool = True

    def before_nest(self, state: MappingState, frame: LoopFrame, nest: Nest) -> None:
        """Emit a barrier if the nest may conflict with earlier accesses, possibly at other positions."""
        touched = _touched(state, frame, [*all_items(state.schedule, nest), *nest.effects])
        _merge(touched, {(home, "old"): False for home in homes_read(state.schedule, nest)})
        _merge(touched, {(home, "old"): True for _, home in nest.stores})
        self._before(frame, touched)

    def before_item(self, state: MappingState, frame: LoopFrame, item: Operation) -> None:
        """Emit a barrier if an item outside of any nest may conflict with earlier accesses."""
        self._before(frame, _touched(state, frame, [item]))

    def _before(self, frame: LoopFrame, touched: Touched) -> None:
        if _clashes(self.since, touched):
            frame.block.add_op(BarrierOp())
            self.since, self.is_prefix = {}, False
        _merge(self.since, touched)
        if self.is_prefix:
            _merge(self.prefix, touched)

    def swap(self, bases: Iterable[SSAValue]) -> None:
        """Swap the copies of scratchpads: the written copy will be read."""
        for base in bases:
            old, new = (base, "old"), (base, "new")
            found = {key: self.since.pop(key) for key in (old, new) if key in self.since}
            self.since.update({new if key == old else old: wrote for key, wrote in found.items()})

    @contextmanager
    def looping(self, body: LoopFrame, loop: RangeOp | None = None) -> Iterator[None]:
        """Enclose the body of a loop: emit a barrier at its end if the next iteration needs one, which it does not for
        elements of tensors that only one iteration of `loop` accesses."""
        around, was_prefix, entered = self.prefix, self.is_prefix, dict(self.since)
        self.prefix, self.is_prefix = {}, True
        yield
        apart = _apart(loop) if loop is not None and _clashes(self.since, self.prefix) else frozenset()
        if _clashes(self.since, {key: wrote for key, wrote in self.prefix.items() if key[0] not in apart}):
            body.block.add_op(BarrierOp())
            self.since = {}
        _merge(self.since, entered)
        if was_prefix:
            _merge(around, self.prefix)
        self.prefix, self.is_prefix = around, was_prefix

    @contextmanager
    def branching(self) -> Iterator[Callable[[], AbstractContextManager[None]]]:
        """Enclose a conditional: each branch starts from the accesses before it; afterwards either may have run."""
        entered, ends = dict(self.since), [dict(self.since)]

        @contextmanager
        def branch() -> Iterator[None]:
            self.since = dict(entered)
            yield
            ends.append(self.since)

        yield branch
        self.since = {}
        for end in ends:
            _merge(self.since, end)


def _apart(loop: RangeOp) -> frozenset[SSAValue]:
    """The tensors of which each element is accessed in one iteration of a loop at most."""
    made: dict[SSAValue, list[MemoryAccess]] = {}
    for access in accesses_of(loop):
        made.setdefault(access.base, []).append(access)
    return frozenset(
        base
        for base, each in made.items()
        if isinstance(base.type, TensorArgumentType)
        and all(meet_within_an_iteration(one, other, loop) for one, other in combinations_with_replacement(each, 2))
    )


def _clashes(before: Touched, after: Touched) -> bool:
    return any(key in before and (before[key] or wrote) for key, wrote in after.items())


def _merge(into: Touched, other: Touched) -> None:
    for key, wrote in other.items():
        into[key] = into.get(key, False) or wrote


def _touched(state: MappingState, frame: LoopFrame, items: Iterable[Operation]) -> Touched:
    touched: Touched = {}
    for access in (access for item in items for access in state.analysis.accesses(item)):
        is_new = access.writes and frame.find_written(access.base) is not None
        _merge(touched, {(access.base, "new" if is_new else "old"): access.writes})
    return touched
