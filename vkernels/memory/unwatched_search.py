"""Find how calls keep the limit without being watched: as they are, or with saved tensors on the host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from enum import IntEnum
from typing import Any

from vkernels.ir.errors import TraceError

from .call_order import CallOrder
from .demand_executor import DemandExecutor
from .held_results import HeldResults
from .landmarks import Passage, shows_shapes
from .op_tracer import OpTracer
from .periods import joined, part_begins
from .record import Recorded, recorded_of
from .saved_tensors import SavedRecorder, SavedTensors, SavedUse
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

    `way`: of the next calls; `peak`: of calls as they are.
    """

    def __init__(self, step: Any, demand: DemandExecutor, results: HeldResults):
        self.way = Way.AS_THEY_ARE
        self.peak = 0
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
            recorded = recorded_of(joined(tracer.watched, period), "step")
        except TraceError:
            order = self._passages.kinds() if self.way is Way.AS_THEY_ARE else None
            self.way = Way.WATCHED
            if order is None or not all(map(shows_shapes, order.passages)):
                return None
            return UnwatchedCalls(self._step, order, self._demand, self._results, 0)
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
            self.way = Way.SOME
        elif way is Way.SOME and calls is None and self._tries < TRIES:
            self._target -= self._passages.moved_bytes
        else:
            self.way, self._saved = Way.WATCHED, None
            return calls if calls is not None or way is Way.ALL else self._all
        self._tries += 1
        self._saved = self._saved_as(self._recorder.chosen(period, self._begins, self._live, self._target))
        return None

    def _calls(
        self, passages: Sequence[Passage], recorded: Recorded, saved: SavedTensors | None
    ) -> UnwatchedCalls:  # fmt: skip
        room = self._demand.limit - max(self._live_at(recorded, passages[-1].kept))
        return UnwatchedCalls(self._step, CallOrder(passages), self._demand, self._results, room, saved)

    def _saved_as(self, uses: list[list[SavedUse]]) -> SavedTensors:
        return SavedTensors(self._demand.device, self._demand.heap, uses)

    def _live_at(self, recorded: Recorded, kept: int) -> list[int]:
        """Bytes on the device at each operation, with those that no operation uses."""
        trace = recorded.trace_on(self._demand.device.kind)
        live = live_bytes(trace.blocks(), len(trace.operations))
        return [each + max(0, kept - live[-1]) for each in live]
