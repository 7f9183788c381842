"""A child process's pipes and environment, as its parent uses them."""

from __future__ import annotations

import os
import sys
from typing import IO, cast

from .printed import Printed

_MOST_READ = 1 << 16
_MOST_READS = 16


def python_path() -> str:
    """`PYTHONPATH` for a child to import what this process would."""
    return os.pathsep.join(entry or os.getcwd() for entry in sys.path)


def unblocked(file: IO[bytes] | None) -> int:
    """The number of a child's pipe, of which reads and writes no longer wait."""
    number = cast(IO[bytes], file).fileno()
    os.set_blocking(number, False)
    return number


def read_ready(number: int) -> bytes | None:
    """What a pipe holds: None for nothing yet, empty at its end."""
    try:
        return os.read(number, _MOST_READ)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def take_printed(number: int, printed: Printed) -> bool:
    """Take what has been printed so far, within reason; whether more may come."""
    for _ in range(_MOST_READS):
        data = read_ready(number)
        if not data:
            return data is None
        printed.add(data)
    return True
