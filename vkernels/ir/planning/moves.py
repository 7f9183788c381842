"""The moves between kinds of plans: what is held, where values live, what is packed, streamed, split or turned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations

from ..needs import Crossing
from ..plan import Home
from .launches import launch_of_phases, phases_of_launches, scratchpads_across
from .space import Move, Space

MOST_LANES = 3
"""Axes along the lanes that are tried."""
Decision = Callable[[Move], Iterable[Move]]
"""One thing to decide: the moves that decide it otherwise than one does."""


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


def decisions(space: Space) -> list[Decision]:
    """What there is to decide, one thing after another: each gives the other ways to decide it under a move."""
    needs = space.needs
    found: list[Decision] = [partial(_home, space, value) for value in needs.crossing if _is_alone(space, value)]
    found += [partial(_pad_home, scratchpad.label) for scratchpad in needs.scratchpads]
    found += [partial(_copy, scratchpad.label) for scratchpad in needs.scratchpads if scratchpad.can_copy]
    found += [partial(_order, space)] if 1 < len(space.tiles) <= 3 else []
    found += [partial(_lanes, space), partial(_split, space)]
    found += [partial(_online, axis) for axis in space.can_go_online]
    if space.limits.warp == 1:
        found += [partial(_pack, tensor) for tensor in needs.packable]
        found += [partial(_pack_all, space)] if len(needs.packable) > 1 else []
        found += [partial(_stream, space)] if space.streamable else []
    return found


def next_moves(space: Space, move: Move) -> Iterator[Move]:
    """What is one decision away."""
    for decision in decisions(space):
        yield from decision(move)


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
    launch_of = launch_of_phases(phases_of_launches(space.kernel, cuts))
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


def _is_alone(space: Space, value: Crossing) -> bool:
    """Whether no other value that crosses phases has the same label."""
    return [each.label for each in space.needs.crossing].count(value.label) == 1


def _home(space: Space, value: Crossing, move: Move) -> Iterator[Move]:
    """Another home for a value. On a CPU swap space is what shared memory is, but for its limits: see `in_memory`."""
    if move.split is not None or set(value.whole) <= move.held:
        return
    homes = dict(move.homes)
    default = value.homes[0]
    for home in value.homes:
        alike = space.limits.warp == 1 and home is Home.MEMORY and default is not Home.MEMORY
        if home is not homes.get(value.label, default) and not alike:
            changed = {**homes, value.label: home}
            kept = {label: where for label, where in changed.items() if (label, where) != (value.label, default)}
            yield replace(move, homes=tuple(sorted(kept.items())))


def _pad_home(label: str, move: Move) -> Iterator[Move]:
    if move.split is None:
        changed = dict(move.homes)
        if changed.pop(label, None) is None:
            changed[label] = Home.MEMORY
        yield replace(move, homes=tuple(sorted(changed.items())))


def _copy(label: str, move: Move) -> Iterator[Move]:
    others = tuple(each for each in move.copies if each != label)
    yield replace(move, copies=others if label in move.copies else (*others, label))


def _order(space: Space, move: Move) -> Iterator[Move]:
    yield from (replace(move, order=order) for order in permutations(space.tiles) if order != move.order)


def _lanes(space: Space, move: Move) -> Iterator[Move]:
    yield from (replace(move, lanes=lanes) for lanes in space.lanes[:MOST_LANES] if lanes != move.lanes)


def _split(space: Space, move: Move) -> Iterator[Move]:
    """Another axis over programs, or none. What is split decides on no homes, and computes nothing online."""
    for axis in (None, *space.needs.splittable):
        if axis != move.split and axis not in move.held:
            yield replace(move, split=axis) if axis is None else replace(move, split=axis, homes=(), online=())


def _online(axis: str, move: Move) -> Iterator[Move]:
    if axis not in move.held and move.split is None:
        yield replace(move, online=() if axis in move.online else (axis,))


def _pack(tensor: str, move: Move) -> Iterator[Move]:
    others = tuple(name for name in move.packs if name != tensor)
    yield replace(move, packs=others if tensor in move.packs else tuple(sorted((*others, tensor))))


def _pack_all(space: Space, move: Move) -> Iterator[Move]:
    if not move.packs:
        yield replace(move, packs=tuple(sorted(space.needs.packable)))


def _stream(space: Space, move: Move) -> Iterator[Move]:
    """Stores past the caches."""
    yield replace(move, streams=() if move.streams else space.streamable)
