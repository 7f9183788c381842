"""A worker process as its parent sees it: requests and answers, limits of time and memory, and how it ended.

Every worker of the project is started and supervised here: those that compile, that execute users' files, that measure.
"""

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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import IO, cast

from vkernels.ir.errors import SetupError
from vkernels.ir.system_resources import needing

from ..records import from_bytes
from .frames import framed, take_first
from .jobs import CompileFailureReason, Ready

_KEPT_BYTES = 4096
_ERROR = re.compile(r"LLVM ERROR:.*|.*Assertion .*failed.*|\b(?:fatal )?error: .*")


class StderrTail:
    """Beginning and end of a text that arrives in pieces, at most `_KEPT_BYTES` bytes of each."""

    def __init__(self) -> None:
        self._beginning, self._end, self._bytes = b"", b"", 0

    def add(self, data: bytes) -> None:
        """Take the next piece."""
        self._bytes += len(data)
        taken = _KEPT_BYTES - len(self._beginning)
        self._beginning += data[:taken]
        self._end = (self._end + data[taken:])[-_KEPT_BYTES:]

    def text(self) -> str:
        """What is kept, with a line that says how much is not."""
        left_out = self._bytes - len(self._beginning) - len(self._end)
        between = b"\n[%d bytes left out]\n" % left_out if left_out else b""
        return (self._beginning + between + self._end).decode(errors="replace")

    def error_line(self) -> str:
        """The first line that names a mistake; empty where there is none."""
        match = _ERROR.search(self.text())
        return match[0].strip() if match else ""


_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def resident_bytes(process: int) -> int:
    """Resident memory of a process and of its descendants; 0 where the system does not tell.

    Pages that several of them share count for each. A child whose own parent has ended is not found.
    """
    total, waiting = 0, [process]
    while waiting:
        current = waiting.pop()
        total += _resident(current)
        waiting += _children(current)
    return total


