"""What the head needs of machines: slots, and turns on them. Ray is one such cluster; tests have another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from .queue import Slot, Turn
from .records import Answer, Offer


@dataclass(frozen=True)
class Lost:
    """A turn has no answer, because its worker or machine is gone."""

    why: str


class Cluster(Protocol):
    """Machines that run turns. No method waits long."""

    def slots(self) -> Sequence[Slot]:
        """The slots that are there now, taken or not."""

    def begin(self, turn: Turn) -> None:
        """Start a turn on its slot."""

    def answers(self) -> list[tuple[str, Answer | Lost]]:
        """The turns that have ended since the last call, by their identity."""

    def cancel(self, turn: str) -> None:
        """End a turn early; it still gets an answer, or is lost."""

    def release(self, node: str) -> None:
        """Let a machine leave; its slots are gone at once."""

    def close(self, leave: bool) -> None:
        """End all turns. `leave`: also tell the machines that the farm stops for good."""


def slots_of(offers: Mapping[str, Sequence[Offer]]) -> Iterator[Slot]:
    """The slots of machines: each offered slice as often as it fits, on cores from the last on."""
    for node, some in sorted(offers.items()):
        for offer in some:
            for number in range(offer.count):
                end = len(offer.cores) - number * offer.width
                cores = tuple(offer.cores[end - offer.width : end])
                yield Slot(f"{node}/{offer.slice}/{number}", node, offer, cores)
