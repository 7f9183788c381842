"""What an author pinned, as bounds of the choice: the rest is chosen knowing it."""

from __future__ import annotations

from dataclasses import replace

from ..pin import NO_PIN, Pin
from ..plan import Home
from .space import PlanSearchSpace
from .structural_choices import StructuralChoices


def pinned_move(space: PlanSearchSpace, choices: StructuralChoices) -> StructuralChoices:
    """Structural choices with what is pinned in place of their own."""
    pin = space.pin
    if pin == NO_PIN:
        return choices
    homes = {**dict(choices.homes), **{label: Home(home) for label, home in pin.homes.items()}}
    defaults = {value.label: value.homes[0] for value in space.needs.crossing}
    kept = {label: home for label, home in homes.items() if home is not defaults.get(label)}
    decided = {
        name: tuple(value)
        for name in ("copies", "packs", "streams", "order", "online")
        if (value := getattr(pin, name)) is not None
    }
    split = _split(pin, choices)
    return replace(
        choices, held=_held(space, choices, split), homes=tuple(sorted(kept.items())), split=split,
        lanes=choices.lanes if pin.lanes is None else pin.lanes,
        cuts=choices.cuts if pin.launches is None else tuple(pin.launches), **decided,
    )  # fmt: skip


def _held(space: PlanSearchSpace, choices: StructuralChoices, split: str | None) -> frozenset[str]:
    """The axes that are held: a pinned chunk holds its axis where it is not smaller."""
    held = set(choices.held)
    for axis, chunk in space.pin.chunks.items():
        held.discard(axis)
        if axis in space.wholes and axis != split and chunk >= space.extents[axis]:
            held.add(axis)
    if split is not None and split not in space.pin.chunks:
        held.discard(split)
    return frozenset(held)


def _split(pin: Pin, choices: StructuralChoices) -> str | None:
    pinned = next((axis for axis, shares in pin.splits.items() if shares > 1), None)
    if pinned is not None:
        return pinned
    return None if choices.split in pin.splits or pin.launches or pin.online else choices.split