def _resident(process: int) -> int:
    try:
        with open(f"/proc/{process}/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0


def _children(process: int) -> Iterator[int]:
    try:
        threads = os.listdir(f"/proc/{process}/task")
    except OSError:
        return
    for thread in threads:
        try:
            with open(f"/proc/{process}/task/{thread}/children", "rb") as file:
                yield from map(int, file.read().split())
        except OSError:
            continue


UNLIMITED = 1 << 62
"""A memory limit that no process reaches."""
TICK_SECONDS = 0.05
"""How often a worker's memory is looked at."""

_READ_BYTES, _MAX_READS = 1 << 16, 16
_OUT_OF_MEMORY = re.compile(r"out of memory|bad_alloc|cannot allocate memory", re.IGNORECASE)


class WorkerStoppedError(Exception):
    """The event `stop` was set while a worker was at work."""


class WorkerEndedError(Exception):
    """No answer will come, and the worker is gone. `message`: why, in a line; `printed`: what it wrote to stderr."""

    def __init__(self, reason: CompileFailureReason, message: str, printed: StderrTail):
        self.reason, self.message, self.printed = reason, message, printed
        super().__init__(message)


class WorkerProcess:
    """A child process in a session of its own, which serves requests (see `worker_main`). For one thread, which also
    must end it with `kill`.

    Memory is limited by looking at what the group holds, twenty times a second, rather than by the kernel's limit on
    addresses: that counts libraries and reservations that take no memory, holds for each process of the group apart,
    and LLVM answers it by an abort that could be any other.
    """

    def __init__(
        self,
        service: str,
        arguments: Sequence[str] = (),
        *,
        name: str,
        environment: Mapping[str, str] | None = None,
        folder: str | None = None,
        stop: threading.Event | None = None,
        path: Sequence[str] | None = None,
    ):
        """Start `service` (`module:function`) with `arguments`. `name`: of the process, for messages. `folder`: where a
        folder for its temporary files is made. `stop`: ends what it does, and raises `WorkerStoppedError`. `path`:
        folders to import from; by default those of this process.

        Raises `SetupError` where it cannot be started.
        """
        self.alive, self.name = True, name
        self._stop, self._is_ready = stop, False
        self._printed, self._received = StderrTail(), bytearray()
        variables = {**(os.environ if environment is None else environment), "PYTHONPATH": _python_path(path)}
        try:
            self._folder = None if folder is None else tempfile.mkdtemp(dir=folder)
            with needing(name):
                life, self._life = os.pipe()
        except OSError as error:
            raise SetupError(f"{name} cannot be started: {error}") from error
        if self._folder is not None:
            variables["TMPDIR"] = self._folder
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-X", "faulthandler", "-m", f"{__package__}.worker_main", str(life), service,
                 *arguments],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
                pass_fds=(life,), start_new_session=True, env=variables,
            )  # fmt: skip
        except (OSError, TypeError) as error:  # TypeError: this Python has no executable
            os.close(self._life)
            self._remove_folder()
            raise SetupError(f"{name} cannot be started: {error}") from error
        finally:
            os.close(life)
        self._answers, self._errors = _unblocked(self._process.stdout), _unblocked(self._process.stderr)
        self._requests = _unblocked(self._process.stdin)

    def await_ready(self, seconds: float) -> None:
        """Wait until the service is imported. Raises `SetupError` where it cannot serve here."""
        try:
            self.receive_ready(time.monotonic() + seconds)
        except WorkerEndedError as error:
            raise SetupError(f"{self.name} does not start: {error.printed.text().strip() or error}") from error

    def receive_ready(self, deadline: float, memory_bytes: int = UNLIMITED) -> None:
        """The same, once. Raises `SetupError` for what the service says, and as `receive` does."""
        if self._is_ready:
            return
        data = self.receive(deadline, memory_bytes)
        try:
            problem = str(from_bytes(data, Ready).problem)
        except ValueError as error:
            problem = f"{self.name} answered nonsense: {error}"
        if problem:
            self.kill()
            raise SetupError(problem)
        self._is_ready = True

    def send(self, request: bytes, deadline: float, memory_bytes: int = UNLIMITED) -> None:
        """Send a request. Raises as `receive` does."""
        self._read_errors()
        self._printed = StderrTail()
        self._exchange(framed(request), False, deadline, memory_bytes)

    def receive(self, deadline: float, memory_bytes: int = UNLIMITED) -> bytes:
        """The next message. `deadline`: of the monotonic clock; `memory_bytes`: resident, of it and its children.

        Raises `WorkerEndedError` when there will be none, and `WorkerStoppedError` as soon as `stop` is set.
        """
        return self._exchange(b"", True, deadline, memory_bytes)

    @property
    def printed(self) -> StderrTail:
        """What it wrote to stderr since the last request."""
        self._read_errors()
        return self._printed

    def resident_bytes(self) -> int:
        """Memory that the worker and its children hold."""
        return resident_bytes(self._process.pid)

    def interrupt(self) -> None:
        """From another thread: end the group; the thread that waits for an answer gets a `WorkerEndedError`."""
        if self.alive:
            self._kill_group()

    def kill(self) -> int:
        """End the whole group at once, and remove its temporary files. Returns the worker's own exit status."""
        if self.alive:
            self.alive = False
            self._kill_group()  # before the leader is waited for, no other group can have this number
            self._process.wait()
            self._read_errors()
            for file in (self._process.stdin, self._process.stdout, self._process.stderr):
                if file is not None:
                    with suppress(OSError):
                        file.close()
            os.close(self._life)
            self._remove_folder()
        return self._process.returncode

    def _exchange(self, request: bytes, wanted: bool, deadline: float, memory_bytes: int) -> bytes:
        """Send the rest of a request, then wait for a message if one is wanted."""
        look = time.monotonic() + TICK_SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            selector.register(self._errors, selectors.EVENT_READ)
            if request:
                selector.register(self._requests, selectors.EVENT_WRITE)
            while True:
                message = self._first_message() if wanted else None
                if not request and (not wanted or message is not None):
                    return message or b""
                for key, _ in selector.select(max(0.0, min(look, deadline) - time.monotonic())):
                    if key.fd == self._requests:
                        request = self._write(request)
                        if not request:
                            selector.unregister(self._requests)
                    elif key.fd == self._errors and not self._read_errors():
                        selector.unregister(self._errors)
                    elif key.fd == self._answers and not self._read_answers():
                        raise self._ended()
                now = time.monotonic()
                if now >= deadline:
                    self.kill()
                    raise WorkerEndedError(CompileFailureReason.TIME_OUT, f"{self.name} took too long", self._printed)
                if now >= look:
                    self._look_after(memory_bytes)
                    look = now + TICK_SECONDS

    def _look_after(self, memory_bytes: int) -> None:
        if self._stop is not None and self._stop.is_set():
            raise WorkerStoppedError
        if self.resident_bytes() > memory_bytes:
            time.sleep(0.01)  # a child shares all its parent's pages for a moment while it is made
            if self.resident_bytes() > memory_bytes:
                self.kill()
                message = f"{self.name} took more than {memory_bytes / 2**20:.0f} MiB of memory"
                raise WorkerEndedError(CompileFailureReason.OUT_OF_MEMORY, message, self._printed)
        if self._has_ended():  # though a child of it may still hold the pipe
            before = len(self._received)
            self._read_answers()
            if len(self._received) == before:
                raise self._ended()

    def _write(self, request: bytes) -> bytes:
        try:
            return request[os.write(self._requests, request) :]
        except BlockingIOError:
            return request
        except OSError:
            raise self._ended() from None

    def _first_message(self) -> bytes | None:
        """The first message received. Raises `WorkerEndedError` for bytes that are no message."""
        try:
            return take_first(self._received)
        except ValueError as error:
            self.kill()
            text = f"{self.name} answered nonsense: {error}"
            raise WorkerEndedError(CompileFailureReason.CRASH, text, self._printed) from None

    def _read_answers(self) -> bool:
        """Read what has arrived. Returns whether the pipe is still open."""
        data = _read(self._answers)
        self._received += data or b""
        return data != b""

    def _read_errors(self) -> bool:
        """Read what was printed so far, up to a limit. Returns whether the pipe is still open."""
        for _ in range(_MAX_READS):
            data = _read(self._errors)
            if not data:
                return data is None
            self._printed.add(data)
        return True

    def _has_ended(self) -> bool:
        """Whether the worker itself has ended; its status can still be waited for."""
        try:
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # this process has its children waited for by the system
            return True

    def _ended(self) -> WorkerEndedError:
        """The error for a worker that closed its connection."""
        until = time.monotonic() + 1  # pipes close a little before a process has ended
        while not (has_ended := self._has_ended()) and time.monotonic() < until:
            time.sleep(0.001)
        status = self.kill()
        message = f"{self.name} {_describe_exit(status) if has_ended else 'closed its connection'}"
        out_of_memory = _OUT_OF_MEMORY.search(self._printed.text())
        reason = CompileFailureReason.OUT_OF_MEMORY if out_of_memory else CompileFailureReason.CRASH
        return WorkerEndedError(reason, message, self._printed)

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _remove_folder(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _describe_exit(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    if -status == signal.SIGKILL:
        return f"was killed from outside ({name}), as systems do that run out of memory"
    return f"{'aborted' if -status == signal.SIGABRT else 'crashed'} ({name})"


def _python_path(path: Sequence[str] | None) -> str:
    """`PYTHONPATH` for a child to import from these folders; None: what this process would."""
    return os.pathsep.join(entry or os.getcwd() for entry in (sys.path if path is None else path))


def _unblocked(file: IO[bytes] | None) -> int:
    """The descriptor of a child's pipe, set to non-blocking."""
    number = cast(IO[bytes], file).fileno()
    os.set_blocking(number, False)
    return number


def _read(number: int) -> bytes | None:
    """What a pipe holds: None for nothing yet, empty at its end."""
    try:
        return os.read(number, _READ_BYTES)
    except BlockingIOError:
        return None
    except OSError:
        return b""
