"""Conduct a day: start processes, give them cases, write down what comes of them, and stop in time."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import Part
from .case import CRASHED, HUNG, RIGHT, SKIPPED
from .children import Child, EndedError, LateError
from .records import Record, Records

STARTING = 180.0
"""Seconds that a process has to import everything and to find the device."""
LEAST = 3.0
"""With less time left no case is begun."""


class NoGpuError(Exception):
    """There is no GPU here."""


class StartError(Exception):
    """A process came as far as no case."""


@dataclass(frozen=True)
class Wanted:
    """A case that is to be run. `alone`: as the first of a process, since it ended the last one, as `before` says."""

    name: str
    limit: float
    alone: bool = False
    before: str = ""


@dataclass
class Day:
    """`start`: a process that runs cases of a part. `seconds`: until nothing more is begun. `processes`: of a part
    whose cases may run beside each other. `wants`: whether a case of this name is to be run. `say`: hears each record.
    """

    records: Records
    start: Callable[[Part], Child]
    seconds: float
    processes: int = 1
    wants: Callable[[str], bool] = lambda name: True
    again: bool = False
    say: Callable[[Record], None] = lambda record: None
    machine: Callable[[Record], None] = lambda record: None
    began: float = field(default_factory=time.monotonic)

    def left(self) -> float:
        """Seconds."""
        return self.seconds - (time.monotonic() - self.began)

    def run(self, parts: Sequence[Part]) -> bool:
        """Run what the records lack; whether time sufficed. Raises `NoGpuError` and `StartError`."""
        done = True
        for part in parts:
            done = self.left() > LEAST and _PartRun(self, part).run() and done
        return done


class _PartRun:
    """One part: a queue of cases that processes take, each in a thread that waits for it."""

    def __init__(self, day: Day, part: Part):
        self.day, self.part = day, part
        self.queue: deque[Wanted] = deque()
        self.lock = threading.Lock()
        self.failure: Exception | None = None
        self.is_done = True

    def run(self) -> bool:
        try:
            first, found = self._started()
        except LateError:
            return False
        known = self.day.records.of(self.part.name)
        before = self.day.records.of(self.part.after) if self.part.after else None
        for name, limit in found:
            is_known = name in known and not (self.day.again and known[name]["status"] not in (RIGHT, SKIPPED))
            is_ready = before is None or before.get(name, {"status": RIGHT})["status"] == RIGHT
            if self.day.wants(f"{self.part.name}/{name}") and not is_known and is_ready:
                self.queue.append(Wanted(name, limit))
        count = min(self.day.processes if self.part.parallel else 1, len(self.queue))
        threads = [threading.Thread(target=self._work, args=(first if n == 0 else None,)) for n in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if not threads:
            first.end()
        if self.failure is not None:
            raise self.failure
        return self.is_done

    def _started(self) -> tuple[Child, list[tuple[str, float]]]:
        """A process, and its cases. Raises `NoGpuError`, `StartError`, and `LateError` where the day ends."""
        child = self.day.start(self.part)
        limit = min(STARTING, self.day.left())
        try:
            hello = child.hello(limit)
        except (LateError, EndedError) as error:
            said = child.end(1.0)
            if isinstance(error, LateError) and limit < STARTING:
                raise
            raise StartError(
                f"{self.part.name}: a process {_said(error, limit)} before its first case\n{said}"
            ) from None
        if "no_gpu" in hello:
            child.end(1.0)
            raise NoGpuError(hello["no_gpu"])
        self.day.machine(hello["machine"])
        return child, [(name, limit) for name, limit in hello["cases"]]

    def _work(self, child: Child | None) -> None:
        try:
            while (wanted := self._next()) is not None:
                if child is not None and child.ran and wanted.alone:
                    child.end()
                    child = None
                if child is None:
                    child, _ = self._started()
                if not self._run(child, wanted):
                    child = None
        except LateError:
            self.is_done = False
        except (NoGpuError, StartError) as error:
            self.failure = error
        finally:
            if child is not None:
                child.end()

    def _next(self) -> Wanted | None:
        with self.lock:
            if self.day.left() < LEAST or self.failure is not None:
                self.is_done = self.is_done and not self.queue
                return None
            return self.queue.popleft() if self.queue else None

    def _run(self, child: Child, wanted: Wanted) -> bool:
        """Run a case; whether the process may run another."""
        limit, begun = min(wanted.limit, self.day.left()), time.monotonic()
        try:
            answer = child.run(wanted.name, limit)
        except (LateError, EndedError) as error:
            said = child.end(5.0 if isinstance(error, EndedError) else 0.0)
            if isinstance(error, LateError) and limit < wanted.limit:
                raise  # the day is over, and the case is left for the next
            answer = {
                "status": HUNG if isinstance(error, LateError) else CRASHED,
                "why": f"{_said(error, limit)}\n{said}",
            }
            answer["lost"] = True
        lost = answer.pop("lost", False)
        if lost and child.ran > 1:  # what ran before may be to blame
            with self.lock:
                self.queue.append(
                    Wanted(wanted.name, wanted.limit, True, f"{answer['status']}: {answer.get('why', '')}")
                )
        else:
            if wanted.before:
                answer["before, not alone"] = wanted.before
            self._note(wanted, answer, time.monotonic() - begun)
        if lost:
            child.end()
        return not lost

    def _note(self, wanted: Wanted, answer: dict[str, Any], seconds: float) -> None:
        record = {"part": self.part.name, "case": wanted.name, **answer, "seconds": round(seconds, 3)}
        self.day.records.add(record)
        self.day.say(record)


def _said(error: Exception, limit: float) -> str:
    return f"said nothing for {limit:.0f} s" if isinstance(error, LateError) else "ended"
