"""One process that runs cases of a part, as it is told their names; what ends or stops it is said, not raised."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

TAIL = 3000
"""Characters of what a process wrote to its standard error that are kept."""


class LateError(Exception):
    """No answer within the time."""


class EndedError(Exception):
    """The process has ended by itself."""


class Child:
    """A process with a group of its own, which answers each line with a line of JSON.

    `ran`: how many cases it was told of. The first answer, before any case, is `hello`.
    """

    def __init__(self, command: Sequence[str], environment: dict[str, str]):
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, start_new_session=True,
            env=environment,
        )  # fmt: skip
        self._rest = b""
        self.ran = 0

    def hello(self, seconds: float) -> dict[str, Any]:
        """What it says of itself. Raises `LateError` and `EndedError`."""
        return self._answer(seconds)

    def run(self, name: str, seconds: float) -> dict[str, Any]:
        """What comes of a case. Raises `LateError` and `EndedError`."""
        self.ran += 1
        try:
            self._pipe.write(f"{json.dumps(name)}\n".encode())
            self._pipe.flush()
        except BrokenPipeError:
            raise EndedError from None
        return self._answer(seconds)

    @property
    def _pipe(self) -> Any:
        return self._process.stdin

    def _answer(self, seconds: float) -> dict[str, Any]:
        end = time.monotonic() + seconds
        source: Any = self._process.stdout
        with selectors.DefaultSelector() as selector:
            selector.register(source, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not selector.select(max(0.0, end - time.monotonic())):
                    raise LateError
                some = os.read(source.fileno(), 1 << 16)
                if not some:
                    raise EndedError
                self._rest += some
        line, _, self._rest = self._rest.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self, patience: float = 0.0) -> str:
        """End it and all its own processes; how it ended before that, and the end of what it wrote. Later calls do
        nothing."""
        process = self._process
        if self._errors.closed:
            return ""
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience)
        code = process.poll()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(BrokenPipeError):
                pipe.close()  # type: ignore[union-attr]
        self._errors.seek(0)
        text = self._errors.read().decode(errors="replace")[-TAIL:]
        self._errors.close()
        if code is None:
            return text
        ended = f"signal {signal.Signals(-code).name}" if code < 0 else f"code {code}"
        return f"ended with {ended}\n{text}"
