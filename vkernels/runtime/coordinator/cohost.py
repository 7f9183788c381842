"""Decide which tasks run side by side and which in turns: by what their calls need, and by how it turns out.

A task is a thread. Tasks that are at work at the same time are *company*. Side by side, each runs its calls on an equal
share of the cores; in turns, one after another runs its calls on all cores, for `LEASE` seconds each. They run side by
side while the sum of their needs is within what the slice has, and the company's *oversubscription* on top. This
adapts, as in Zorua: it grows a step while they get more done side by side than in turns, and shrinks while they get
less. It also grows slowly while they take turns, so that running side by side is tried again.

Decisions hold for a lease, so that most calls look at one object and take no lock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from vkernels.ir.fork_safe import fork_safe_lock

START, STEP = 0.10, 0.04
"""Oversubscription that company begins with, and how much it changes at once."""
BOUND = 2 * STEP
"""How far it moves beyond the point where the decision changes, so that it does not take long to change back."""
DEAD_BAND = 0.02
"""What is done side by side over what is done in turns may differ from 1 by so much before anything changes."""
EPOCH, RETRY = 0.02, 0.5
"""Seconds after which oversubscription changes, at least: side by side, and in turns."""
CALLS = 4
"""Calls of each task in an epoch, at least: by fewer nobody can tell."""
PROBE, LONGEST_PROBE = 0.5, 8.0
"""Seconds side by side after which tasks take turns for an epoch, to learn again how long calls take so; twice as many
each time that it changes nothing."""
LEAST_TURNED = 0.2
"""What is believed at least of the part of turns in which calls run."""
LEASE = 5e-3
"""Seconds that a decision holds."""
LINGER = 1e-3
"""Seconds that a task is at work after its last call."""
GRACE = 2e-4
"""Seconds that a task keeps its turn after its last call."""
PATIENCE = 5e-4
"""Seconds after which a task that waits looks again."""
MOST_COMPANY = 256
"""How many companies are known; then all are forgotten."""


class Way(Enum):
    """How calls run: with nobody else at work, in a turn, or side by side."""

    ALONE = "alone"
    TURN = "in turns"
    BESIDE = "side by side"


class Kind(Protocol):
    """Calls that take equally long. `name`: with sizes; `key`: what tells it from others."""

    name: str
    key: str

    @property
    def whole(self) -> float | None:
        """Seconds of a call on all cores; None until it is known."""
        ...

    def needs(self, tasks: int) -> Mapping[str, float] | None:
        """What calls need, as parts of the slice, on the share that each of so many tasks has.

        None while calls cannot run there yet.
        """
        ...


@dataclass
class Lease:
    """A decision for a task's calls. `tasks`: how many share; `until`: when it ends. Seconds of its calls: `took`, and
    on all cores: `whole`."""

    way: Way
    until: float
    version: int
    tasks: int = 1
    company: Company | None = None
    took: float = 0.0
    whole: float = 0.0


@dataclass
class Company:
    """Kinds of calls that met. `kernels`: their names; `what`, `needed`: what they need most of, as a part of what
    there is; `gain`: what was done side by side over what is done in turns; `turned`: in turns, the part of the time in
    which calls ran, as long as they take on all cores; the rest goes to changing over."""

    kernels: tuple[str, ...]
    what: str = ""
    needed: float = 0.0
    oversubscription: float = START
    gain: float | None = None
    changed: float = 0.0
    epoch: float = EPOCH
    way: Way | None = None
    since: float = 0.0
    done: dict[int, tuple[float, float]] = field(default_factory=dict)
    beside: int = 0
    turns: int = 0
    turned: float = 1.0
    turn: Lease | None = None
    turn_began: float = 0.0
    turn_work: float = 0.0
    turn_time: float = 0.0
    probe_at: float = 0.0
    probe_ends: float | None = None
    probe_after: float = PROBE

    @property
    def fits(self) -> bool:
        """Whether to run side by side."""
        return self.needed <= 1 + self.oversubscription

    def begin(self, lease: Lease, now: float) -> None:
        """A task begins a lease. What tasks do soon after changing over says little: caches hold other data."""
        if lease.way is not self.way:
            self.way, self.since, self.done = lease.way, now, {}
        if lease.way is Way.TURN:
            self.turns += 1
            self._begin_turn(lease, now)
        else:
            self.beside += 1

    def note(self, slot: int, whole: float, took: float) -> None:
        """A task's calls side by side took so long, and would on all cores."""
        before = self.done.get(slot, (0.0, 0.0))
        self.done[slot] = before[0] + whole, before[1] + took

    def is_probed(self, now: float) -> bool:
        """Whether to take turns for a while though it fits."""
        if now < self.probe_at:
            return False
        if self.probe_ends is None:
            self.probe_ends = now + self.epoch
        if now < self.probe_ends:
            return True
        self.probe_at, self.probe_after = now + self.probe_after, min(2 * self.probe_after, LONGEST_PROBE)
        self.probe_ends = self.turn = None
        return False

    def _begin_turn(self, lease: Lease, now: float) -> None:
        """A turn begins; the one before took until now, if nobody was away meanwhile."""
        before = self.turn
        if before is not None and now - self.turn_began < 4 * LEASE + 2 * before.whole:
            self.turn_work += before.whole
            self.turn_time += now - self.turn_began
            if self.turn_time >= self.epoch / 2:
                found = min(1.0, max(LEAST_TURNED, self.turn_work / self.turn_time))
                self.turned += (found - self.turned) / 2
                self.turn_work = self.turn_time = 0.0
        else:
            self.turn_work = self.turn_time = 0.0
        self.turn, self.turn_began = lease, now

    def grow(self, by: float) -> None:
        """Allow more or less, but not far beyond the point where the decision changes."""
        excess = self.needed - 1
        self.oversubscription = min(max(self.oversubscription + by, excess - BOUND), excess + BOUND)


