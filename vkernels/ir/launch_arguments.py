"""What the launches of a GPU take: their parameters, and what the host computes of a call's sizes before them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

SWAP_ALIGNMENT = 64
"""The alignment of everything in swap space, in bytes."""


def _toward_zero(a: int, b: int) -> int:
    if b == 0:
        return 0
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


SIZE_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "divsi": _toward_zero,
    "remsi": lambda a, b: a - b * _toward_zero(a, b) if b else 0,
    "floordivsi": lambda a, b: a // b if b else 0,
    "ceildivsi": lambda a, b: -(-a // b) if b else 0,
    "maxsi": max,
    "minsi": min,
}
"""The i64 operations on sizes; x / 0 is 0, as everywhere. Sizes are far from where i64 would wrap."""


@dataclass(frozen=True)
class HostArguments:
    """What one call needs: bytes of each top-level buffer, and programs of each launch.

    `more_swap_bytes`: for each launch, the bytes of swap space that a resident program takes beside the launch's own
    `swap_bytes`, because they depend on the call's sizes; empty where no launch has such swap space.
    """

    buffer_bytes: tuple[int, ...]
    programs: tuple[int, ...]
    more_swap_bytes: tuple[int, ...] = ()

    def more_swap(self, launch: int) -> int:
        """The `more_swap_bytes` of one launch, by its number."""
        return self.more_swap_bytes[launch] if self.more_swap_bytes else 0


class ParameterKind(StrEnum):
    """The kinds of a kernel's parameters.

    A persistent launch runs the programs from `FIRST_PROGRAM`, 0 of a whole launch, to `PROGRAMS`, so that a launch can
    be run in ranges of programs.
    """

    POINTER = "pointer"
    STRIDE = "stride"
    SCALAR = "scalar"
    SIZE = "size"
    BUFFER = "buffer"
    SWAP = "swap"
    PROGRAMS = "programs"
    FIRST_PROGRAM = "first program"


@dataclass(frozen=True)
class LaunchParameter:
    """One parameter of a launch's function.

    `name`: the tensor, scalar or size. `number`: a stride's dimension, or which top-level buffer.
    `type`: "ptr", "i32", "i64", "f64" or "i1".
    """

    kind: ParameterKind
    name: str = ""
    number: int = 0
    type: str = "ptr"
