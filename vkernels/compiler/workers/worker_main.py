"""A worker: reads requests from its standard input, answers them on its standard output, until that ends.

    python -m vkernels.compiler.workers.worker_main LIFE SERVICE [ARGUMENT…]

LIFE is the number of a pipe's reading end; the parent keeps the other end open as long as it lives. SERVICE names a
function, `module:function`, that is called with something to send messages with and the arguments, and gives what
answers a request. All are bytes, in frames.
"""

from __future__ import annotations

import fcntl
import importlib
import os
import resource
import select
import signal
import sys
from contextlib import suppress
from typing import BinaryIO

from vkernels.ir.errors import SetupError

from ..records import to_bytes
from .frames import Handler, framed, read_frame
from .jobs import Ready


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
    """The two pipes for messages, which children do not inherit. Standard output is redirected to standard error."""
    jobs, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return os.fdopen(jobs, "rb"), answers


def main(life: int, service: str, *arguments: str) -> None:
    """Serve requests until there are no more."""
    die_with_parent(life)
    be_modest()
    requests, answers = take_streams()

    def send(message: bytes) -> None:
        data = memoryview(framed(message))
        while data:
            data = data[os.write(answers, data) :]

    try:
        module, function = service.split(":")
        handler: Handler = getattr(importlib.import_module(module), function)(send, *arguments)
    except SetupError as error:
        send(to_bytes(Ready(str(error))))
        return
    send(to_bytes(Ready("")))
    while (frame := read_frame(requests)) is not None:
        send(handler(frame))


if __name__ == "__main__":
    with suppress(BrokenPipeError):  # the parent no longer waits for the answer
        main(int(sys.argv[1]), *sys.argv[2:])
