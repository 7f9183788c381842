"""The moves between kinds of plans: what is held, where values live, what is packed, streamed, split or turned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations

from ..plan import Home
from .launches import phases_of_launches, scratchpads_across
from .space import Move, Space

MOST_LANES = 3
"""Axes along the lanes that are tried."""


def first_moves(space: Space) -> Iterator[Move]:
    """A start for each set of whole axes that may be held at once and each axis along the lanes, the rest plain.

    Where lanes do not lie along an operand, a CPU packs it: moves there one by one would each look worse than none.
    """
    on_cpu = space.limits.warp == 1
    packable = tuple(sorted(space.needs.packable)) if space.needs.dots else ()
    for held in space.holdable():
        for lanes in (space.lanes[:MOST_LANES] if on_cpu else space.lanes[:1]) or (None,):
            plain = Move(held=held, order=space.tiles, lanes=lanes)
            yield plain
            if space.lean:
                yield replace(plain, homes=all_in_memory(space))
            if on_cpu and packable:
                yield replace(plain, packs=packable)


def next_moves(space: Space, move: Move) -> Iterator[Move]:
    """What is one decision away."""
    yield from _homes(space, move)
    yield from _copies(space, move)
    if len(space.tiles) <= 3:
        yield from (replace(move, order=order) for order in permutations(space.tiles) if order != move.order)
    yield from (replace(move, lanes=lanes) for lanes in space.lanes[:MOST_LANES] if lanes != move.lanes)
    if not move.homes and not move.online:
        for axis in space.needs.splittable:
            if axis not in move.held and move.split is None:
                yield replace(move, split=axis)
    for axis in space.can_go_online:
        if axis not in move.held and move.split is None:
            yield replace(move, online=() if axis in move.online else (axis,))
    if space.limits.warp == 1:
        yield from _on_cpu(space, move)


def all_in_memory(space: Space) -> tuple[tuple[str, Home], ...]:
    """Homes in memory for everything that can have one there: crossing values and scratchpads."""
    labels = [value.label for value in space.needs.crossing if Home.MEMORY in value.homes]
    labels += [scratchpad.label for scratchpad in space.needs.scratchpads]
    return tuple((label, Home.MEMORY) for label in sorted(set(labels)))


def cut_moves(space: Space, move: Move, phases: Sequence[str]) -> Iterator[Move]:
    """One more launch, that begins after one of some phases; what crosses then lies in memory."""
    for label in phases:
        if label not in move.cuts and move.split is None:
            cuts = tuple(each for each in space.cuts if each in (*move.cuts, label))
            yield replace(move, cuts=cuts, homes=_homes_across(space, move, cuts))


def _homes_across(space: Space, move: Move, cuts: tuple[str, ...]) -> tuple[tuple[str, Home], ...]:
    """Homes with those in memory that shared memory would not outlast."""
    launch_of = {phase: n for n, phases in enumerate(phases_of_launches(space.kernel, cuts)) for phase in phases}
    homes = dict(move.homes)
    for value in space.needs.crossing:
        across = {launch_of.get(phase) for phase in (value.made, *value.used)}
        if len(across) > 1 and homes.get(value.label, value.homes[0]) is Home.SHARED:
            homes[value.label] = Home.MEMORY
    homes.update(dict.fromkeys(scratchpads_across(space.kernel, cuts), Home.MEMORY))
    return tuple(sorted(homes.items()))


def in_memory(move: Move) -> Move:
    """The same with swap space in place of shared memory."""
    homes = {label: Home.MEMORY if home is Home.SHARED else home for label, home in move.homes}
    return replace(move, homes=tuple(sorted(homes.items())))


def _homes(space: Space, move: Move) -> Iterator[Move]:
    """Another home for one value. On a CPU swap space is what shared memory is, but for its limits: see `in_memory`."""
    if move.split is not None:
        return
    homes = dict(move.homes)
    labels = [value.label for value in space.needs.crossing]
    for value in space.needs.crossing:
        if set(value.whole) <= move.held or labels.count(value.label) > 1:
            continue
        default = value.homes[0]
        for home in value.homes:
            alike = space.limits.warp == 1 and home is Home.MEMORY and default is not Home.MEMORY
            if home is not homes.get(value.label, default) and not alike:
                changed = {**homes, value.label: home}
                kept = {label: where for label, where in changed.items() if (label, where) != (value.label, default)}
                yield replace(move, homes=tuple(sorted(kept.items())))
    for scratchpad in space.needs.scratchpads:
        changed = dict(homes)
        if changed.pop(scratchpad.label, None) is None:
            changed[scratchpad.label] = Home.MEMORY
        yield replace(move, homes=tuple(sorted(changed.items())))


def _copies(space: Space, move: Move) -> Iterator[Move]:
    for scratchpad in space.needs.scratchpads:
        label = scratchpad.label
        if scratchpad.can_copy:
            others = tuple(each for each in move.copies if each != label)
            yield replace(move, copies=others if label in move.copies else (*others, label))


def _on_cpu(space: Space, move: Move) -> Iterator[Move]:
    """What GPUs have no use for: packed operands, and stores past the caches."""
    for tensor in space.needs.packable:
        others = tuple(name for name in move.packs if name != tensor)
        yield replace(move, packs=others if tensor in move.packs else tuple(sorted((*others, tensor))))
    if len(space.needs.packable) > 1 and not move.packs:
        yield replace(move, packs=tuple(sorted(space.needs.packable)))
    if space.streamable:
        yield replace(move, streams=() if move.streams else space.streamable)
