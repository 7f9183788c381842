"""Run calls without watching their operations, where watched calls have shown that nothing has to move.

A call is watched from where it differs: from its beginning if its arguments do, else from the first landmark that does.
Now and then a call is watched all along, to notice memory that grows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch._C import _len_torch_dispatch_stack
from torch.utils._python_dispatch import _pop_mode, _push_mode

from .demand_executor import DemandExecutor
from .held_results import HeldResults
from .landmarks import Landmark, Passage, agree, alike, arguments_of, is_at, name_of, nodes_of_autograd, passing
from .program_storages import program_storages
from .saved_tensors import SavedTensors

CHECK = 16
"""Calls until one is watched all along; later twice as many each time."""


class PassageRecorder:
    """Records the landmarks of watched calls, with the bytes on the device at each."""

    def __init__(self, demand: DemandExecutor, results: HeldResults):
        self._demand, self._results = demand, results
        self._passages: list[Passage] = []
        self.moved_bytes = 0
        """Bytes that left the device in the last call."""

    @contextmanager
    def recording(self, args: Any, kwargs: Any) -> Iterator[None]:
        """Record a call. One that raises is forgotten."""
        arguments, moves, first = arguments_of(args, kwargs), self._demand.counts.moves(), nodes_of_autograd()
        landmarks: list[Landmark] = []
        held = self._results.bytes()
        live: list[int] = []

        def note(landmark: Landmark, given: Any) -> None:
            landmarks.append(landmark)
            live.append(self._demand.live())

        with passing(note):
            yield
        nodes, moved = nodes_of_autograd() - first, self._demand.counts.moves() != moves
        self.moved_bytes = self._demand.counts.out_bytes - moves[0]
        passage = Passage(arguments, tuple(landmarks), tuple(live), nodes, moved, self._demand.live(), held)
        self._passages.append(passage)

    def repeated(self, period: int) -> list[Passage] | None:
        """Return the calls of a period, if the last two periods are alike, and in the last nothing moved, nor was more
        kept other than results."""
        calls = self._passages[-2 * period :]
        pairs = [*zip(calls[:period], calls[period:], strict=True)]
        found = [alike(*pair) for pair in pairs if pair[0].own >= pair[1].own]
        repeated = [each for each in found if each is not None and not each.moved]
        return repeated if len(repeated) == period else None


class UnwatchedCalls:
    """The calls of periods, one after another.

    `changed`: why the last call was watched from where it differed. `grows`: it was watched all along, and needed more
    than those before. `saved`: its saved tensors on the host, if any. `room`: bytes of the limit that no call needs.
    """

    def __init__(
        self, step: Any, passages: Sequence[Passage], demand: DemandExecutor, results: HeldResults, room: int,
        saved: SavedTensors | None = None,
    ):  # fmt: skip
        self.changed = ""
        self.grows = False
        self.saved = saved
        self._step, self._passages, self._demand = step, passages, demand
        self._results, self._room = results, room
        self._away = demand.away()
        self._next, self._check = CHECK, 2 * CHECK
        """Calls until one is watched all along, and then until the one after that."""
        self._part = 0

    def begin(self) -> None:
        """Before the first call: move back what calls recorded in other ways have moved since."""
        self._demand.bring_back(self._away)

    @contextmanager
    def running(self, args: Any, kwargs: Any) -> Iterator[None]:
        """Run the next call."""
        part, demand, saved = self._part, self._demand, self.saved
        expected = self._passages[part]
        self._part, self._next = (part + 1) % len(self._passages), self._next - 1
        outer, first, moves = _len_torch_dispatch_stack(), nodes_of_autograd(), demand.counts.moves()
        is_checked, is_watched, was_changed = self._next < 0, False, bool(self.changed)
        passed, count, held = -1, len(expected.landmarks), self._results.bytes() if is_checked else 0
        as_before = agree(expected.arguments, arguments_of(args, kwargs))
        self.changed = "" if as_before else "the arguments have other shapes or values"
        if not self.changed and self._results.exceed(expected.held + self._room):
            self.changed = "more results of earlier calls are held than there is room for"

        def watch(given: Any = (), live: int = 0) -> None:
            nonlocal is_watched
            storages = [*program_storages(self._step, args, kwargs, given), *self._results.storages()]
            demand.begin((each for each in storages if each.device.type == demand.device.kind), live)
            is_watched = True
            inner = [_pop_mode() for _ in range(_len_torch_dispatch_stack() - outer)]
            for each in (demand, *reversed(inner)):
                _push_mode(each)

        def note(landmark: Landmark, given: Any) -> None:
            nonlocal passed
            passed += 1
            if not self.changed and not (saved is not None and saved.changed):
                if passed < count and is_at(expected.landmarks[passed], landmark):
                    return
                self.changed = f"call {passed} of a module or optimiser, {name_of(landmark)}, differs from before"
            if not is_watched and torch._C._current_graph_task_id() == -1:  # modes end with a node of backward
                watch(given, expected.live[min(passed, count - 1)] if count else 0)

        def leaves(tensor: torch.Tensor, live: int) -> bool:
            if not is_watched and torch._C._current_graph_task_id() == -1:
                watch(tensor, live)
            return not is_watched

        hooks = nullcontext() if saved is None else saved.running(part, leaves)
        if is_checked or was_changed or self.changed:  # a call that differs may leave other tensors
            watch()
        try:
            with passing(note), hooks:
                yield
        finally:
            self.changed = self.changed or ("" if saved is None else saved.changed)
            if not self.changed and (passed + 1 < count or nodes_of_autograd() - first != expected.nodes):
                self.changed = "the call has other operations than before, after the last call of a module or optimiser"
            self.grows = False
            if is_watched:
                _pop_mode()
                demand.end()
                more = demand.counts.moves() != moves or demand.live() - held > expected.own
                self.grows = is_checked and not self.changed and more
        if is_checked:
            self._next, self._check = self._check, 2 * self._check
