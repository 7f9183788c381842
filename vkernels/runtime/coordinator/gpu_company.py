"""Tasks within `vk.cohost` whose calls meet on a GPU: how many share it, decided at each launch.

Side by side, each runs the plan for its part of the multiprocessors, as long as what they need together is within what
there is and the company's *oversubscription* on top: bandwidth of memory and of the last cache, room in it, and
registers, shared memory and threads of the multiprocessors, on which programs of all tasks must fit beside one another.
Otherwise each has the plan for the whole device, and the device runs their launches in turns.

Oversubscription adapts, by how long calls take: it grows a step while what the tasks get done side by side, as parts of
what each gets done alone, is more than 1 together, and shrinks while it is less. It also grows slowly while they take
turns. What calls take is measured by marks in their streams, of a call now and then.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from vkernels.ir.fork_safe import fork_safe_lock
from vkernels.ir.planning.programs_beside import HeldPrograms, crowded_out

from .cohost import CALLS, DEAD_BAND, EPOCH, LEASE, MOST_COMPANY, RETRY, STEP, Company, CompanyStats, scarcest
from .launch_profile import Mark

SAMPLED_EVERY = 2e-3
"""Seconds between two calls of a task that are measured, at least: marks cost the host time."""
WEIGHT = 0.1
"""Of a new duration in the average."""


@dataclass(frozen=True)
class TaskNeeds:
    """What a task's calls need side by side with others. `parts`: of bandwidths and caches of the whole device, by
    name; `held`: their programs at once, on so many `multiprocessors`."""

    parts: Mapping[str, float]
    held: HeldPrograms
    multiprocessors: int

    def all_parts(self) -> dict[str, float]:
        """Also of what multiprocessors have."""
        return {**self.parts, **self.held.parts(self.multiprocessors)}


class Kind(Protocol):
    """Calls that take equally long. `name`: with sizes; `key`: what tells it from others."""

    @property
    def name(self) -> str: ...
    @property
    def key(self) -> str: ...

    def needs(self, tasks: int) -> TaskNeeds | None:
        """What calls need on the share that each of so many tasks has; None while they cannot run there yet."""
        ...


@dataclass
class Decided:
    """How a call runs. `tasks`: how many share the device, 1 if the call has all of it. `company`: those that met, None
    where nobody did. `is_sampled`: whether it is measured."""

    tasks: int
    company: Company | None = None
    is_sampled: bool = False


@dataclass
class _Sample:
    """A call between two marks."""

    decided: Decided
    kind: str
    begin: Mark
    end: Mark


@dataclass
class _Present:
    """A task's latest call."""

    kind: Kind
    when: float = 0.0
    sampled_at: float = float("-inf")
    sample: _Sample | None = None


@dataclass
class _Ratios:
    """Of calls side by side, what each took alone over what it took, by task."""

    by_task: dict[int, list[float]] = field(default_factory=dict)

    def note(self, task: int, ratio: float) -> None:
        self.by_task.setdefault(task, []).append(ratio)

    def gain(self, tasks: int) -> float | None:
        """What all tasks get done, 1 being what one gets done alone; None before enough of each was measured."""
        enough = [found for found in self.by_task.values() if len(found) >= CALLS]
        return sum(sum(found) / len(found) for found in enough) if len(enough) == tasks else None