@dataclass(frozen=True)
class CompanyStats:
    """How tasks that were at work at the same time shared the CPU, within `vk.cohost`.

    `kernels`: with sizes, one of each task; `what`, `needed`: what their calls side by side need most of, and how much
    of it, 1 being all that there is; `oversubscription`: how much more than all is allowed; `is_beside`: whether they
    run side by side now; `gain`: what they get done side by side, over what they get done in turns, as last measured;
    `beside`, `turns`: how often each of it was decided.
    """

    kernels: tuple[str, ...]
    what: str
    needed: float
    oversubscription: float
    is_beside: bool
    gain: float | None
    beside: int
    turns: int


class Task:
    """A thread's calls. `used`: seconds of the device that they had, as far as accounted for."""

    def __init__(self, slot: int) -> None:
        self.slot = slot
        self.used = 0.0
        self.begun = self.ended = float("-inf")
        self.in_call = self.waits = False
        self.kind: Kind | None = None
        self.lease: Lease | None = None

    def is_at_work(self, now: float) -> bool:
        return self.in_call or self.waits or now - self.ended < LINGER

    def keeps_turn(self, now: float) -> bool:
        """Whether nobody else may begin a turn."""
        lease = self.lease
        has_turn = lease is not None and lease.way is Way.TURN and now < lease.until and now - self.ended < GRACE
        return self.in_call or has_turn


