"""The events of an iteration in which tensors also move between host and flash.

Moves are transfers of flash, in the order in which they were queued. Copies to the host and moves back to it wait for
room there, in the order in which they ask. Each gets its room before it has its link, so that what waits for a link
never keeps room from what the link waits for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import inf

from .schedule import Absence, SwapSchedule
from .simulate_engine import FROM_FLASH, FROM_HOST, TO_FLASH, TO_HOST, Engine, SimulationInput, Transfer


class MovingEngine(Engine):
    """`Engine` for schedules with moves, which have numbers after those of absences and exchanges.

    `down_of`, `up_of`: the absence of a move. `moved`: absences with moves. By absence: `bytes`, and `down`, `up`,
    whether the move has ended. `asks`: by operation, the numbers of those that need room on the host from its end on;
    `asked`: those that wait for it, and `granted`, those that have it but not their link.
    """

    def __init__(self, prepared: SimulationInput, schedule: SwapSchedule, seconds: list[float]):
        super().__init__(prepared, schedule, seconds)
        absences, count = schedule.absences, len(seconds)
        self.down_of, self.up_of = dict[int, int](), dict[int, int]()
        self.bytes = [prepared.trace.tensors[each.tensor].size for each in absences]
        self.asked, self.granted = deque[int](), set[int]()
        self.asks = [
            [each for each in self.copies[at] if each < self.absences and not self.on_flash[each]]
            for at in range(count)
        ]
        self.down = [each.down is not None and (each.down < 0 or each.down < count <= each.next) for each in absences]
        self.up = [False] * len(absences)
        self.moved = {number for number, each in enumerate(absences) if each.down is not None}
        for number, each in enumerate(absences):
            if each.down is not None and each.up is not None:
                self._add_moves(number, each, each.down, each.up)
        self._queue_pending(absences)

    def _add_moves(self, number: int, absence: Absence, down: int, up: int) -> None:
        count, machine, size = len(self.seconds), self.prepared.machine, self.bytes[number]
        first = len(self.sizes)
        self.down_of[first], self.up_of[first + 1] = number, number
        self.copies[down % count].append(first)
        self.fetches[(up - 1) % count].append(first + 1)
        self.asks[(up - 1) % count].append(first + 1)
        self.sizes += [0, 0]
        self.out_work += [0.0] * (first + 2 - len(self.out_work))
        self.in_work += [0.0] * (first + 2 - len(self.in_work))
        self.out_work[first], self.in_work[first + 1] = machine.down_seconds(size), machine.up_seconds(size)
        self.kept += [True, True]
        for flags in (self.clean, self.on_flash):
            flags += [True, True]
        for flags in (self.copied, self.left, self.arrived):
            flags += [False, False]
        if down % count == count - 1:
            self.host -= size  # it has moved, before the first iteration

    def _queue_pending(self, absences: Sequence[Absence]) -> None:
        """Queue the moves that are pending before the first iteration, with the device's fetches from flash."""
        count = len(self.seconds)
        waiting = [(absences[number].back, absences[number].next, number) for number in self.queues[FROM_FLASH]]
        for move, number in self.up_of.items():
            each = absences[number]
            if each.up is not None and each.up <= count <= each.next:
                waiting.append((each.up, each.next, move))
                self.host -= self.bytes[number]
        self.queues[FROM_FLASH].clear()
        self.queues[FROM_FLASH].extend(number for _, _, number in sorted(waiting))
        self.asked.extend(number for number in self.queues[FROM_FLASH] if number in self.up_of)
        self._grant()

    def _end(self, at: int, now: float) -> None:
        self.asked.extend(self.asks[at])
        self._grant()
        super()._end(at, now)

    def _grant(self) -> None:
        """Give room on the host to those that ask, in order."""
        while self.asked:
            number = self.asked[0]
            size = self.bytes[self.up_of.get(number, number)]
            if self.host + size > self.prepared.machine.host_bytes:
                return
            self.host += size
            self.granted.add(self.asked.popleft())

    def _finish(self, now: float, at: int) -> float:
        link = self.ends.index(now) if now < inf else TO_HOST
        number, begun = self.current[link], self.begun[link]
        super()._finish(now, at)
        moved = self.down_of.get(number, self.up_of.get(number))
        if number in self.down_of:
            self.down[self.down_of[number]] = True
            self.host -= self.bytes[self.down_of[number]]
        elif number in self.up_of:
            self.up[self.up_of[number]] = True
        elif link == FROM_HOST and number in self.moved:
            self.down[number] = self.up[number] = False
        if moved is not None and self.log is not None:
            self.log.moves.append(Transfer(moved, link, begun, now))
        self._grant()
        for each in (TO_HOST, TO_FLASH):
            if self.queues[each] and self.ends[each] == inf:
                self._begin_out(each, now)
        self._note(now)
        return now

    def _begin_out(self, link: int, now: float) -> None:
        """Begin the first copy or move of a queue, if it has room on the host, or its copy is there."""
        number = self.queues[link][0]
        if link == TO_HOST and number < self.absences and number not in self.granted:
            return
        if number in self.down_of and not self.copied[self.down_of[number]]:
            return
        self.queues[link].popleft()
        self.granted.discard(number)
        self._begin(link, number, self.out_work[number], 1.0 if number in self.down_of else self.slow_out, now)

    def _begin_ins(self, now: float) -> None:
        """Begin the first fetch or move of each queue, if its link is free and there is room."""
        for link in (FROM_HOST, FROM_FLASH):
            queue = self.queues[link]
            if not queue or self.ends[link] < inf:
                continue
            number = queue[0]
            if number in self.up_of:
                if number in self.granted and self.down[self.up_of[number]]:
                    self.granted.discard(queue.popleft())
                    self._begin(link, number, self.in_work[number], 1.0, now)
            elif (self.sizes[number] <= self.free and self.copied[number] and self.left[number]
                  and (number not in self.moved or self.up[number])):  # fmt: skip
                queue.popleft()
                self._begin(link, number, self.in_work[number], self.slow_in, now)
                self._take(self.sizes[number], now)

    def _begin(self, link: int, number: int, work: float, slow: float, now: float) -> None:
        if not link & 1 and self._is_move(self.current[link + 1]):
            slow = 1.0  # what flash does now takes nothing of the device's link
        super()._begin(link, number, work, slow, now)

    def _is_move(self, number: int) -> bool:
        return number in self.down_of or number in self.up_of