class GpuCompany:
    """The tasks of one device. `clock`: gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._lock = fork_safe_lock()
        self._present: dict[int, _Present] = {}
        self._alone: dict[str, float] = {}
        self._companies: dict[tuple[str, ...], Company] = {}
        self._ratios: dict[int, _Ratios] = {}
        """By the company's `id`: both are forgotten together."""

    def decide(self, kind: Kind) -> Decided:
        """This thread makes a call of a kind."""
        now, thread = self._clock(), threading.get_ident()
        with self._lock:
            own = self._present.get(thread)
            if own is None:
                own = self._present[thread] = _Present(kind)
            own.kind, own.when = kind, now
            self._look(own, thread, now)
            for each in [each for each, found in self._present.items() if now - found.when >= LEASE]:
                del self._present[each]
            everybody = [found.kind for found in self._present.values()]
            is_sampled = own.sample is None and now - own.sampled_at >= SAMPLED_EVERY
            if is_sampled:
                own.sampled_at = now
            if len(everybody) < 2:
                return Decided(1, None, is_sampled)
            needs = [found for each in everybody if (found := each.needs(len(everybody))) is not None]
            if len(needs) < len(everybody):
                return Decided(1)
            company = self._company(everybody, now)
            company.what, company.needed = together(needs)
            if company.fits:
                company.beside += 1
                return Decided(len(everybody), company, is_sampled)
            company.turns += 1
            if now - company.changed >= RETRY:
                company.changed = now
                company.grow(STEP)
            return Decided(1, company)

    @contextmanager
    def measured(self, decided: Decided, kind: str, mark: Callable[[], Mark]) -> Iterator[None]:
        """Measure the call of this thread that runs meanwhile, which is looked at when it calls again."""
        begin = mark()
        yield
        sample = _Sample(decided, kind, begin, mark())
        with self._lock:
            if (own := self._present.get(threading.get_ident())) is not None:
                own.sample = sample

    def stats(self) -> tuple[CompanyStats, ...]:
        """All companies, in the order in which they met."""
        with self._lock:
            return tuple(
                CompanyStats(
                    each.kernels, each.what, each.needed, each.oversubscription, each.fits, each.gain, each.beside,
                    each.turns,
                )
                for each in self._companies.values()
            )  # fmt: skip

    def _company(self, everybody: Sequence[Kind], now: float) -> Company:
        kinds = tuple(sorted(each.key for each in everybody))
        found = self._companies.get(kinds)
        if found is None:
            if len(self._companies) >= MOST_COMPANY:
                self._companies.clear()
                self._ratios.clear()
                self._alone.clear()
            found = self._companies[kinds] = Company(tuple(sorted(each.name for each in everybody)), changed=now)
        return found

    def _look(self, own: _Present, thread: int, now: float) -> None:
        """See whether a call that is measured is done by now, and what it says."""
        sample = own.sample
        if sample is None or not sample.end.query():
            return
        own.sample, seconds, company = None, sample.begin.elapsed_time(sample.end) / 1e3, sample.decided.company
        alone = self._alone.get(sample.kind)
        if company is None:
            if any(each.when >= own.sampled_at for each in self._present.values() if each is not own):
                return  # somebody came meanwhile
            self._alone[sample.kind] = seconds if alone is None else alone + WEIGHT * (seconds - alone)
        elif alone is not None and seconds > 0 and now - company.changed >= EPOCH:
            ratios = self._ratios.setdefault(id(company), _Ratios())
            ratios.note(thread, alone / seconds)
            gain = ratios.gain(sample.decided.tasks)
            if gain is not None:
                del self._ratios[id(company)]
                company.gain, company.changed = gain, now
                if abs(gain - 1) > DEAD_BAND:
                    company.grow(STEP if gain > 1 else -STEP)


def together(needs: Sequence[TaskNeeds]) -> tuple[str, float]:
    """What tasks that run side by side need most of, and how much of it, as a part of what there is.

    Where programs do not all fit beside one another: 1, and the part of a task's programs that has to wait.
    """
    parts = [each.all_parts() for each in needs]
    waits = crowded_out(needs[0].multiprocessors, tuple(each.held for each in needs))
    if waits <= 0:
        return scarcest(parts)
    of_multiprocessors = {name for each in needs for name, _ in each.held.taken}
    what, _ = scarcest([{name: part for name, part in each.items() if name in of_multiprocessors} for each in parts])
    return max((what, 1 + waits), scarcest(parts), key=lambda each: each[1])


COMPANIES: dict[int, GpuCompany] = {}
"""Those of this process, by the number of the device."""


def company_on(device: int) -> GpuCompany:
    """The tasks of a device."""
    return COMPANIES.get(device) or COMPANIES.setdefault(device, GpuCompany())


def gpu_company_stats() -> tuple[CompanyStats, ...]:
    """How tasks of this process that met shared GPUs."""
    return tuple(each for _, company in sorted(COMPANIES.items()) for each in company.stats())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=COMPANIES.clear)
