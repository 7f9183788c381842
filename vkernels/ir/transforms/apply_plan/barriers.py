"""Barriers between accesses of one program to the same memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from ...analysis.schedule.nests import Nest, all_items, homes_read
from ...dialect import BarrierOp
from .frames import LoopFrame
from .mapping_state import MappingState

Touched = dict[tuple[SSAValue, str], bool]
"""Memory (a scratchpad, a home, a tensor; and which copy of it) → whether it has been written."""


@dataclass
class Hazards:
    """What this program has accessed since its last barrier.

    Tensors, scratchpads and homes are told apart by the value of the kernel that names them.
    """

    since: Touched = field(default_factory=dict)
    prefix: Touched = field(default_factory=dict)
    """Within a loop's body, what it has accessed before its first barrier."""
    is_prefix: bool = True

    def before_nest(self, state: MappingState, frame: LoopFrame, nest: Nest) -> None:
        """A barrier if the nest meets what has been accessed before, at other positions perhaps."""
        touched: Touched = {}
        for item in [*all_items(state.schedule, nest), *nest.effects]:
            _touch(state, frame, item, touched)
        for value in homes_read(state.schedule, nest):
            touched.setdefault((value, "old"), False)
        for _, home in nest.stores:
            touched[home, "old"] = True
        self._meet(frame, touched)

    def before_item(self, state: MappingState, frame: LoopFrame, item: Operation) -> None:
        """The same for an item outside of any nest."""
        touched: Touched = {}
        _touch(state, frame, item, touched)
        self._meet(frame, touched)

    def _meet(self, frame: LoopFrame, touched: Touched) -> None:
        if _clashes(self.since, touched):
            frame.block.add_op(BarrierOp())
            self.since, self.is_prefix = {}, False
        _merge(self.since, touched)
        if self.is_prefix:
            _merge(self.prefix, touched)

    def swap(self, bases: Iterable[SSAValue]) -> None:
        """The copies of scratchpads change roles: what has been written will be read."""
        for base in bases:
            old, new = (base, "old"), (base, "new")
            found = {key: self.since.pop(key) for key in (old, new) if key in self.since}
            self.since.update({new if key == old else old: wrote for key, wrote in found.items()})

    @contextmanager
    def looping(self, body: LoopFrame) -> Iterator[None]:
        """Around the body of a loop: a barrier at its end if the next iteration needs one."""
        around, was_prefix, entered = self.prefix, self.is_prefix, dict(self.since)
        self.prefix, self.is_prefix = {}, True
        yield
        if _clashes(self.since, self.prefix):
            body.block.add_op(BarrierOp())
            self.since = {}
        _merge(self.since, entered)
        if was_prefix:
            _merge(around, self.prefix)
        self.prefix, self.is_prefix = around, was_prefix

    @contextmanager
    def branching(self) -> Iterator[Callable[[], AbstractContextManager[None]]]:
        """Around a conditional: each branch starts from what was accessed before; either may have run after."""
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


def _clashes(before: Touched, after: Touched) -> bool:
    return any(key in before and (before[key] or wrote) for key, wrote in after.items())


def _merge(into: Touched, other: Touched) -> None:
    for key, wrote in other.items():
        into[key] = into.get(key, False) or wrote


def _touch(state: MappingState, frame: LoopFrame, item: Operation, touched: Touched) -> None:
    for access in state.analysis.accesses(item):
        copied = access.writes and frame.find_written(access.base) is not None
        key = (access.base, "new" if copied else "old")
        touched[key] = touched.get(key, False) or access.writes
