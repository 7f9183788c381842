"""One turn of a search, in a process of its own on the slice's cores: continue tuning a task, and store the results.

The database says what earlier turns tried, wherever they ran, so that nothing of it is measured again.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vkernels.autotune.database.entry import FARM, limits_hash
from vkernels.autotune.database.entry_json import entry_to_text
from vkernels.autotune.drive import Stop, effort_of, end_of
from vkernels.autotune.history import History
from vkernels.autotune.measure import Bench, BenchOptions
from vkernels.autotune.measure.measuring_worker import Children
from vkernels.autotune.measure.worker import run_on
from vkernels.autotune.plan_space import PlanSpace, enough_points
from vkernels.autotune.progress import Progress
from vkernels.autotune.result import TuningResult
from vkernels.autotune.tune import history_of, read_space, tune
from vkernels.compiler.workers.frames import Handler, Send
from vkernels.inspect.task import Task, task_from_json
from vkernels.ir.errors import Error, FileError, SetupError
from vkernels.ir.write_file import write_file

from .claims import ClaimedError, claimed
from .records import Answer, TurnRequest, decoded, encoded

if TYPE_CHECKING:
    from vkernels.autotune.database.database import Database

MAX_SPACES = 8
"""Spaces that a process keeps: reading one takes longer than measuring several plans."""


def serve(send: Send, cores: str) -> Handler:
    """Serve turns on some cores, `0,1`; see `vkernels.compiler.workers.worker_main`."""
    run_on([int(core) for core in cores.split(",")])
    turns = Turns(lambda note: send(json.dumps(note).encode()))
    return lambda request: encoded(turns.answer(decoded(request, TurnRequest, "a turn"))).encode()


@dataclass
class Turns:
    """The turns of one process. `tell`: reports progress, as a note."""

    tell: Callable[[dict[str, Any]], object]
    children: Children = field(default_factory=Children)
    spaces: dict[tuple[Task, str], PlanSpace] = field(default_factory=dict)

    def answer(self, request: TurnRequest) -> Answer:
        """Run one turn; whatever goes wrong is in the answer."""
        began = time.monotonic()
        try:
            return self._answer(request, began)
        except ClaimedError as error:
            return Answer(error=str(error), kind="claimed")
        except Error as error:
            return Answer(time.monotonic() - began, error=str(error), kind="user")
        except Exception as error:  # of the user's code
            return Answer(time.monotonic() - began, error=f"{type(error).__name__}: {error}", kind="user")

    def _answer(self, request: TurnRequest, began: float) -> Answer:
        from vkernels.autotune.database.database import Database

        task = with_files(task_from_json(request.task), request.files)
        stop = Stop(request.plans, request.seconds)
        try:
            database = Database.open(request.database)
            database.check_writable()
        except (SetupError, FileError) as error:
            return Answer(error=str(error), kind="database")
        history = history_of(task, request.slice, database, request.caches)
        history = replace(history, by=f"{FARM}: {request.by}"[:400], run=request.turn)
        what = {**task.to_request(), "kernel": task.stored_name}
        where = [limits_hash(history.limits), history.target.name]
        with claimed(database, json.dumps([what, where], sort_keys=True)):
            try:
                answer = answer_of(self._tuned(task, request, stop, database, history), time.monotonic() - began)
            except Error as error:
                if _is_there(database):
                    raise
                answer = Answer(time.monotonic() - began, error=str(error), kind="database")
            answer.unwritten = [entry_to_text(entry) for entry in database.take_unwritten()]
        with suppress(Error):
            database.close()
        return answer

    def _tuned(
        self, task: Task, request: TurnRequest, stop: Stop, database: Database, history: History
    ) -> TuningResult:
        is_cpu = request.slice.startswith("cpu")
        options = BenchOptions(effort=effort_of(stop), cores=tuple(request.cores) if is_cpu else None)
        with Bench(task, request.slice, options, self.children) as bench:
            space = self.spaces.get((task, request.slice))
            if space is None:
                space = read_space(task, request.slice, bench, enough_points(stop), history)
                if len(self.spaces) >= MAX_SPACES:
                    del self.spaces[next(iter(self.spaces))]
                self.spaces[task, request.slice] = space
            bench.options = replace(bench.options, until=end_of(stop))  # a turn's seconds begin when it can measure
            return tune(
                task, request.slice, stop, request.search, request.seed, bench, database, self._report, space,
                request.caches, history,
            )  # fmt: skip

    def _report(self, progress: Progress) -> None:
        self.tell({"note": progress.stage, "of": progress.tried})


def _is_there(database: Database) -> bool:
    try:
        database.check_writable()
    except (SetupError, FileError):
        return False
    return True


def answer_of(found: TuningResult, seconds: float) -> Answer:
    """What a tuning run found, as the head sees it."""
    tried = len(found.successes) + len(found.failures)
    trials = [each.trial for each in found.successes] + [each.trial for each in found.failures]
    measured = sum(trial >= 0 for trial in trials)
    best, default = found.best, found.default
    return Answer(
        seconds, tried, measured, None if best is None else best.seconds,
        None if default is None else default.seconds,
        found.stopped, found.seconds,
    )  # fmt: skip


def with_files(task: Task, files: dict[str, str]) -> Task:
    """The task with the path of its file here; the files are written to a folder that their content names.

    Raises `FileError` for a kernel that is neither of the library nor in one of the files.
    """
    where, _, name = task.kernel.rpartition(":")
    if where.startswith("vkernels.library.") and not where.endswith(".py"):
        return task
    if where not in files:
        raise FileError(f"{task.kernel}: is no kernel of the library, and its file was not submitted")
    folder = Path(tempfile.gettempdir()) / f"vkernels-farm-{_digest(files)}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid() or folder.is_symlink():
        raise FileError(f"{folder}: belongs to another user")
    for file, text in files.items():
        data = text.encode()
        if not (folder / file).is_file() or (folder / file).read_bytes() != data:
            write_file(folder / file, data)  # at once: another turn may be reading it
    return replace(task, kernel=f"{folder / where}:{name}")


def _digest(files: dict[str, str]) -> str:
    return sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:24]
