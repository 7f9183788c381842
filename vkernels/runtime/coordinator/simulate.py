"""Simulate tasks that share a device by priority, from recorded durations and gaps of their calls.

A task is a thread that calls a kernel, waits, and calls it again. Calls of higher priority have the cores that they
want first. What had a core before gives it up when its turn is over: after a while on a CPU, at the end of the call on
a device that cannot preempt. Tasks of one priority share cores evenly.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vkernels.ir.errors import OptionError

from .priority import LEVELS

WHOLE_CALL = math.inf
"""The turn of work that no one interrupts."""


@dataclass(frozen=True)
class SimulatedTask:
    """A task. Times are in seconds.

    `durations`, `gaps`: as recorded alone, of calls and from the end of a call to the next; each is drawn anew for
    every call. `threads`: cores that a call uses. `turn`: the longest that it keeps cores when they are wanted by
    calls of higher priority. `slower`: by names of other tasks, how many times as long calls take while these run on
    all their threads; on fewer cores they cost in proportion. `refetched`: what a call takes longer if another task ran
    since the call before. `begins_with_core`: whether a call begins when its thread has a core, as calls on a CPU are
    measured: what the thread waits for the first one is not part of it.
    """

    name: str
    priority: str
    durations: Sequence[float]
    gaps: Sequence[float] = (0.0,)
    threads: int = 1
    turn: float = 5e-5
    slower: Mapping[str, float] = field(default_factory=dict)
    refetched: float = 0.0
    begins_with_core: bool = False


@dataclass(frozen=True)
class SimulatedCalls:
    """What a task's calls took. `durations`: seconds of each complete call, its waiting included, but for that before
    it begins; `rate`: calls a second."""

    name: str
    durations: tuple[float, ...]
    rate: float

    def quantile(self, part: float) -> float:
        """Seconds that this part of the calls did not exceed; NaN without calls."""
        ordered = sorted(self.durations)
        if not ordered:
            return math.nan
        at = part * (len(ordered) - 1)
        low, high = ordered[math.floor(at)], ordered[math.ceil(at)]
        return low + (high - low) * (at - math.floor(at))


def simulate(tasks: Sequence[SimulatedTask], cores: int, seconds: float, seed: int = 0) -> tuple[SimulatedCalls, ...]:
    """Let tasks share so many cores for so long. The same seed gives the same calls.

    Raises `OptionError` for tasks that cannot run: of no calls, more threads than cores, names that are not distinct,
    or neither durations nor gaps above 0.
    """
    if len({task.name for task in tasks}) < len(tasks):
        raise OptionError("simulate: tasks must have different names")
    for task in tasks:
        _check(task, cores)
    chance = random.Random(seed)
    running = [_Running(task, chance) for task in tasks]
    now = 0.0
    while now < seconds:
        _grant(running, cores, now)
        step = min(seconds - now, *(each.until_change(now) for each in running))
        for each in running:
            each.work_for(now, step)
        now += step
        for each in running:
            each.change(now, running, cores)
    return tuple(SimulatedCalls(each.task.name, tuple(each.took), len(each.took) / seconds) for each in running)


def _check(task: SimulatedTask, cores: int) -> None:
    what = f"simulate: {task.name}"
    if task.priority not in LEVELS:
        raise OptionError(f"{what}: expected a priority of {', '.join(LEVELS)}, got {task.priority!r}")
    if not 1 <= task.threads <= cores:
        raise OptionError(f"{what}: {task.threads} threads cannot run at once on {cores} cores")
    times = [*task.durations, *task.gaps, task.turn, task.refetched]
    if not task.durations or not task.gaps or not all(each >= 0 for each in times):
        raise OptionError(f"{what}: expected durations, gaps and turns of at least 0 s")
    if min(task.durations) + min(task.gaps) <= 0:
        raise OptionError(f"{what}: a call and the gap after it may not both take no time")
    if not all(factor >= 1 for factor in task.slower.values()):
        raise OptionError(f"{what}: slower: expected factors of at least 1")


class _Running:
    """A task, and how far it is: in a gap until some time, or in a call with so much work left."""

    def __init__(self, task: SimulatedTask, chance: random.Random) -> None:
        self.task, self.level, self._chance = task, LEVELS[task.priority], chance
        self.took: list[float] = []
        self.in_call = False
        self.resumes = chance.choice(task.gaps)
        self.began = self.left = 0.0
        self.cores = self.rate = 0.0
        self.keeps_until = -math.inf
        self.is_cold = False
        self.has_begun = False

    @property
    def part(self) -> float:
        """Of the cores that its call uses, those that it has."""
        return self.cores / self.task.threads

    @property
    def is_at_work(self) -> bool:
        return self.in_call and self.rate > 0

    def until_change(self, now: float) -> float:
        """Seconds until something of this task changes at this rate."""
        if not self.in_call:
            return max(0.0, self.resumes - now)
        ends = self.left / self.rate if self.rate > 0 else math.inf
        return min(ends, self.keeps_until - now) if self.keeps_until > now else ends

    def work_for(self, now: float, step: float) -> None:
        """Work until a while after this time."""
        if self.in_call:
            if not self.has_begun and self.rate > 0:
                self.began, self.has_begun = now, True
            self.left -= step * self.rate

    def change(self, now: float, everybody: Sequence[_Running], cores: int) -> None:
        """Begin or end a call, where it is time."""
        if self.in_call and self.left <= 1e-12 and self.rate > 0:
            self.took.append(now - self.began)
            self.in_call, self.rate, self.cores, self.keeps_until = False, 0.0, 0.0, -math.inf
            self.resumes = now + self._chance.choice(self.task.gaps)
            for each in everybody:
                each.is_cold |= each is not self
        elif not self.in_call and self.resumes <= now:
            self.in_call, self.began, self.has_begun = True, now, not self.task.begins_with_core
            self.left = self._chance.choice(self.task.durations) + (self.task.refetched if self.is_cold else 0.0)
            self.is_cold = any(each.in_call for each in everybody if each is not self)
            self._take_cores(now, everybody, cores)

    def _take_cores(self, now: float, everybody: Sequence[_Running], cores: int) -> None:
        """Let work of lower priority end its turns, where cores do not suffice."""
        free = cores - sum(each.cores for each in everybody if each is not self)
        if free >= self.task.threads:
            return
        for each in everybody:
            if each.cores > 0 and each.level < self.level and each.keeps_until < now:
                whole = each.task.turn == WHOLE_CALL
                each.keeps_until = math.inf if whole else now + self._chance.uniform(0, each.task.turn)


def _grant(running: Sequence[_Running], cores: int, now: float) -> None:
    """Give cores to calls: first to those whose turns are not over, then by priority."""
    at_work = [each for each in running if each.in_call]
    keeping = [each for each in at_work if each.keeps_until > now]
    left = cores - sum(each.cores for each in keeping)
    others = [each for each in at_work if each not in keeping]
    for level in sorted({each.level for each in others}, reverse=True):
        group = [each for each in others if each.level == level]
        wanted = sum(each.task.threads for each in group)
        part = min(1.0, left / wanted)
        for each in group:
            each.cores = each.task.threads * part
        left -= wanted * part
    for each in at_work:
        slower = math.prod(1 + (each.task.slower.get(o.task.name, 1.0) - 1) * o.part for o in at_work if o is not each)
        each.rate = each.part / slower
