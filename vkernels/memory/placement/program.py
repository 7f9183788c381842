"""Buffers, and how launches and host code use them, as plain numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from vkernels.ir.errors import ArgumentError

MEMORY, LINK = "memory", "link"
"""Parts of a launch's time: accesses to the device's memory, and over the link to the host's."""


class Side(StrEnum):
    """The processor next to a memory."""

    HOST = "host"
    DEVICE = "device"


@dataclass(frozen=True)
class Buffer:
    """`size`: bytes. `starts`: where its contents are at first, None: nowhere. `wanted`: the host reads it last."""

    name: str
    size: int
    starts: Side | None = Side.HOST
    wanted: bool = False


@dataclass(frozen=True)
class BufferUse:
    """One step's use of one buffer. Bytes.

    `read`, `written`: from and to memory with caches; `asked`, `put`: without. `scattered`: by indices in memory.
    `fresh`: all of it is written and nothing read, so that its old contents are not needed.
    """

    buffer: str
    read: float = 0.0
    written: float = 0.0
    asked: float = 0.0
    put: float = 0.0
    scattered: bool = False
    fresh: bool = False


@dataclass(frozen=True)
class PlacedLaunch:
    """One kernel. `parts`: its other seconds, by name (operations, caches, latency, `memory` of homes); `launch`: of
    launches themselves."""

    name: str
    uses: tuple[BufferUse, ...]
    parts: Mapping[str, float] = field(default_factory=dict, hash=False)
    launch: float = 0.0

    def on(self, buffers: Mapping[str, str]) -> PlacedLaunch:
        """Return the launch on other buffers, by the names of the kernel's tensors, to chain launches."""
        return replace(self, uses=tuple(replace(use, buffer=buffers.get(use.buffer, use.buffer)) for use in self.uses))


@dataclass(frozen=True)
class HostCode:
    """Code that runs on the CPU between launches, in program order."""

    name: str
    uses: tuple[BufferUse, ...]


Step = PlacedLaunch | HostCode


@dataclass(frozen=True)
class PlacedProgram:
    """Steps one after another. Raises `ArgumentError` for contradictions."""

    buffers: tuple[Buffer, ...]
    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        names = [each.name for each in self.buffers]
        for name, count in Counter(names).items():
            _expect(count == 1, f"there are {count} buffers {name!r}")
        for buffer in self.buffers:
            _expect(buffer.size >= 0, f"{buffer.name}: a size of {buffer.size} bytes")
        filled = {each.name for each in self.buffers if each.starts is not None}
        for step in self.steps:
            for use in step.uses:
                _expect(use.buffer in names, f"{step.name} uses {use.buffer!r}, which is no buffer")
                numbers = (use.read, use.written, use.asked, use.put)
                _expect(all(0 <= each < float("inf") for each in numbers), f"{step.name}: {use.buffer}: bytes below 0")
                reads = use.read > 0 or use.asked > 0
                _expect(use.buffer in filled or not reads, f"{step.name} reads {use.buffer}, which nobody has written")
                if use.written or use.put:
                    filled.add(use.buffer)
            _expect(len({use.buffer for use in step.uses}) == len(step.uses), f"{step.name} uses a buffer twice")

    @property
    def launches(self) -> tuple[PlacedLaunch, ...]:
        return tuple(step for step in self.steps if isinstance(step, PlacedLaunch))


def _expect(holds: bool, message: str) -> None:
    if not holds:
        raise ArgumentError(message)