class CoHost:
    """The tasks of a process. `clock`: gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._changed = threading.Condition(fork_safe_lock())
        self._tasks: list[Task] = []
        self._companies: dict[tuple[str, ...], Company] = {}
        self.version = 0

    def enter(self) -> Task:
        """A new task, which has the lowest number that is free."""
        with self._changed:
            taken = {task.slot for task in self._tasks}
            task = Task(next(slot for slot in range(len(taken) + 1) if slot not in taken))
            self._tasks.append(task)
            self.version += 1
        return task

    def leave(self, task: Task) -> None:
        """Forget a task."""
        with self._changed:
            self._account(task, self._clock())
            self._tasks.remove(task)
            self.version += 1
            self._changed.notify_all()

    def keep(self, tasks: Sequence[Task]) -> None:
        """Forget all other tasks, as in a forked child."""
        self._tasks, self.version = list(tasks), self.version + 1

    def begin(self, task: Task, kind: Kind) -> Lease:
        """A lease for calls of a task, which may wait for it. Call `task.in_call = True` with it."""
        with self._changed:
            now = self._clock()
            self._account(task, now)
            if not task.is_at_work(now):
                self._join(task, now)
            task.kind, task.waits = kind, True
            try:
                while True:
                    others = [other for other in self._tasks if other is not task and other.is_at_work(now)]
                    lease = self._decided(task, others, now)
                    if not self._must_wait(task, others, lease.way, now):
                        break
                    self._changed.wait(PATIENCE)
                    now = self._clock()
            finally:
                task.waits = False
            if lease.way is Way.TURN:
                self.version += 1  # nobody goes on with a lease of before
            if lease.company is not None:
                lease.company.begin(lease, now)
            lease.version, lease.until = self.version, now + LEASE
            task.lease, task.begun, task.in_call = lease, now, True
            return lease

    def stats(self) -> tuple[CompanyStats, ...]:
        """All companies, in the order in which they met."""
        with self._changed:
            return tuple(
                CompanyStats(
                    each.kernels, each.what, each.needed, each.oversubscription, each.fits, each.gain, each.beside,
                    each.turns,
                )
                for each in self._companies.values()
            )  # fmt: skip

    def _join(self, task: Task, now: float) -> None:
        """A task comes to work: it has had no less than others, so that it does not keep them waiting for long."""
        others = [other.used for other in self._tasks if other is not task and other.is_at_work(now)]
        task.used = max(task.used, min(others, default=0.0))
        if others:
            self.version += 1

    def _account(self, task: Task, now: float) -> None:
        """What a task did with its last lease."""
        lease, task.lease = task.lease, None
        if lease is None or task.ended <= task.begun:
            return
        task.used += (task.ended - task.begun) / lease.tasks
        company = lease.company
        if lease.way is Way.BESIDE and company is not None and lease.took > 0:
            counts_from = company.since + company.epoch
            if task.begun > counts_from:
                company.note(task.slot, lease.whole, lease.took)
            if len(company.done) == lease.tasks and now - max(company.changed, counts_from) >= company.epoch:
                self._adapt(company, now)
        elif lease.way is Way.TURN and company is not None and not company.fits and now - company.changed >= RETRY:
            company.changed = now
            company.grow(STEP)
            self.version += company.fits
        if any(other.waits for other in self._tasks):
            self._changed.notify_all()

    def _adapt(self, company: Company, now: float) -> None:
        company.gain = sum(whole / took for whole, took in company.done.values()) / company.turned
        company.done, company.changed = {}, now
        if abs(company.gain - 1) > DEAD_BAND:
            company.grow(STEP if company.gain > 1 else -STEP)
            if not company.fits:
                company.probe_after = PROBE
                self.version += 1

    def _decided(self, task: Task, others: Sequence[Task], now: float) -> Lease:
        """What a task does next: alone where nobody else is at work; side by side where all are known and fit."""
        if not others:
            return Lease(Way.ALONE, now, self.version)
        everybody, tasks = [task, *others], len(others) + 1
        kinds = [each.kind for each in everybody if each.kind is not None]
        needs = [each for kind in kinds if kind.whole is not None and (each := kind.needs(tasks)) is not None]
        if len(needs) < tasks:
            return Lease(Way.TURN, now, self.version)
        company = self._company(kinds, now)
        company.what, company.needed = scarcest(needs)
        company.epoch = max(EPOCH, CALLS * tasks * max(kind.whole or 0.0 for kind in kinds))
        is_beside = company.fits and not company.is_probed(now)
        return Lease(Way.BESIDE if is_beside else Way.TURN, now, self.version, tasks if is_beside else 1, company)

    def _company(self, kinds: Sequence[Kind], now: float) -> Company:
        key = tuple(sorted(kind.key for kind in kinds))
        found = self._companies.get(key)
        if found is None:
            if len(self._companies) >= MOST_COMPANY:
                self._companies.clear()
            found = self._companies[key] = Company(
                tuple(kind.name for kind in kinds), changed=now, probe_at=now + PROBE
            )
        return found

    def _must_wait(self, task: Task, others: Sequence[Task], way: Way, now: float) -> bool:
        """Whether somebody has a turn, or had less than this task and waits for one."""
        if way is Way.ALONE:
            return False
        if any(other.waits and other.used + LEASE / 2 <= task.used for other in others):
            return way is Way.TURN
        if way is Way.BESIDE:
            return any(other.keeps_turn(now) and _has_turn(other) for other in others)
        return any(other.keeps_turn(now) for other in others)


def _has_turn(task: Task) -> bool:
    return task.lease is not None and task.lease.way is Way.TURN


def scarcest(needs: Sequence[Mapping[str, float]]) -> tuple[str, float]:
    """What calls that run at the same time need most of, and how much of it, as a part of what there is."""
    names = dict.fromkeys(name for each in needs for name in each)
    totals = {name: sum(each.get(name, 0.0) for each in needs) for name in names}
    return max(totals.items(), key=lambda each: each[1], default=("", 0.0))


HOST = CoHost()
"""The tasks of this process."""


def cohost_stats() -> tuple[CompanyStats, ...]:
    """How tasks of this process that met shared the CPU, in the order in which they did."""
    return HOST.stats()
