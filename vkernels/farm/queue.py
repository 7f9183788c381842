"""Which search gets the next turn, where, and what follows from a turn's answer. Knows neither Ray nor a database."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import uuid4

import numpy as np

from vkernels.autotune.database.entry import shape_class
from vkernels.ir.errors import OptionError

from .boosting import Boosted
from .history import Forecast
from .jobs import Job
from .offers import asks_for
from .order import Bounded, Policy, Waiting
from .records import DONE, FAILED, RUNNING, WAITING, Answer, FarmJob, Offer, Part, Submission, TurnRequest

TURN_SECONDS = 10.0
BOUND_SECONDS = 4 * 3600.0
"""Seconds from arrival to end that the order keeps while it can."""
HALF_LIFE = 3600.0
"""Seconds after which half of what a user was served no longer counts."""
FIRST_GAIN, FADING = 0.3, 0.5
"""Part of its time that a search's first turn is taken to save, and what the next turn saves of what the last one did:
as in the tuning of models."""
MAX_ENDED, MAX_LOST, MAX_EMPTY = 3, 10, 3
"""Turns whose process ended, turns whose machine was lost, and turns in a row without a time, before a search fails."""
PAUSES = {"claimed": 2.0, "database": 5.0}
"""Seconds before the next turn of a search, by the kind of the answer."""
LEAST_TURN = 0.5
"""A rest of the budget below this part of a turn is added to the turn before it."""


@dataclass(frozen=True)
class Slot:
    """A place for one turn at a time: some cores of a node, or a device. `offer`: the slice that it is."""

    id: str
    node: str
    offer: Offer
    cores: tuple[int, ...]


@dataclass(frozen=True)
class Turn:
    """A part of a job on a slot. `began`: on the queue's clock."""

    id: str
    job: int
    part: int
    slot: Slot
    request: TurnRequest
    began: float


