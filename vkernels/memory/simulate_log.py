"""What happened while an iteration was simulated, moment by moment."""

from __future__ import annotations

from dataclasses import dataclass, field

LINKS = ("to host", "to flash", "from host", "from flash")


@dataclass(frozen=True, slots=True)
class Transfer:
    """Absence number `absence` of the schedule, on link `link` (`LINKS`), in seconds since the iteration began."""

    absence: int
    link: int
    start: float
    end: float


@dataclass(frozen=True)
class Timeline:
    """What happened in the last iteration, in seconds since it began. A transfer that was under way at its start has a
    negative start. `memory`: bytes on the device from each moment on, and `host`: on the host."""

    starts: tuple[float, ...]
    memory: tuple[tuple[float, int], ...]
    host: tuple[tuple[float, int], ...]
    transfers: tuple[Transfer, ...]


@dataclass
class Log:
    """Filled by the engine, with its own times."""

    begin: float = 0.0
    starts: list[float] = field(default_factory=list)
    memory: list[tuple[float, int]] = field(default_factory=list)
    host: list[tuple[float, int]] = field(default_factory=list)
    transfers: list[Transfer] = field(default_factory=list)

    def timeline(self) -> Timeline:
        begin = self.begin
        return Timeline(
            tuple(at - begin for at in self.starts),
            tuple((at - begin, size) for at, size in self.memory),
            tuple((at - begin, size) for at, size in self.host),
            tuple(Transfer(each.absence, each.link, each.start - begin, each.end - begin) for each in self.transfers),
        )
