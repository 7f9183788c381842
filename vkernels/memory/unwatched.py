"""Run calls without watching their operations, where watched calls have shown that nothing has to move.

A call is watched from where it differs: from its beginning if its arguments do, else from the first landmark that does.
Now and then a call is watched all along, to notice memory that grows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch._C import _len_torch_dispatch_stack
from torch.utils._python_dispatch import _pop_mode, _push_mode

from .call_order import CallOrder, remaining
from .demand_executor import DemandExecutor
from .followed_functions import FunctionFollower, FunctionRecorder
from .held_results import HeldResults
from .landmarks import (
    Landmark,
    Passage,
    alike,
    arguments_of,
    is_optimiser,
    name_of,
    nodes_of_autograd,
    passing,
)  # fmt: skip
from .own_modules import is_sensitive, when_left
from .program_storages import program_storages
from .saved_tensors import SavedTensors

CHECK, MAX_CHECK = 16, 128
"""Calls until one is watched all along; later twice as many each time, up to a maximum."""


class PassageRecorder:
    """Records the landmarks of watched calls, with the bytes on the device at each."""

    def __init__(self, demand: DemandExecutor, results: HeldResults):
        self._demand, self._results = demand, results
        self.passages: list[Passage] = []
        self.moved_bytes = 0
        """Bytes that left the device in the last call."""

    @contextmanager
    def recording(self, args: Any, kwargs: Any) -> Iterator[None]:
        """Record a call. One that raises is forgotten."""
        arguments, moves, first = arguments_of(args, kwargs), self._demand.counts.moves(), nodes_of_autograd()
        landmarks: list[Landmark] = []
        held, before = self._results.bytes(), self._demand.device.allocated(anew=True)
        live: list[int] = []
        functions = FunctionRecorder()

        def note(landmark: Landmark, given: Any) -> None:
            landmarks.append(landmark)
            live.append(self._demand.live())
            functions.next(landmark[1])

        with passing(note, functions.resume, functions.entering), functions.recording(before is None):
            yield
        nodes, moved = nodes_of_autograd() - first, self._demand.counts.moves() != moves
        self.moved_bytes = self._demand.counts.out_bytes - moves[0]
        after = self._demand.device.allocated()
        most = 0 if before is None or after is None else after[1] - before[0]
        self.passages.append(Passage(
            arguments, tuple(landmarks), tuple(live), nodes, moved, self._demand.live(), held, most,
            functions.stretches() if before is None else (),
        ))  # fmt: skip

    def repeated(self, period: int) -> list[Passage] | None:
        """Return the calls of a period, if the last two periods are alike, and in the last nothing moved, nor was more
        kept other than results."""
        calls = self.passages[-2 * period :]
        pairs = [*zip(calls[:period], calls[period:], strict=True)]
        found = [alike(*pair) for pair in pairs if pair[0].own >= pair[1].own]
        repeated = [each for each in found if each is not None and not each.moved]
        return repeated if len(repeated) == period else None


class UnwatchedCalls:
    """Calls in an order.

    `changed`: why the last call was watched from where it differed. `grows`: it was watched all along, and needed more
    than those before. `over`: how a call may have been above the limit unnoticed. `saved`: its saved tensors on the
    host, if any. `room`: bytes of the limit that no call needs.
    """

    def __init__(
        self, step: Any, order: CallOrder, demand: DemandExecutor, results: HeldResults, room: int,
        saved: SavedTensors | None = None,
    ):  # fmt: skip
        self.changed = ""
        self.grows = False
        self.over = ""
        self.saved = saved
        self._step, self._order, self._demand = step, order, demand
        self._results, self._room = results, room
        self._away = demand.away()
        self._next, self._check = CHECK, 2 * CHECK
        """Calls until one is watched all along, and then until the one after that."""
        self._is_fuller = False
        """Whether there was more on the device after the last call, which was watched, than recorded ones left."""
        self._unseen = self._base = 0
        """Of them, calls since the last one that was watched; and the most bytes of the device before a call."""

    @property
    def is_patient(self) -> bool:
        """Whether calls that differ are no reason to record again."""
        return self._order.is_patient

    def begin(self) -> None:
        """Before the first call: move back what calls recorded in other ways have moved since."""
        self._demand.bring_back(self._away)
        self._demand.device.allocated(anew=True)

    def _measure(self) -> int | None:
        """Before a call: the most bytes that torch's allocator has counted until now, if it counts them.

        What other work has allocated meanwhile is forgotten, to notice what the call does.
        """
        found = self._demand.device.allocated()
        if found is None:
            return None
        self._base = max(self._base, found[0])
        if self._more(found[1]) > self._room:
            found = self._demand.device.allocated(anew=True)
        return None if found is None else found[1]

    def _more(self, most: int) -> int:
        """How many bytes more were allocated at once than in recorded calls."""
        return most - self._base - max(each.most for each in self._order.passages)

    def _compare(self, before: int | None) -> None:
        """After a call that was not watched."""
        after = self._demand.device.allocated()
        if before is None or after is None or after[1] <= before:
            return
        more = self._more(after[1])
        if more > self._room:
            self.over = f"a call that was not watched had {more} bytes more on {self._demand.device.name} at once than "
            self.over += f"those before it, and the limit {self._demand.limit} leaves room for {self._room}"

    @contextmanager
    def running(self, args: Any, kwargs: Any) -> Iterator[None]:
        """Run the next call."""
        demand, saved, order, followed = self._demand, self.saved, self._order, self._order.followed
        outer, first, moves = _len_torch_dispatch_stack(), nodes_of_autograd(), demand.counts.moves()
        self._next -= 1
        is_checked, is_watched, was_changed = self._next < 0, False, bool(self.changed)
        was_fuller, passed, held, limit = self._is_fuller, -1, 0, demand.limit
        hidden: list[Any] = []
        most, possible = self._measure(), order.begin(arguments_of(args, kwargs))
        self.changed = "" if possible else "the arguments have other shapes or values"
        if possible and self._results.exceed(min(each.held for each in possible) + self._room):
            self.changed = "more results of earlier calls are held than there is room for"

        def live_at(begin: int, end: int) -> int:
            """The most bytes on the device at some landmarks, of all that the call may be."""
            spans = [(each.live, min(max(begin, 0), len(each.live) - 1)) for each in possible if each.live]
            return max((size for live, at in spans for size in live[at:end] or live[at:]), default=0)

        def know(given: Any, live: int) -> None:
            storages = [*program_storages(self._step, args, kwargs, given), *self._results.storages(), *follower.made()]
            demand.begin((each for each in storages if each.device.type == demand.device.kind), live)

        def watch(given: Any = (), live: int = 0) -> None:
            nonlocal is_watched, held
            held = self._results.bytes()
            if follower.watched is not None:
                demand.end()
                follower.watched = None
            if order.has_kinds:  # the next calls like it may find as many results
                demand.limit = limit - max(0, self._room - max(0, held - min(each.held for each in order.passages)))
            know(given, live)
            is_watched = True
            follower.leave()
            inner = [_pop_mode() for _ in range(_len_torch_dispatch_stack() - outer)]
            for each in (demand, *reversed(inner)):
                _push_mode(each)

        def note(landmark: Landmark, given: Any) -> None:
            nonlocal passed, possible
            passed += 1
            if not self.changed and not (saved is not None and saved.changed):
                found = remaining(possible, passed, landmark)
                if found:
                    possible = found
                    if is_sensitive(landmark[1]) and not hidden:
                        hide(landmark[0])
                    elif passed + 1 in followed and not hidden and not is_optimiser(landmark[1]):
                        follow()
                    elif follower.is_following:
                        follower.leave()
                    return
                self.changed = f"call {passed} of a module or optimiser, {name_of(landmark)}, differs from before"
            if not is_watched and torch._C._current_graph_task_id() == -1:  # modes end with a node of backward
                watch(given, live_at(passed, passed + 1))

        def follow() -> None:
            if passed + 1 in followed and not is_watched and not self.changed:
                follower.enter(passed + 1, [each.stretches for each in possible])

        def hide(module: int) -> None:
            def at_end() -> None:
                hidden.clear()
                follow()

            follower.leave()
            hidden.append(when_left(module, at_end))

        def differs(why: str, given: Any) -> None:
            self.changed = self.changed or why
            if is_watched:
                return
            if torch._C._current_graph_task_id() == -1:
                has_graph = nodes_of_autograd() != first  # of tensors that no name leads to
                watch(given, live_at(passed, passed + 2) or demand.limit - self._room if has_graph else 0)
            elif follower.watched is None:  # only functions that Python calls can be watched until backward ends
                know(given, demand.limit - self._room)
                follower.watched = run_watched

        def run_watched(func: Any, args: Any, kwargs: Any) -> Any:
            if torch._C._current_graph_task_id() == -1:
                watch((args, kwargs), live_at(passed, passed + 2) or demand.limit - self._room)
                return func(*args, **kwargs)
            with demand:
                return func(*args, **kwargs)

        def leaves(tensor: torch.Tensor, live: int) -> bool:
            if not is_watched and torch._C._current_graph_task_id() == -1:
                watch(tensor, live)
            return not is_watched

        follower = FunctionFollower(differs)
        hooks = nullcontext() if saved is None else saved.running(order.part, leaves)
        is_known = not (is_checked or was_changed or was_fuller) and order.knows(possible)
        if self.changed or not is_known:  # the call before may have left other tensors
            watch()
        was_watched = is_watched
        follow()
        try:
            with passing(note, follow), hooks:
                yield
        finally:
            follower.leave()
            for end in hidden:
                end()
            if follower.watched is not None:  # backward was the last of the call
                watch()
            self.changed = self.changed or ("" if saved is None else saved.changed)
            shape = passed + 1, nodes_of_autograd() - first
            ended = next((each for each in possible if (len(each.landmarks), each.nodes) == shape), None)
            if not self.changed and ended is None:
                self.changed = "the call has other operations than before, after the last call of a module or optimiser"
            self.grows, self._unseen, moved = False, self._unseen + 1, False
            if not is_watched:
                self._compare(most)
            else:
                _pop_mode()
                demand.end()
                demand.limit = limit
                moved = demand.counts.moves() != moves
                own = max(each.own for each in order.passages)
                needs_more = is_checked and (moved or demand.live() - held > own)
                demand.send_away(self._away)  # as they were between recorded calls
                self._is_fuller = demand.live() - held > own + self._room
                self.grows = not self.changed and (needs_more or (was_fuller and self._is_fuller))
                if self.grows and is_checked and moved:
                    self.over = f"a call needs more than those before, of which {self._unseen - 1} were not watched"
            order.came(None if self.changed else ended, was_watched and not moved)
        if is_checked:
            self._next, self._check, self._unseen = self._check, min(2 * self._check, MAX_CHECK), 0
