"""A pool of compile workers: jobs with limits of time and memory, which can disturb nothing but themselves."""

from __future__ import annotations

import os
import tempfile
import threading
from concurrent.futures import CancelledError, Future
from queue import SimpleQueue
from types import TracebackType

from vkernels.ir.errors import OptionError, SetupError
from vkernels.ir.scarcity import needing

from .jobs import CompileJob, Outcome
from .worker import JobLimits, PoolClosedError, Worker

TRITON = f"{__package__}.worker_main:triton_compiler"

_Item = tuple[CompileJob, "Future[Outcome]"]


class CompilePool:
    """Compiles in child processes that stay warm, at most `workers` of them, started when there is work.

    Each job may take `seconds` of wall time and `memory_bytes` of resident memory, its children's included. A compiler
    that takes more, hangs, aborts or exits is that job's result: the worker and all its children are killed and
    another takes its place. No child outlives the pool, nor the process, however that ends.

        with CompilePool() as pool:
            outcome = pool.submit(CompileJob(text, "sm_90", GpuOptions(4, 3))).result()

    Leaving the block ends everything at once, jobs not yet finished too: await what is wanted within. It may be used by
    several threads. `compiler` names what workers compile with (see `worker_main`).
    """

    def __init__(
        self,
        workers: int | None = None,
        seconds: float = 120.0,
        memory_bytes: int = 4 << 30,
        *,
        compiler: str = TRITON,
    ):
        """`workers`: as many as this process may use processors, unless given. Raises `OptionError` for nonsense."""
        self._most = len(os.sched_getaffinity(0)) if workers is None else workers
        if self._most < 1 or not seconds > 0 or memory_bytes < 1:
            raise OptionError(
                f"a pool of {self._most} workers, {seconds:g} s and {memory_bytes} bytes a job: each must be above 0"
            )
        self._limits = JobLimits(seconds, memory_bytes)
        self._compiler = compiler
        self._queue: SimpleQueue[_Item | None] = SimpleQueue()
        self._keepers: list[threading.Thread] = []
        self._unfinished = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._broken: SetupError | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def submit(self, job: CompileJob) -> Future[Outcome]:
        """Compile a job when its turn comes.

        The future's result is a `Compiled` or a `CompileFailure`; it raises `SetupError` where workers cannot run at
        all, and `CancelledError` where the pool was closed before.
        """
        future: Future[Outcome] = Future()
        with self._lock:
            if self._closing.is_set():
                raise RuntimeError("the pool is closed")
            if len(self._keepers) < min(self._most, self._unfinished + 1):
                self._add_keeper()
            self._unfinished += 1
            future.add_done_callback(self._finished)
            self._queue.put((job, future))
        return future

    def close(self) -> None:
        """End all workers now and wait until they have ended; jobs that have not finished are cancelled."""
        with self._lock:
            self._closing.set()
            for _ in self._keepers:
                self._queue.put(None)
        for keeper in self._keepers:
            keeper.join()
        self._keepers.clear()
        if self._folder is not None:
            self._folder.cleanup()

    def __enter__(self) -> CompilePool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _finished(self, future: Future[Outcome]) -> None:
        with self._lock:
            self._unfinished -= 1

    def _add_keeper(self) -> None:
        if self._folder is None:
            try:
                self._folder = tempfile.TemporaryDirectory(prefix="vkernels-", ignore_cleanup_errors=True)
            except OSError as error:
                raise SetupError(f"compile workers have no folder for temporary files: {error}") from error
        # A daemon, as the process may end without closing the pool; the kernel then ends the workers.
        keeper = threading.Thread(target=self._keep, args=(self._folder.name,), name="vkernels-compile", daemon=True)
        with needing("a compile worker"):
            keeper.start()
        self._keepers.append(keeper)

    def _keep(self, folder: str) -> None:
        """Keep one worker busy and alive; a thread."""
        worker: Worker | None = None
        try:
            while (item := self._queue.get()) is not None:
                job, future = item
                if self._closing.is_set():
                    future.cancel()
                if not future.set_running_or_notify_cancel():
                    continue
                try:
                    worker = worker or self._started(folder)
                    outcome = worker.compile(job, self._limits)
                except PoolClosedError:
                    future.set_exception(CancelledError())
                except Exception as error:
                    if worker is not None:
                        worker.kill()
                        worker = None
                    future.set_exception(error)
                else:
                    worker = self._kept(worker)
                    future.set_result(outcome)
        finally:
            if worker is not None:
                worker.kill()

    def _started(self, folder: str) -> Worker:
        """A new worker; what once kept one from starting is not tried again."""
        if self._broken is None:
            try:
                return Worker(self._compiler, folder, self._closing)
            except SetupError as error:
                self._broken = error
        raise self._broken

    def _kept(self, worker: Worker) -> Worker | None:
        """The worker, unless it has ended or what it still holds might be blamed on the next job."""
        if worker.alive and worker.resident_bytes() <= self._limits.memory_bytes / 2:
            return worker
        worker.kill()
        return None
