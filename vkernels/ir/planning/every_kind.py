"""Many kinds of plans, those of less modelled time first, for searches that look beyond the model's own choice."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from .kinds import Kind, kind_of, kinds_of
from .moves import cut_moves, in_memory, next_moves
from .pinned import pinned_move
from .space import Move, Space


def every_kind(space: Space) -> Iterator[tuple[Move, Kind | None]]:
    """Kinds of plans by their decisions, each once; None where none of its plans fits.

    First come those that choosing looked at, then what is one decision away from the best of those not yet left, and
    so on until there is no more: stop when there are enough.
    """
    found = sorted(kinds_of(space), key=lambda kind: kind.least)
    seen = {kind.move for kind in found}
    yield from ((kind.move, kind) for kind in found)
    waiting = [(kind.least, number, kind.move) for number, kind in enumerate(found)]
    number = len(found)
    while waiting:
        for move in _near(space, heappop(waiting)[2]):
            if move not in seen:
                seen.add(move)
                kind = kind_of(space, move)
                yield move, kind
                if kind is not None:
                    number += 1
                    heappush(waiting, (kind.least, number, move))


def _near(space: Space, move: Move) -> Iterator[Move]:
    """What is one decision away, as far as the author left it open."""
    for near in next_moves(space, move):
        yield pinned_move(space, near)
    yield pinned_move(space, in_memory(move))
    if space.limits.warp > 1:
        for near in cut_moves(space, move, space.cuts):
            yield pinned_move(space, near)