@dataclass
class Queue:
    """The jobs, and the turns that run. `say`: keeps a line about a job; `database`: the address for turns.

    `policy`: the order; its `turn`, if it is finite, is the length of turns in seconds; else a search runs to its end.
    For one thread.
    """

    database: str
    policy: Policy = field(default_factory=lambda: Bounded(TURN_SECONDS, BOUND_SECONDS, fairness=1.0))
    say: Callable[[int, str], object] = lambda job, text: None
    clock: Callable[[], float] = time.monotonic
    jobs: dict[int, FarmJob] = field(default_factory=dict)
    running: dict[str, Turn] = field(default_factory=dict)
    history: Forecast = field(default_factory=Boosted)
    _since: dict[int, float] = field(default_factory=dict)
    _until: dict[tuple[int, int], float] = field(default_factory=dict)
    _empty: dict[tuple[int, int], int] = field(default_factory=dict)
    _used: dict[str, float] = field(default_factory=dict)
    _counted: float = 0.0

    def load(self, jobs: Sequence[FarmJob]) -> None:
        """Take in the jobs of a head that was restarted. What ran then waits again."""
        for job in jobs:
            self._add(job)
            for part in job.parts:
                part.state = WAITING if part.state == RUNNING else part.state
                if part.state == DONE:
                    self.history.add(_past(job, part))

    def submit(self, user: str, submission: Submission, weight: float = 1.0) -> FarmJob:
        """Add a job, which counts as much as `weight` beside others. Raises `OptionError` without a budget."""
        if submission.seconds is None and submission.plans is None:
            raise OptionError("budget: expected seconds, a number of plans, or both")
        known = sum(each.seconds for each in submission.tasks)
        shares = [each.seconds / known if known else 1 / len(submission.tasks) for each in submission.tasks]
        parts = [
            Part(wanted.task, slice, weight * share / len(submission.slices), _kind(wanted.task, slice))
            for wanted, share in zip(submission.tasks, shares, strict=True)
            for slice in submission.slices
        ]
        job = FarmJob(max(self.jobs, default=0) + 1, user, submission, parts, time.time())
        for part in parts:
            part.expected = self._expected(job, part)
        self._add(job)
        return job

    def cancel(self, number: int) -> list[str]:
        """End a job; returns the turns that still run for it. Raises `OptionError` for an unknown one."""
        if number not in self.jobs:
            raise OptionError(f"there is no job {number}")
        job = self.jobs[number]
        job.is_cancelled = job.is_cancelled or any(part.is_open for part in job.parts)
        return [turn.id for turn in self.running.values() if turn.job == number]

    def waited(self, job: FarmJob) -> float:
        """Seconds since a job was submitted, as far as the farm was up."""
        return self.clock() - self._since[job.number]

    # Turns

    def next_turns(self, slots: Sequence[Slot]) -> list[Turn]:
        """Turns that may begin now on these slots, which are all that there are; they count as running."""
        begun: list[Turn] = []
        free = [slot for slot in slots if not self._is_taken(slot)]
        passed: set[tuple[int, int]] = set()
        while free:
            waiting = [each for each in self._waiting(slots) if (each[0].number, each[1]) not in passed]
            if not waiting:
                break
            job, number = waiting[self.policy.choose(self._view(waiting, slots), self.clock(), len(slots))]
            part = job.parts[number]
            fitting = sorted(
                (slot for slot in free if _fits(job, part, slot)), key=lambda slot: (slot.offer.width, slot.id)
            )
            passed.add((job.number, number))
            if fitting and not self._is_measured(part, fitting[0]):
                turn = self._begin(job, number, fitting[0])
                begun.append(turn)
                free = [slot for slot in free if not self._is_taken(slot)]
            elif not fitting:  # nothing narrower begins where it waits for cores
                awaited = next((slot for slot in slots if _fits(job, part, slot)), None)
                free = [slot for slot in free if awaited is None or not _overlap(slot, awaited)]
        return begun

    def finish(self, turn: str, answer: Answer) -> FarmJob | None:
        """Take in the answer of a turn; returns its job. None for an unknown turn, as of a head before this one."""
        if (known := self.running.pop(turn, None)) is None:
            return None
        job, number = self.jobs[known.job], known.part
        part, place = job.parts[number], (known.job, number)
        part.state = WAITING
        self._until[place] = self.clock() + PAUSES.get(answer.kind, 0.0)
        self._count(known, answer.seconds)
        if answer.kind in PAUSES:
            self.say(job.number, f"{_shown(part)}: {answer.error}; it is tried again")
        elif job.is_cancelled and answer.kind == "ended":
            part.served += answer.seconds
        elif answer.kind == "user":
            self._end(job, part, FAILED, answer.error)
        elif answer.kind == "ended":
            part.ended, part.served = part.ended + 1, part.served + answer.seconds
            self.say(job.number, f"{_shown(part)}: {answer.error}")
            if part.ended >= MAX_ENDED:
                self._end(job, part, FAILED, f"its process ended {part.ended} times: {answer.error}")
        else:
            self._note(job, number, answer)
        job.waited = self.waited(job)
        return job

    def lose(self, turn: str, why: str) -> FarmJob | None:
        """A turn's machine or worker is gone; it is begun again elsewhere."""
        if (known := self.running.pop(turn, None)) is None:
            return None
        job = self.jobs[known.job]
        part = job.parts[known.part]
        part.state, part.lost = WAITING, part.lost + 1
        self.say(job.number, f"{_shown(part)}: turn on {known.slot.node[:12]} lost: {why}")
        if part.lost >= MAX_LOST:
            self._end(job, part, FAILED, f"its machine was lost {part.lost} times: {why}")
        return job

    def _note(self, job: FarmJob, number: int, answer: Answer) -> None:
        part, given = job.parts[number], job.submission
        before = part.best or answer.default
        part.saved = max(0.0, 1 - answer.best / before) if answer.best and before else 0.0
        part.turns, part.served, part.tried = part.turns + 1, part.served + answer.used, answer.tried
        if answer.best is not None:
            part.best, part.default = answer.best, answer.default or part.default
        place = (job.number, number)
        empty = self._empty[place] = 0 if answer.measured and answer.best else self._empty.get(place, 0) + 1
        self.say(job.number, f"{_shown(part)}: turn {part.turns}, {answer.measured} plans measured, {_gain(part)}")
        over = given.seconds is not None and given.seconds - part.served < 0.05 * given.seconds
        over = over or (given.plans is not None and part.tried >= given.plans)
        if part.best is not None and (over or answer.stopped == "space" or empty >= MAX_EMPTY):
            self._end(job, part, DONE, answer.stopped)
        elif empty >= MAX_EMPTY or answer.stopped == "space":
            self._end(job, part, FAILED, "no plan could be timed")

    def _end(self, job: FarmJob, part: Part, state: str, reason: str) -> None:
        part.state, part.reason = state, reason
        if state == DONE:
            self.history.add(_past(job, part))
        self.say(job.number, f"{_shown(part)}: {state}: {reason if state == FAILED else _gain(part)}")

    def _begin(self, job: FarmJob, number: int, slot: Slot) -> Turn:
        part, given = job.parts[number], job.submission
        part.state, part.device, part.limits = RUNNING, slot.offer.device, slot.offer.limits
        length = self._length(given, part, self._empty.get((job.number, number), 0))
        identity = uuid4().hex
        request = TurnRequest(
            identity, f"{job.user}, job {job.number}", part.task, slot.offer.slice, list(slot.cores),
            min(length, 1e6), self.database, given.plans, given.search, given.seed, given.caches, given.files,
        )  # fmt: skip
        turn = Turn(identity, job.number, number, slot, request, self.clock())
        self.running[identity] = turn
        return turn

    def _length(self, given: Submission, part: Part, empty: int) -> float:
        """Seconds of the next turn. Each turn without a time doubles it, beyond the budget where there is no plan yet:
        on a machine that others use, a turn may be too short even to compile.
        """
        turn, left = self.policy.turn * 2**empty, (given.seconds or float("inf")) - part.served
        if empty and part.best is None:
            left = max(left, min(turn, (given.seconds or turn) * 2**empty))
        return left if left < (1 + LEAST_TURN) * turn else turn

    # What waits

    @property
    def waiting(self) -> int:
        """Parts that wait for a turn, whether a machine for them is there or not."""
        open_jobs = [job for job in self.jobs.values() if not job.is_cancelled]
        return sum(part.state == WAITING for job in open_jobs for part in job.parts)

    def _waiting(self, slots: Sequence[Slot]) -> Iterator[tuple[FarmJob, int]]:
        now = self.clock()
        for job in self.jobs.values():
            if job.is_cancelled:
                continue
            for number, part in enumerate(job.parts):
                is_ready = part.state == WAITING and self._until.get((job.number, number), 0.0) <= now
                if is_ready and any(_fits(job, part, slot) for slot in slots):
                    yield job, number

    def _view(self, waiting: Sequence[tuple[FarmJob, int]], slots: Sequence[Slot]) -> Waiting:
        parts = [job.parts[number] for job, number in waiting]
        used = {job.user: self._used.get(job.user, 0.0) for job, _ in waiting}
        total = sum(used.values())
        widths = [next(slot.offer.width for slot in slots if _fits(job, job.parts[n], slot)) for job, n in waiting]
        return Waiting(
            np.array([self._since[job.number] for job, _ in waiting]),
            np.array([part.expected for part in parts]),
            np.array([part.served for part in parts]),
            np.array(widths, float),
            np.array([max(1e-6, part.weight * _next_gain(part)) for part in parts]),
            np.array([used[job.user] * len(used) / total if total else 0.0 for job, _ in waiting]),
        )

    def _count(self, turn: Turn, seconds: float) -> None:
        """Add a turn to what its user was served, which fades."""
        now = self.clock()
        kept = 0.5 ** (max(0.0, now - self._counted) / HALF_LIFE)
        self._counted = now
        self._used = {user: kept * used for user, used in self._used.items()}
        user = self.jobs[turn.job].user
        self._used[user] = self._used.get(user, 0.0) + seconds * turn.slot.offer.width

    def _is_taken(self, slot: Slot) -> bool:
        return any(_overlap(turn.slot, slot) for turn in self.running.values())

    def _is_measured(self, part: Part, slot: Slot) -> bool:
        """Whether the same is being measured: turns of one task on one kind of slice do not run at the same time."""
        mine = json.dumps(part.task, sort_keys=True)
        return any(
            turn.slot.offer.limits == slot.offer.limits
            and turn.slot.offer.device == slot.offer.device
            and json.dumps(turn.request.task, sort_keys=True) == mine
            for turn in self.running.values()
        )

    def _expected(self, job: FarmJob, part: Part) -> float:
        budget = job.submission.seconds
        predicted = self.history.predict(_past(job, part))
        return predicted if budget is None else min(budget, predicted) if self.history.is_filled else budget

    def _add(self, job: FarmJob) -> None:
        self.jobs[job.number] = job
        self._since[job.number] = self.clock() - job.waited


