"""A worker: reads requests from its standard input, answers them on its standard output, until that ends.

    python -m vkernels.compiler.workers.worker_main LIFE SERVICE [ARGUMENT…]

LIFE is the number of a pipe's reading end; the parent keeps the other end open as long as it lives. SERVICE names a
function, `module:function`, that is called with something to send messages with and the arguments, and gives what
answers a request. All are bytes, in frames.
"""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import suppress

from vkernels.ir.errors import SetupError

from ..records import to_bytes
from .child import Handler, be_modest, die_with_parent, take_streams
from .frames import framed, read_frame
from .jobs import Ready


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
    with suppress(BrokenPipeError):  # nobody waits for the answer any more
        main(int(sys.argv[1]), *sys.argv[2:])
