"""A pool of worker processes: requests with limits of time and memory, which can disturb nothing but themselves."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, Future
from queue import SimpleQueue
from typing import Generic, Self, TypeVar

from vkernels.ir.errors import OptionError, SetupError
from vkernels.ir.system_resources import needing

from .jobs import CompileFailure, CompileFailureReason
from .process import WorkerEndedError, WorkerProcess, WorkerStoppedError

START_SECONDS = 120.0
"""How long a worker may take to import its service, which costs a second where nothing else runs."""

Request = TypeVar("Request")
Answer = TypeVar("Answer")


class WorkerPool(ABC, Generic[Request, Answer]):
    """Worker processes that stay warm, at most `workers` of them, started when there is work.

    Each request may take `seconds` of wall time and `memory_bytes` of resident memory, the worker's children included.
    A worker that takes more, hangs, aborts or exits is that request's result: the worker and all its children are
    killed and another takes its place. No child outlives the pool, nor the process, however that ends. Leaving the
    `with` block ends everything at once, unfinished requests too. It may be used by several threads.

    Subclasses say what the service is and how requests and answers become bytes.
    """

    service: str
    """`module:function`, see `worker_main`."""
    name = "the worker"
    """What messages call the process."""

    def __init__(self, workers: int | None = None, seconds: float = 120.0, memory_bytes: int = 4 << 30):
        """`workers`: as many as this process may use processors, unless given. Raises `OptionError` for nonsense."""
        self._max_workers = len(os.sched_getaffinity(0)) if workers is None else workers
        if self._max_workers < 1 or not seconds > 0 or memory_bytes < 1:
            raise OptionError(
                f"a pool of {self._max_workers} workers, {seconds:g} s and {memory_bytes} bytes a job: "
                "each must be above 0"
            )
        self._seconds, self._memory_bytes = seconds, memory_bytes
        self._queue: SimpleQueue[tuple[Request, Future[Answer]] | None] = SimpleQueue()
        self._keepers: list[threading.Thread] = []
        self._unfinished = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._broken: SetupError | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @abstractmethod
    def _encode(self, request: Request) -> bytes: ...

    @abstractmethod
    def _decode(self, answer: bytes, printed: str) -> Answer:
        """`printed`: what the worker wrote to stderr meanwhile. Raises `ValueError` for bytes that are no answer."""

    @abstractmethod
    def _failed(self, failure: CompileFailure) -> Answer: ...

    def _arguments(self) -> Sequence[str]:
        return ()

    def _environment(self) -> Mapping[str, str]:
        return os.environ

    def submit(self, request: Request) -> Future[Answer]:
        """Serve a request when its turn comes.

        The future raises `SetupError` where workers cannot run at all, and `CancelledError` where the pool was closed
        before.
        """
        future: Future[Answer] = Future()
        with self._lock:
            if self._closing.is_set():
                raise RuntimeError("the pool is closed")
            if len(self._keepers) < min(self._max_workers, self._unfinished + 1):
                self._add_keeper()
            self._unfinished += 1
            future.add_done_callback(self._finished)
            self._queue.put((request, future))
        return future

    def close(self) -> None:
        """End all workers now and wait until they have ended; requests that have not finished are cancelled."""
        with self._lock:
            self._closing.set()
            self._queue.put(None)
        for keeper in self._keepers:
            keeper.join()
        self._keepers.clear()
        if self._folder is not None:
            self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _finished(self, future: Future[Answer]) -> None:
        with self._lock:
            self._unfinished -= 1

    def _add_keeper(self) -> None:
        if self._folder is None:
            try:
                self._folder = tempfile.TemporaryDirectory(prefix="vkernels-", ignore_cleanup_errors=True)
            except OSError as error:
                raise SetupError(f"{self.name} has no folder for temporary files: {error}") from error
        # A daemon, as the process may end without closing the pool; the kernel then ends the workers.
        keeper = threading.Thread(target=self._keep, args=(self._folder.name,), name="vkernels-worker", daemon=True)
        try:
            with needing("a worker"):
                keeper.start()
        finally:
            if keeper.ident is not None:  # it runs, though an interrupt may have come meanwhile
                self._keepers.append(keeper)

    def _keep(self, folder: str) -> None:
        """Keep one worker busy and alive; a thread."""
        worker: WorkerProcess | None = None
        try:
            while (item := self._queue.get()) is not None:
                request, future = item
                if self._closing.is_set():
                    future.cancel()
                if not future.set_running_or_notify_cancel():
                    continue
                try:
                    worker = worker or self._started(folder)
                    answer = self._ask(worker, request)
                except WorkerStoppedError:
                    future.set_exception(CancelledError())
                except Exception as error:
                    if worker is not None:
                        worker.kill()
                        worker = None
                    future.set_exception(error)
                else:
                    worker = self._kept(worker)
                    future.set_result(answer)
            self._queue.put(None)  # for the next keeper
        finally:
            if worker is not None:
                worker.kill()

    def _ask(self, worker: WorkerProcess, request: Request) -> Answer:
        """Serve a request; afterwards `worker.alive` says whether the worker can take another."""
        begun = time.monotonic()
        deadline = begun + self._seconds
        try:
            worker.send(self._encode(request), deadline, self._memory_bytes)
            data = worker.receive(deadline, self._memory_bytes)
            return self._decode(data, worker.printed.text())
        except WorkerEndedError as end:
            reason, message = end.reason, end.message
            if reason == CompileFailureReason.TIME_OUT:
                message = f"{self.name} took more than {self._seconds:g} s"
            elif line := end.printed.error_line():
                message += f": {line}"
            failure = CompileFailure(reason, message, time.monotonic() - begun, end.printed.text())
        except ValueError as error:
            worker.kill()
            message = f"{self.name} answered nonsense: {error}"
            failure = CompileFailure(CompileFailureReason.CRASH, message, time.monotonic() - begun)
        return self._failed(failure)

    def _started(self, folder: str) -> WorkerProcess:
        """A new worker. A start that failed once is not tried again."""
        if self._broken is not None:
            raise self._broken
        try:
            worker = WorkerProcess(
                self.service, self._arguments(), name=self.name, environment=self._environment(), folder=folder,
                stop=self._closing,
            )  # fmt: skip
            try:
                worker.await_ready(START_SECONDS)
            except BaseException:
                worker.kill()
                raise
        except SetupError as error:
            self._broken = error
            raise
        return worker

    def _kept(self, worker: WorkerProcess) -> WorkerProcess | None:
        """The worker, unless it has ended, or holds memory that the next request might be blamed for."""
        if worker.alive and worker.resident_bytes() <= self._memory_bytes / 2:
            return worker
        worker.kill()
        return None
