"""What an author pinned, as bounds of the choice: the rest is chosen knowing it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..pin import Pin
from ..plan import Home

if TYPE_CHECKING:
    from .space import Move, Space

NOTHING = Pin()
"""A pin of nothing."""


def pinned_size(pin: Pin, axis: str) -> int | None:
    """The elements of a program, or of a chunk, that are pinned for an axis."""
    return pin.tiles.get(axis, pin.chunks.get(axis))


def pinned_move(space: Space, move: Move) -> Move:
    """A move with what is pinned in place of its own."""
    pin = space.pin
    if pin == NOTHING:
        return move
    homes = {**dict(move.homes), **{label: Home(home) for label, home in pin.homes.items()}}
    defaults = {value.label: value.homes[0] for value in space.needs.crossing}
    kept = {label: home for label, home in homes.items() if home is not defaults.get(label)}
    decided = {
        name: tuple(value)
        for name in ("copies", "packs", "streams", "order", "online")
        if (value := getattr(pin, name)) is not None
    }
    split = _split(pin, move)
    return replace(
        move, held=_held(space, move, split), homes=tuple(sorted(kept.items())), split=split,
        lanes=move.lanes if pin.lanes is None else pin.lanes,
        cuts=move.cuts if pin.launches is None else tuple(pin.launches), **decided,
    )  # fmt: skip


def _held(space: Space, move: Move, split: str | None) -> frozenset[str]:
    """The axes that are held: a pinned chunk holds its axis where it is not smaller."""
    held = set(move.held)
    for axis, chunk in space.pin.chunks.items():
        held.discard(axis)
        if axis in space.wholes and axis != split and chunk >= space.extents[axis]:
            held.add(axis)
    if split is not None and split not in space.pin.chunks:
        held.discard(split)
    return frozenset(held)


def _split(pin: Pin, move: Move) -> str | None:
    pinned = next((axis for axis, shares in pin.splits.items() if shares > 1), None)
    if pinned is not None:
        return pinned
    return None if move.split in pin.splits or pin.launches or pin.online else move.split
