"""What was watched of a program, before it becomes a trace: plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Made(NamedTuple):
    """By which operation of which iteration, and as which of the storages that it made."""

    iteration: int
    operation: int
    ordinal: int


@dataclass
class Storage:
    """A piece of memory. `made` is None for one that was there before; `freed`: the iteration and the operation in it
    before which it was given back, None while it lives. `kind`: of device, as torch names it."""

    size: int
    made: Made | None
    freed: tuple[int, int] | None = None
    kind: str = "cpu"


@dataclass
class RecordedOp:
    """One operation; `reads` and `writes` are indices of storages. `outside`: seconds of the program between the
    operation before it and this one."""

    name: str
    seconds: float
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    outside: float = 0.0


@dataclass
class Iteration:
    """Operations in the order in which they ran. `outside`: seconds of the program after the last."""

    operations: list[RecordedOp] = field(default_factory=list)
    outside: float = 0.0


@dataclass
class Watched:
    """Iterations in their order, and all storages that they used."""

    iterations: list[Iteration]
    storages: list[Storage]
