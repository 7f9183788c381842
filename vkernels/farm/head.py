"""The head of a farm: takes submissions, gives turns to slots, keeps results, and says how far everything is."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from vkernels.autotune.database.entry_json import entry_from_text
from vkernels.inspect.task import task_from_json
from vkernels.ir.errors import FileError, OptionError, SetupError

from .broker import BROKER, WEIGHT, asked_for
from .cluster import Cluster, Lost
from .power import Power
from .queue import Queue, Slot
from .records import MAX_PARTS, FarmJob, Part, Submission
from .store import Store, User

_log = logging.getLogger(__name__)

TICK_SECONDS = 0.1
BROKER_SECONDS, MAX_BROKERED = 60.0, 50
"""Seconds between two looks for plans that nobody has measured, and jobs that one look makes."""
RETRY_SECONDS = 5.0
"""Seconds between attempts to write entries that the database could not take."""


@dataclass
class Head:
    """The head. `run` is for one thread; all other methods are for any. `power`: releases and wakes machines;
    `has_broker`: whether idle machines measure what was only modelled."""

    store: Store
    queue: Queue
    cluster: Cluster
    clock: Callable[[], float] = time.monotonic
    power: Power | None = None
    has_broker: bool = False
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _stopped: threading.Event = field(default_factory=threading.Event)
    _retry_at: float = 0.0
    _has_unwritten: bool = True
    _broker_at: float = float("-inf")

    def __post_init__(self) -> None:
        self.queue.say = self.store.say
        self.queue.load(self.store.jobs())

    def run(self) -> None:
        """Work until somebody stops it."""
        try:
            while not self._stopped.wait(TICK_SECONDS):
                self.step()
        finally:
            self.cluster.close(leave=self._stopped.is_set())

    def stop(self) -> None:
        """End `run`. Jobs stay, and go on when the farm is started again."""
        self._stopped.set()

    def step(self) -> None:
        """Take in the answers that are there, and start what may begin."""
        answers = self.cluster.answers()
        slots = self.cluster.slots()
        with self._lock:
            for turn, answer in answers:
                if isinstance(answer, Lost):
                    changed = self.queue.lose(turn, answer.why)
                else:
                    if answer.unwritten:
                        self.store.keep_unwritten(answer.unwritten)
                        self._has_unwritten = True
                    changed = self.queue.finish(turn, answer)
                if changed is not None:
                    self.store.save(changed)
            if self._has_unwritten and not self._write():
                return  # what is not in the database would be measured again
            for begun in self.queue.next_turns(slots):
                self.cluster.begin(begun)
            if self.has_broker and slots and not self.queue.waiting:
                self._broker(slots)
            if self.power is not None:
                self._power(self.power, slots)

    def _broker(self, slots: Sequence[Slot]) -> None:
        """Make jobs of what was modelled for devices that are here."""
        if self.clock() < self._broker_at:
            return
        from vkernels.autotune.database.database import Database

        self._broker_at = self.clock() + BROKER_SECONDS
        known = [job.submission for job in self.queue.jobs.values() if job.user == BROKER]
        try:
            with Database.open(self.queue.database, seconds=1.0) as database:
                modelled = database.unmeasured()
        except (SetupError, FileError) as error:
            _log.warning("the database was not asked for modelled plans: %s", error)
            return
        for submission in asked_for(modelled, slots, known)[:MAX_BROKERED]:
            self.store.save(self.queue.submit(BROKER, submission, WEIGHT))

    def _power(self, power: Power, slots: Sequence[Slot]) -> None:
        """Wake machines, and release those on which nothing runs."""
        busy = {turn.slot.node for turn in self.queue.running.values()}
        idle = {slot.node: slot.offer.host for slot in slots if slot.node not in busy}
        each = max(1, len(slots) // max(1, len(busy) + len(idle)))
        for node in power.decide(idle, len(busy), -(-self.queue.waiting // each)):
            self.cluster.release(node)
            power.released(idle[node])

    def _write(self) -> bool:
        """Give the database what it could not take before; returns whether it has everything."""
        if self.clock() < self._retry_at:
            return False
        waiting = self.store.unwritten()
        if waiting:
            from vkernels.autotune.database.database import Database

            try:
                with Database.open(self.queue.database, seconds=1.0) as database:
                    database.add(*(entry_from_text(text) for text in waiting.values()))
            except (SetupError, FileError) as error:
                _log.warning("%d entries wait for the database: %s", len(waiting), error)
                self._retry_at = self.clock() + RETRY_SECONDS
                return False
            self.store.forget_unwritten(list(waiting))
        self._has_unwritten = False
        return True

    # What users ask for

    def submit(self, user: User, submission: Submission) -> int:
        """Add a job; returns its number. Raises `OptionError` and `FileError` for tasks that cannot be tuned."""
        parts = len(submission.tasks) * len(submission.slices)
        if parts > MAX_PARTS:
            raise OptionError(f"expected at most {MAX_PARTS} tasks × slices, got {parts}: submit several jobs")
        for text in (submission.title, *submission.slices):
            if not text.isprintable():
                raise OptionError(f"expected printable text, got {text!r}")
        for wanted in submission.tasks:
            check_task(wanted.task, submission)
        with self._lock:
            job = self.queue.submit(user.name, submission)
            self.store.save(job)
            self.store.say(job.number, f"submitted by {user.name}: {submission.title}")
            return job.number

    def cancel(self, user: User, number: int) -> None:
        """End a job. Raises `OptionError` for one that is unknown, or another user's."""
        with self._lock:
            job = self.queue.jobs.get(number)
            if job is not None and job.user != user.name and not user.is_admin:
                raise OptionError(f"job {number} belongs to {job.user}")
            turns = self.queue.cancel(number)
            self.store.save(self.queue.jobs[number])
            self.store.say(number, f"cancelled by {user.name}")
        for turn in turns:
            self.cluster.cancel(turn)

    def status(self) -> dict[str, Any]:
        """Jobs and slots as they are now, as JSON."""
        slots = self.cluster.slots()
        with self._lock:
            running = {turn.slot.id: turn for turn in self.queue.running.values()}
            waiting = self.store.unwritten() if self._has_unwritten else {}
            return {
                "jobs": [self._shown(job) for job in self.queue.jobs.values()],
                "slots": [
                    {
                        "slice": slot.offer.slice, "device": slot.offer.device, "node": slot.node,
                        "cores": list(slot.cores), "job": running[slot.id].job if slot.id in running else None,
                    }
                    for slot in slots
                ],
                "unwritten": len(waiting),
            }  # fmt: skip

    def job(self, number: int) -> dict[str, Any]:
        """A job with its parts, and what was said of it. Raises `OptionError` for an unknown one."""
        with self._lock:
            job = self.queue.jobs.get(number)
            if job is None:
                raise OptionError(f"there is no job {number}")
            parts = [_part(part) for part in job.parts]
            lines = [{"at": at, "text": text} for at, text in self.store.lines(number)]
            return {**self._shown(job), "parts": parts, "lines": lines}

    def _shown(self, job: FarmJob) -> dict[str, Any]:
        ended = [part for part in job.parts if not part.is_open]
        gains = [part.default / part.best for part in job.parts if part.best and part.default]
        return {
            "number": job.number, "user": job.user, "title": job.submission.title, "state": job.state,
            "submitted": job.when, "parts": len(job.parts), "ended": len(ended),
            "tried": sum(part.tried for part in job.parts), "served": sum(part.served for part in job.parts),
            "gain": sum(gains) / len(gains) if gains else None,
            "reasons": [part.reason for part in job.parts if part.state == "failed"],
        }  # fmt: skip


def check_task(data: dict[str, Any], submission: Submission) -> None:
    """Raise `FileError` or `OptionError` for a task that is none, or whose kernel is in no place that jobs may use."""
    task = task_from_json(data)
    where = task.kernel.rpartition(":")[0]
    is_library = where.startswith("vkernels.library.") and not where.endswith(".py")
    if not is_library and where not in submission.files:
        raise OptionError(f"{task.kernel}: is no kernel of the library, and its file was not submitted")


def _part(part: Part) -> dict[str, Any]:
    names = ("slice", "state", "turns", "tried", "served", "best", "default", "device", "reason")
    return {"task": part.task, **{name: getattr(part, name) for name in names}}
