"""What the launches of a GPU take: their parameters, and what the host computes of a call's sizes before them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
    """The kinds of a kernel's parameters."""

    POINTER = "pointer"
    STRIDE = "stride"
    SCALAR = "scalar"
    SIZE = "size"
    BUFFER = "buffer"
    SWAP = "swap"
    PROGRAMS = "programs"


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
