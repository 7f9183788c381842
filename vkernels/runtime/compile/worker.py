"""One compile worker as its pool sees it: a child process in a session of its own, and what goes to and fro."""

from __future__ import annotations

import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from vkernels.ir.errors import SetupError

from .frames import first_of, framed
from .jobs import Compiled, CompileFailure, CompileJob, Outcome, Ready, Reason
from .pipes import python_path, read_ready, take_printed, unblocked
from .printed import Printed
from .process_memory import resident_bytes
from .records import from_bytes, to_bytes

START_SECONDS = 120.0
"""How long a worker may take to import its compiler, which costs a second where nothing else runs."""

TOOLS = ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH", "TRITON_LIBDEVICE_PATH")
"""What workers keep of the environment variables that Triton reads: where its tools are."""

_SETTINGS = (
    "ALLOW_LHS_TMEM", "AMDGCN_", "DISABLE_", "LLVM_", "MLIR_", "NVPTX_", "PTXAS_", "STORE_TMEM", "TRITON_", "USE_IR_",
)  # fmt: skip
"""How the names of all others begin: workers do without, so that a job alone decides what comes of it."""

_TICK = 0.05
_OUT_OF_MEMORY = re.compile(r"out of memory|bad_alloc|cannot allocate memory", re.IGNORECASE)


@dataclass(frozen=True)
class JobLimits:
    """What one job may take: seconds of wall time; resident bytes of the worker and its children together."""

    seconds: float
    memory_bytes: int


class PoolClosedError(Exception):
    """The pool was closed while a job ran."""


class _EndedError(Exception):
    """No answer will come. Without a reason: the worker ended by itself, and its status says how."""

    def __init__(self, reason: Reason | None = None, message: str = ""):
        self.reason, self.message = reason, message
        super().__init__(message)


