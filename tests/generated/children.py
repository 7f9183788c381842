"""Seeds run in a child process: a crash or a hang there is a failure of its case, and the next seed goes on."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

PATIENCE = 180.0
"""Seconds that one plan's cases may take."""
DYING = 5.0
"""Seconds that a process has to end by itself, once it has nothing more to say."""
SEEDS = 200
"""Seeds after which a child is replaced: what it has compiled stays in its memory."""


def worker_of(kinds: Sequence[str]) -> tuple[str, ...]:
    """The command of a worker that runs cases of some kinds."""
    return (sys.executable, "-m", f"{__package__}.worker", *kinds)


class Child:
    """One process at a time, started when it is needed."""

    def __init__(self, patience: float = PATIENCE, command: Sequence[str] = worker_of(["planned"])):
        self.patience, self.command = patience, command
        self._process: subprocess.Popen[bytes] | None = None
        self._seeds = 0

    def run(self, seed: int, *more: int) -> dict[str, Any]:
        """What came of a seed, as the worker answers; a crash or a hang is a failure that says where it was.

        `more`: numbers that the worker is told after the seed."""
        if self._process is None or self._seeds >= SEEDS:
            self.close()
            self._start()
        assert self._process is not None
        assert self._process.stdin is not None
        self._seeds += 1
        self._process.stdin.write(f"{' '.join(map(str, (seed, *more)))}\n".encode())
        self._process.stdin.flush()
        where = ""
        while True:
            line = self._line()
            if not line:
                message = self._end(ending=line is not None)
                failure = {"seed": seed, "where": where, "message": message}
                return {"counts": {}, "plans": [], "codes": [], "failures": [failure]}
            answer: dict[str, Any] = json.loads(line)
            if "note" not in answer:
                return answer
            where = answer["note"]

    def close(self) -> None:
        if self._process is not None:
            self._end()

    def _start(self) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._errors, start_new_session=True,
        )  # fmt: skip
        self._seeds, self._rest = 0, b""

    def _line(self) -> bytes | None:
        """The next line; empty where the child has ended, None where it says nothing for too long."""
        assert self._process is not None
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not selector.select(self.patience):
                    return None
                some = os.read(self._process.stdout.fileno(), 1 << 16)
                if not some:
                    return b""
                self._rest += some
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _end(self, ending: bool = False) -> str:
        """End the child, and say how it ended before that."""
        process = self._process
        assert process is not None
        self._process = None
        with suppress(subprocess.TimeoutExpired):
            process.wait(DYING if ending else 0)
        code = process.poll()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        self._errors.seek(0)
        errors = self._errors.read().decode(errors="replace")[-3000:]
        self._errors.close()
        if code is None:
            return f"no answer for {self.patience:.0f} s\n{errors}"
        ended = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
        return f"the process ended {ended}\n{errors}"
