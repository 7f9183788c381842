"""Runs a program in a child process that has too little of something, and says how it ended."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECONDS = 300.0

VK = "from vkernels.commands import main; main()"
"""`vk` as a program."""
NO_THREADS = """
import threading, _thread
def refuse(*args, **kwargs):
    raise RuntimeError("can't start new thread")
_thread.start_new_thread = threading._start_new_thread = refuse
"""
"""As where the system gives no more threads: Python says the same. A limit binds no root, so that tests patch it."""


@dataclass(frozen=True)
class Ended:
    """How a program ended."""

    code: int
    output: str
    errors: str


def run(
    program: str, *arguments: object, limits: Mapping[int, int] | None = None, output: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Ended:  # fmt: skip
    """Run a program. `limits`: the most that it may have, by resource; `output`: the file that it prints to."""

    def limit() -> None:
        for kind, most in (limits or {}).items():
            resource.setrlimit(kind, (most, most))

    command = [sys.executable, "-c", program, *map(str, arguments)]
    given = {**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})}
    with open(output or os.devnull, "w") as file:
        done = subprocess.run(
            command, stdout=file if output else subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=SECONDS,
            preexec_fn=limit, env=given, cwd=ROOT, check=False,
        )  # fmt: skip
    return Ended(done.returncode, done.stdout or "", done.stderr)