class Worker:
    """A compiler in a child process. For one thread, which also must end it with `kill`.

    Memory is limited by looking at what the group holds, twenty times a second, rather than by the kernel's limit on
    addresses: that counts libraries and reservations that take no memory, holds for each process of the group apart,
    and LLVM answers it by an abort that could be any other.
    """

    def __init__(self, compiler: str, folder: str, closing: threading.Event):
        """Start `compiler` (see `worker_main`), temporary files in a folder of its own within `folder`.

        Raises `SetupError` where that fails, and `PoolClosedError` as soon as `closing` is set.
        """
        self.alive = True
        self._closing = closing
        self._printed = Printed()
        self._received = bytearray()
        try:
            self._folder = tempfile.mkdtemp(dir=folder)
            reading, self._life = os.pipe()
        except OSError as error:
            raise SetupError(f"a compile worker cannot be started: {error}") from error
        python = [sys.executable, "-P", "-X", "faulthandler"]
        try:
            self._process = subprocess.Popen(
                [*python, "-m", f"{__package__}.worker_main", compiler, str(reading)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
                pass_fds=(reading,), start_new_session=True, env=_environment(self._folder),
            )  # fmt: skip
        except (OSError, TypeError) as error:  # TypeError: this Python has no executable
            os.close(self._life)
            shutil.rmtree(self._folder, ignore_errors=True)
            raise SetupError(f"a compile worker cannot be started: {error}") from error
        finally:
            os.close(reading)
        self._answers, self._errors = unblocked(self._process.stdout), unblocked(self._process.stderr)
        self._jobs = unblocked(self._process.stdin)
        try:
            self._await_ready()
        except BaseException:
            self.kill()
            raise

    def compile(self, job: CompileJob, limits: JobLimits) -> Outcome:
        """What comes of a job; afterwards `alive` says whether the worker can take another.

        Raises `PoolClosedError` as soon as the pool is being closed.
        """
        begun = time.monotonic()
        request = framed(to_bytes(job))
        self._read_errors()
        self._printed = Printed()
        try:
            answer = self._exchange(request, limits)
            outcome: Outcome = from_bytes(answer, Compiled, CompileFailure)
        except _EndedError as end:
            failure = self._failure(end)
            return replace(failure, seconds=time.monotonic() - begun)
        except ValueError as error:
            self.kill()
            return CompileFailure(Reason.CRASH, f"the worker answered nonsense: {error}", time.monotonic() - begun)
        return replace(outcome, stderr=self._printed.text()) if isinstance(outcome, CompileFailure) else outcome

    def resident_bytes(self) -> int:
        """What the worker and its children hold of memory."""
        return resident_bytes(self._process.pid)

    def kill(self) -> int:
        """End the whole group at once, and remove its temporary files. Returns the worker's own exit status."""
        if self.alive:
            self.alive = False
            with suppress(ProcessLookupError):
                # While nobody has waited for the leader, the group's number cannot be anyone else's.
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._read_errors()
            for file in (self._process.stdin, self._process.stdout, self._process.stderr):
                if file is not None:
                    file.close()
            os.close(self._life)
            shutil.rmtree(self._folder, ignore_errors=True)
        return self._process.returncode

    def _await_ready(self) -> None:
        try:
            ready = from_bytes(self._exchange(b"", JobLimits(START_SECONDS, sys.maxsize)), Ready)
        except (_EndedError, ValueError) as error:
            self.kill()
            printed = self._printed.text().strip()
            raise SetupError(f"a compile worker does not start: {printed or error}") from error
        if ready.problem:
            raise SetupError(ready.problem)

    def _exchange(self, request: bytes, limits: JobLimits) -> bytes:
        """Send a request and wait for the answer, within limits."""
        deadline = time.monotonic() + limits.seconds
        look = time.monotonic() + _TICK
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            selector.register(self._errors, selectors.EVENT_READ)
            if request:
                selector.register(self._jobs, selectors.EVENT_WRITE)
            while True:
                for key, _ in selector.select(max(0.0, min(look, deadline) - time.monotonic())):
                    if key.fd == self._jobs:
                        request = self._send(request)
                        if not request:
                            selector.unregister(self._jobs)
                    elif key.fd == self._errors and not self._read_errors():
                        selector.unregister(self._errors)
                    elif key.fd == self._answers and (answer := self._read_answers()) is not None:
                        self._read_errors()
                        return answer
                now = time.monotonic()
                if now >= deadline:
                    raise _EndedError(Reason.TIME_OUT, f"the compiler took more than {limits.seconds:g} s")
                if now >= look:
                    self._look_after(limits)
                    look = time.monotonic() + _TICK

    def _look_after(self, limits: JobLimits) -> None:
        if self._closing.is_set():
            raise PoolClosedError
        if self.resident_bytes() > limits.memory_bytes:
            time.sleep(0.01)  # a child shares all its parent's pages for a moment while it is made
            if self.resident_bytes() > limits.memory_bytes:
                most = f"{limits.memory_bytes / 2**20:.0f} MiB"
                raise _EndedError(Reason.OUT_OF_MEMORY, f"the compiler took more than {most} of memory")
        if self._has_ended():  # though a child of it may still hold the pipe
            raise _EndedError

    def _send(self, request: bytes) -> bytes:
        try:
            return request[os.write(self._jobs, request) :]
        except BlockingIOError:
            return request
        except BrokenPipeError:
            raise _EndedError from None

    def _read_answers(self) -> bytes | None:
        data = read_ready(self._answers)
        if data == b"":
            raise _EndedError
        self._received += data or b""
        answer = first_of(self._received)
        if answer is not None:
            self._received.clear()
        return answer

    def _read_errors(self) -> bool:
        return take_printed(self._errors, self._printed)

    def _has_ended(self) -> bool:
        """Whether the worker itself has; its status can still be waited for."""
        try:
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # this process has its children waited for by the system
            return True

    def _failure(self, end: _EndedError) -> CompileFailure:
        if end.reason is not None:
            self.kill()
            return CompileFailure(end.reason, end.message, 0.0, self._printed.text())
        waited_until = time.monotonic() + 1  # pipes close a little before a process has ended
        while not (ended := self._has_ended()) and time.monotonic() < waited_until:
            time.sleep(0.001)
        status = self.kill()
        printed = self._printed.text()
        message = _death(status) if ended else "the compiler closed its connection"
        if line := self._printed.telling_line():
            message += f": {line}"
        reason = Reason.OUT_OF_MEMORY if _OUT_OF_MEMORY.search(printed) else Reason.CRASH
        return CompileFailure(reason, message, 0.0, printed)


def _death(status: int) -> str:
    if status >= 0:
        return f"the compiler ended its process with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    if -status == signal.SIGKILL:
        return f"the compiler was killed from outside ({name}), as systems do that run out of memory"
    return f"the compiler {'aborted' if -status == signal.SIGABRT else 'crashed'} ({name})"


def _environment(folder: str) -> Mapping[str, str]:
    """The worker's environment: Python's path as it is here, no settings of Triton's, its own temporary folder."""
    kept = {name: value for name, value in os.environ.items() if name in TOOLS or not name.startswith(_SETTINGS)}
    return {**kept, "PYTHONPATH": python_path(), "TMPDIR": folder}
