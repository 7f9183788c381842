"""How much memory a process and its children hold."""

from __future__ import annotations

import os
from collections.abc import Iterator

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