def _fits(job: FarmJob, part: Part, slot: Slot) -> bool:
    offer = slot.offer
    if part.limits and (part.limits, part.device) != (offer.limits, offer.device):
        return False
    return asks_for(part.slice, offer) and job.submission.device.lower() in offer.device.lower()


def _overlap(one: Slot, other: Slot) -> bool:
    """Whether turns on both would share a device or cores; what launches on a GPU disturbs who measures on its core."""
    return one.id == other.id or (one.node == other.node and not set(one.cores).isdisjoint(other.cores))


def _next_gain(part: Part) -> float:
    """The part of its time that a search's next turn is expected to save."""
    if not part.turns:
        return FIRST_GAIN
    return max(FADING * part.saved, FIRST_GAIN * FADING ** (part.turns + 2))


def _kind(task: Mapping[str, object], slice: str) -> list[str]:
    where, _, name = str(task.get("kernel", "")).rpartition(":")
    shape = task.get("shape")
    sizes = {str(key): int(value) for key, value in shape.items()} if isinstance(shape, dict) else {}
    return [where.rpartition(".")[2] if not where.endswith(".py") else where, name, shape_class(sizes), slice]


def _past(job: FarmJob, part: Part) -> Job:
    """A part as the history of durations has it."""
    return Job(0.0, max(1e-3, part.served), job.user, tuple(part.kind))


def _shown(part: Part) -> str:
    sizes = part.task.get("shape") or {}
    return " ".join([part.kind[1], *(f"{name}={size}" for name, size in sizes.items()), "on", part.slice])


def _gain(part: Part) -> str:
    if part.best is None:
        return "no plan timed yet"
    if part.default is None:
        return f"{part.best:.3g} s"
    return f"{part.default / part.best:.2f} times as fast as the default"
