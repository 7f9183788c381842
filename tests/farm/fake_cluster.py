"""A cluster without machines: turns end when a test says so, with the answers that it gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from vkernels.farm.cluster import Lost, slots_of
from vkernels.farm.queue import Slot, Turn
from vkernels.farm.records import Answer, Offer, Submission, Wanted

ONE, ALL = "cpu:cores=1", "cpu"


def offer(slice: str = ONE, width: int = 1, cores: Sequence[int] = (0, 1), device: str = "A CPU") -> Offer:
    return Offer(slice, device, f"{width:064x}", width, "a machine", list(cores))


def slots(count: int = 1, *offers: Offer) -> list[Slot]:
    """The slots of this many machines that are alike."""
    return list(slots_of({f"node{number}": offers or (offer(),) for number in range(count)}))


def submission(*kernels: str, **more) -> Submission:
    """Of kernels of the library that need not exist."""
    tasks = [
        Wanted({"kernel": f"vkernels.library.rows:{name}", "shape": {"M": 8}, "dtypes": {"x": "float32"}})
        for name in kernels or ("softmax_rows",)
    ]
    return Submission(**{"title": "test", "tasks": tasks, "slices": [ONE], "seconds": 30.0, **more})


@dataclass
class FakeCluster:
    there: list[Slot] = field(default_factory=slots)
    begun: list[Turn] = field(default_factory=list)
    ended: list[tuple[str, Answer | Lost]] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    left: bool | None = None

    def slots(self) -> Sequence[Slot]:
        return self.there

    def begin(self, turn: Turn) -> None:
        self.begun.append(turn)

    def answers(self) -> list[tuple[str, Answer | Lost]]:
        ended, self.ended = self.ended, []
        return ended

    def cancel(self, turn: str) -> None:
        self.cancelled.append(turn)

    def close(self, leave: bool) -> None:
        self.left = leave

    def release(self, node: str) -> None:
        self.there = [slot for slot in self.there if slot.node != node]

    def answer(self, answer: Answer | Lost, turn: int = -1) -> None:
        """The head gets this answer at its next step."""
        self.ended.append((self.begun[turn].id, answer))


def good(seconds: float = 10.0, best: float = 1.0, **more) -> Answer:
    return Answer(
        **{"seconds": seconds, "tried": 5, "measured": 5, "best": best, "default": 2.0, "used": seconds, **more}
    )
