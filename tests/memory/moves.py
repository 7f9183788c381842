"""What a random draw has done with a storage that may move, of whichever device it is."""

from __future__ import annotations

from random import Random

from vkernels.memory.links import Tier
from vkernels.memory.residency import Held, Residency

MOVES = ("bring", "copy", "copy", "leave", "fetch", "fetch", "arrive")
"""By name, as often as they are to be drawn."""


def move(act: str, there: Residency, held: Held, draw: Random, alignment: int = 64) -> None:
    """Do one of `MOVES`, at a drawn place; nothing for any other name."""

    def place() -> int:
        return alignment * draw.randint(0, (there.device.size - held.size) // alignment)

    if act == "bring":
        there.bring(held, place())
    elif act == "copy":
        there.copy_out(held, draw.choice([*Tier]), place())
    elif act == "leave":
        there.leave(held)
    elif act == "fetch":
        there.fetch(held, place(), wait=draw.random() < 0.5)
    elif act == "arrive":
        there.arrive(held)
