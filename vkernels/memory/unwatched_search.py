"""Find how calls keep the limit without being watched: as they are, or with saved tensors on the host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from enum import IntEnum
from typing import Any

from vkernels.ir.errors import TraceError

from .call_order import CallOrder, are_few, kinds_of
from .demand_executor import DemandExecutor
from .held_results import HeldResults
from .landmarks import Passage, shows_shapes
from .op_tracer import OpTracer, Watched
from .periods import MAX_PERIOD, bytes_at, joined, part_begins
from .record import Recorded, recorded_of
from .saved_tensors import SavedRecorder, SavedTensors
from .saved_uses import SavedUse
from .trace import live_bytes
from .unwatched import PassageRecorder, UnwatchedCalls

TRIES = 3
"""Choices of the saved tensors that leave, each with more of them."""


class Way(IntEnum):
    """How calls are recorded: `ALL` and `SOME` of their saved tensors on the host. `WATCHED`: no other way is left."""

    AS_THEY_ARE = 0
    ALL = 1
    SOME = 2
    WATCHED = 3


class UnwatchedSearch:
    """Tries one way after another, each in watched calls that repeat: where the watcher has nothing to move, calls are
    the same without it.

    `way`: of the next calls; `peak`: of calls as they are. `least`: calls that have to be recorded.
    """

    def __init__(self, step: Any, demand: DemandExecutor, results: HeldResults, least: int = 0):
        self.way = Way.AS_THEY_ARE
        self.peak, self.least = 0, least
        self._has_kinds = False
        """Whether calls are of a few kinds, in any order."""
        self._step, self._demand, self._results = step, demand, results
        self._passages = PassageRecorder(demand, results)
        self._saved: Any = None
        self._recorder: Any = None
        self._all: UnwatchedCalls | None = None
        self._live: list[int] = []
        """Bytes on the device at each operation with all saved tensors on the host."""
        self._begins: list[int] = []
        """The first operation of each call of a period in these."""
        self._target = self._tries = self._count = 0

    @contextmanager
    def recording(self, tracer: OpTracer, args: Any, kwargs: Any) -> Iterator[None]:
        """Record a call in the present way."""
        demand = self._demand
        if not tracer.has_ended:
            self._passages, self._count = PassageRecorder(demand, self._results), 0
            if self.way is Way.ALL:
                self._saved = SavedRecorder(demand.device, demand.heap, tracer)
        saved = nullcontext() if self._saved is None else self._saved.running(self._count)
        with self._passages.recording(args, kwargs), saved:
            yield
        self._count += 1

    def decide(self, tracer: OpTracer, period: int) -> UnwatchedCalls | None:
        """Return the calls of a period, if they need no watching in the present way; otherwise try the next way."""
        try:
            is_ordered = period > 0 and not self._has_kinds
            recorded = recorded_of(joined(tracer.watched, period), "step") if is_ordered else None
        except TraceError:
            recorded = None
        has_chosen = self.way is Way.SOME and not self._has_kinds
        if has_chosen and (recorded is None or period != len(self._begins)):  # calls have repeated until now
            self.way, self.least, self._saved = Way.AS_THEY_ARE, 2 * MAX_PERIOD, None
            return None
        if recorded is None:
            return self._decide_kinds(tracer)
        way, saved, passages = self.way, self._saved, self._passages.repeated(period)
        if saved is not None and saved.changed:
            passages = None
        calls = None if passages is None else self._calls(passages, recorded, saved)
        if way is Way.AS_THEY_ARE:
            is_blind = passages is not None and not all(map(shows_shapes, passages))
            shows_saved = passages is None or any(each.nodes for each in passages)
            self.peak = recorded.trace_on(self._demand.device.kind).peak
            has_hooks = self._demand.device.in_step and tracer.has_hooks and shows_saved
            self.way = Way.ALL if has_hooks else Way.WATCHED
            return None if is_blind else calls
        if way is Way.ALL and passages is not None:
            self._recorder, self._begins = saved, part_begins(tracer.watched.iterations[-period:])
            self._live, self._target = self._live_at(recorded, passages[-1].kept), self._demand.limit
            self._all = self._calls(passages, recorded, self._saved_as(saved.all(period, self._begins, self._live)))
        return self._choose(calls, period)

    def _choose(self, calls: UnwatchedCalls | None, count: int) -> UnwatchedCalls | None:
        """After calls with saved tensors on the host: choose which of those of the last `count` calls leave; return
        what is found at the end."""
        if self.way is Way.ALL and self._all is not None:
            self.way = Way.SOME
        elif self.way is Way.SOME and calls is None and self._tries < TRIES:
            self._target -= self._passages.moved_bytes
        else:
            self.way, self._saved = Way.WATCHED, None
            return calls if calls is not None else self._all
        self._tries += 1
        self._saved = self._saved_as(self._recorder.chosen(count, self._begins, self._live, self._target))
        return None

    def _decide_kinds(self, tracer: OpTracer) -> UnwatchedCalls | None:
        """The same for calls of a few kinds in any order: what all of them save is joined."""
        is_first, self._has_kinds, self.least = self.way is Way.AS_THEY_ARE, True, 2 * MAX_PERIOD
        passages, watched, saved = self._passages.passages, tracer.watched, self._saved
        order, live = kinds_of(passages), self._live_of(watched)
        if saved is not None and saved.changed:
            order = None
        if is_first:
            self.peak = max(live, default=0)
            shows_saved = any(each.nodes for each in passages)
            has_hooks = self._demand.device.in_step and tracer.has_hooks and shows_saved
            self.way = Way.ALL if has_hooks and order is None and are_few(passages) else Way.WATCHED
            is_blind = order is not None and not all(map(shows_shapes, order.passages))
            return None if order is None or is_blind else self._calls_of(order, live, None)
        if self.way is Way.ALL and order is not None:
            self._recorder, self._begins, self._live = saved, part_begins(watched.iterations), live
            self._target, count = self._demand.limit, len(passages)
            self._all = self._calls_of(order, live, self._saved_as(saved.all(count, self._begins, live)))
        calls = None if order is None else self._calls_of(order, live, saved)
        return self._choose(calls, len(self._begins))

    def _calls_of(self, order: CallOrder, live: list[int], saved: SavedTensors | None) -> UnwatchedCalls:
        room = max(0, self._demand.limit - max(live, default=0))
        return UnwatchedCalls(self._step, order, self._demand, self._results, room, saved)

    def _live_of(self, watched: Watched) -> list[int]:
        """Bytes on the device at each operation of all calls, with those that no operation uses."""
        live, found = bytes_at(watched, self._demand.device.kind), []
        for each, passage in zip(watched.iterations, self._passages.passages, strict=True):
            part, live = live[: len(each.operations)], live[len(each.operations) :]
            found += [size + max(0, passage.kept - part[-1]) for size in part] if part else []
        return found

    def _calls(
        self, passages: Sequence[Passage], recorded: Recorded, saved: SavedTensors | None
    ) -> UnwatchedCalls:  # fmt: skip
        room = self._demand.limit - max(self._live_at(recorded, passages[-1].kept))
        return UnwatchedCalls(self._step, CallOrder(passages), self._demand, self._results, room, saved)

    def _saved_as(self, uses: list[list[SavedUse]]) -> SavedTensors:
        calls = [uses] if self._has_kinds else [[each] for each in uses]
        return SavedTensors(self._demand.device, self._demand.heap, calls)

    def _live_at(self, recorded: Recorded, kept: int) -> list[int]:
        """Bytes on the device at each operation, with those that no operation uses."""
        trace = recorded.trace_on(self._demand.device.kind)
        live = live_bytes(trace.blocks(), len(trace.operations))
        return [each + max(0, kept - live[-1]) for each in live]
