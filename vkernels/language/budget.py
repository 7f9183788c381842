"""The author's upper bound on what a kernel may need."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Budget:
    """At most so much of each, whatever the device has; None is unlimited.

    `registers`: a thread; `shared`: bytes a program; `threads`: a program. A kernel whose leanest plan needs more
    cannot be specialised.
    """

    registers: int | None = None
    shared: int | None = None
    threads: int | None = None
