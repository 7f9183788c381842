"""What a child process does first, so that it can disturb nothing but itself, and does not outlive its parent."""

from __future__ import annotations

import fcntl
import os
import resource
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO

Send = Callable[[bytes], None]
"""Sends a message ahead of the answer."""
Handler = Callable[[bytes], bytes]
"""Answers a request."""


def die_with_parent(life: int) -> None:
    """Let the kernel kill the whole group, this process and its children, as soon as the parent is gone.

    `life`: the number of a pipe's reading end, of which the parent keeps the other end open as long as it lives.

    Python code would be too late: what hangs may hold the interpreter's lock. The kernel's own signal at a
    parent's death reaches this process alone, and comes at the end of the thread that started it.
    """
    os.set_inheritable(life, False)
    fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(life, fcntl.F_SETFL, os.O_ASYNC)
    if select.select([life], [], [], 0)[0]:  # it was gone before
        os.killpg(os.getpgrp(), signal.SIGKILL)


def be_modest() -> None:
    """No core files; and where the system runs out of memory, this process goes first."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def take_streams() -> tuple[BinaryIO, int]:
    """The two pipes for messages, which children do not inherit. What anybody prints goes to standard error."""
    jobs, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return os.fdopen(jobs, "rb"), answers
