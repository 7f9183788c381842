"""One worker process as its bench sees it: requests and answers, limits of time and memory, and how it ended."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Any, cast

from vkernels.ir.errors import SetupError
from vkernels.ir.scarcity import needing
from vkernels.runtime.compile.pipes import python_path, read_ready, take_printed, unblocked
from vkernels.runtime.compile.printed import Printed
from vkernels.runtime.compile.process_memory import resident_bytes

from .outcomes import Reason

WORKER = f"{__package__}.worker"
TICK = 0.05
"""Seconds between two looks at what a worker holds of memory."""
LONGEST_LINE = 1 << 24
"""Bytes of an answer, at most."""


class EndedError(Exception):
    """No answer will come: the worker is gone. `reason`: of its crash, or why it was ended; `at`: its last note."""

    def __init__(self, reason: Reason, text: str, at: dict[str, Any]):
        self.reason, self.text, self.at = reason, text, at
        super().__init__(text)


class Child:
    """A worker process in a session of its own. For one thread, which also must end it with `kill`."""

    def __init__(self, cores: Sequence[int], module: str = WORKER):
        """Raises `SetupError` where it cannot be started."""
        self.alive = True
        self._printed, self._received = Printed(), bytearray()
        with needing("a measuring worker"):
            reading, self._life = os.pipe()
        python = [sys.executable, "-P", "-m", module]
        try:
            self._process = subprocess.Popen(
                [*python, str(reading), ",".join(map(str, cores))],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
                pass_fds=(reading,), start_new_session=True, env={**os.environ, "PYTHONPATH": python_path()},
            )  # fmt: skip
        except (OSError, TypeError) as error:  # TypeError: this Python has no executable
            os.close(self._life)
            raise SetupError(f"a measuring worker cannot be started: {error}") from error
        finally:
            os.close(reading)
        self._requests = cast(IO[bytes], self._process.stdin)
        self._answers, self._errors = unblocked(self._process.stdout), unblocked(self._process.stderr)

    def ask(self, request: dict[str, Any], seconds: float, waiting: float, memory_bytes: int) -> dict[str, Any]:
        """Send a request and wait for its answer. `seconds`: of wall time that it may take, without those that it says
        it waits for others (at most `waiting`); `memory_bytes`: resident, of it and its children.

        Raises `EndedError` when there will be none; the worker is gone then.
        """
        self._printed, at = Printed(), {"note": "starting", "of": 0}
        try:
            self._requests.write(json.dumps(request).encode() + b"\n")
        except OSError:
            raise self._ended(at) from None
        deadline, left = time.monotonic() + seconds, seconds
        while True:
            answer = self._line(deadline, memory_bytes, at)
            if "note" not in answer:
                return answer
            now, was_waiting = time.monotonic(), at["note"] == "waiting"
            at = answer
            if at["note"] == "waiting":
                left, deadline = max(0.0, deadline - now), now + waiting
            elif was_waiting:
                deadline = now + left

    def resident_bytes(self) -> int:
        """What the worker and its children hold of memory."""
        return resident_bytes(self._process.pid)

    def interrupt(self) -> None:
        """From another thread: end the group, so that whoever waits for an answer learns that there will be none."""
        if self.alive:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def kill(self) -> int:
        """End the whole group at once. Returns the worker's own exit status."""
        if self.alive:
            self.alive = False
            with suppress(ProcessLookupError):
                # While nobody has waited for the leader, the group's number cannot be anyone else's.
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._read_errors()
            for file in (self._process.stdin, self._process.stdout, self._process.stderr):
                if file is not None:
                    with suppress(OSError):
                        file.close()
            os.close(self._life)
        return self._process.returncode

    def _line(self, deadline: float, memory_bytes: int, at: dict[str, Any]) -> dict[str, Any]:
        """The next line of the worker's. Raises `EndedError`."""
        look = time.monotonic() + TICK
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            selector.register(self._errors, selectors.EVENT_READ)
            while b"\n" not in self._received:
                for key, _ in selector.select(max(0.0, min(look, deadline) - time.monotonic())):
                    if key.fd == self._errors:
                        if not self._read_errors():
                            selector.unregister(self._errors)
                    elif not self._read_answers():
                        raise self._ended(at)
                now = time.monotonic()
                if now >= deadline:
                    self.kill()
                    raise EndedError(Reason.TIME_OUT, f"no end of {at['note']} in the time that there is", at)
                if now >= look:
                    self._look_after(memory_bytes, at)
                    look = now + TICK
        line, _, rest = bytes(self._received).partition(b"\n")
        self._received = bytearray(rest)
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            self.kill()
            raise EndedError(Reason.CRASH, "the worker answered nonsense", at)
        return answer

    def _look_after(self, memory_bytes: int, at: dict[str, Any]) -> None:
        held = self.resident_bytes()
        if held > memory_bytes:
            self.kill()
            text = f"more than {memory_bytes / 2**20:.0f} MiB of memory while {at['note']}"
            raise EndedError(Reason.DOES_NOT_FIT, text, at)

    def _read_answers(self) -> bool:
        data = read_ready(self._answers)
        self._received += data or b""
        return data != b"" and len(self._received) <= LONGEST_LINE

    def _read_errors(self) -> bool:
        return take_printed(self._errors, self._printed)

    def _ended(self, at: dict[str, Any]) -> EndedError:
        """How a worker ended that closed its connection."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        ended = self._process.poll() is not None
        status = self.kill()
        lines = [line for line in self._printed.text().splitlines() if line.strip()]
        text = f"{_death(status) if ended else 'the worker closed its connection'} while {at['note']}"
        return EndedError(Reason.CRASH, "\n".join([text, *lines[-12:]])[:2000], at)


def _death(status: int) -> str:
    if status >= 0:
        return f"the process ended with status {status}"
    try:
        return f"the process was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"the process was ended by signal {-status}"
