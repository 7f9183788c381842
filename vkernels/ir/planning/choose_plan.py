"""The plan of the least modelled time that fits within limits; one that always fits where none does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..dialect import KernelOp
from ..errors import PlanError
from ..limits import Limits
from ..needs import Device, Needs, Use
from ..pin import Pin, with_pin
from ..plan import Home, Plan
from .accepts import accepts
from .bottom import bottom_plan
from .columns import columns_of, most_registers, which_fit
from .fits import why_not
from .model_cpu import cpu_registers, cpu_unrolled
from .model_gpu import is_wieldy
from .model_time import Times, model_time
from .moves import first_moves, in_memory, next_moves
from .pinned import NOTHING, pinned_move
from .setting import Numbers, Setting
from .space import Move, Space, read_space

KEPT = 4
"""Sizes of each kind of plan that are looked at closely, four times as many where those do not fit."""
CLOSELY = 64
"""Plans that are looked at closely: their needs evaluated, and modelled again with those."""
TRIED = 16
"""Rejected plans that are told of."""
UNROLLED = 2048
"""Instructions that CPU code unrolls a loop's body into, at most: more take long to compile, and leave a core's first
cache."""
PLAIN = 0.01
"""Part of the time that each further decision has to win."""
ROUNDS = 4
"""Times that all moves are tried from the best kind of plan so far."""


@dataclass(frozen=True)
class Rejected:
    """A plan that was not taken, its modelled seconds, and why."""

    plan: Plan
    seconds: float
    reason: str


@dataclass(frozen=True)
class Chosen:
    """A plan, what it takes, and its modelled times.

    `rung`: the last of the ladder's that it needs: registers, shared, recompute, memory, launches, or bottom, which
    fits anything. `tried`: what was rejected before it, the best first.
    """

    plan: Plan
    use: Use
    times: Times
    rung: str
    tried: tuple[Rejected, ...] = ()

    @property
    def seconds(self) -> float:
        """Modelled."""
        return float(self.times.seconds)


def choose_plan(
    kernel: KernelOp,
    sizes: Mapping[str, int],
    limits: Limits,
    needs: Needs | None = None,
    strides: Mapping[str, Sequence[int]] | None = None,
    pin: Pin | None = None,
) -> Chosen:
    """The plan of a kernel, as written or in phases, for a call's sizes by name, within limits.

    Deterministic: the same kernel, sizes and limits give the same plan. `needs`: the kernel's, where they are at hand.
    `strides`: in elements, of tensors; where they are not known, elements of the last dimension lie side by side.
    `pin`: what the author decided; the rest is chosen knowing it.
    """
    return next(plans_down(kernel, sizes, limits, needs, strides, pin))


def plans_down(
    kernel: KernelOp,
    sizes: Mapping[str, int],
    limits: Limits,
    needs: Needs | None = None,
    strides: Mapping[str, Sequence[int]] | None = None,
    pin: Pin | None = None,
    wanted: Callable[[Use], bool] = lambda use: True,
) -> Iterator[Chosen]:
    """The plans that fit, each once, the best first: where one's binary turns out not to, take the next.

    The last is the bottom rung's, which is always there. `wanted`: whether a plan that takes so much is of any use; it
    is asked at the time, and what is not is passed over. Other arguments are `choose_plan`'s.
    """
    space = read_space(kernel, sizes, limits, needs, strides, pin)
    tried: list[Rejected] = []
    given: list[Plan] = []
    for some in (space, replace(space, lean=True)):
        for near in _closely(some, _kinds(some)):
            if near.plan in given or not wanted(near.use):
                continue
            reason = near.misfit or accepts(space, near.plan)
            if reason is None:
                yield Chosen(near.plan, near.use, near.times, rung_of(near.plan, space), tuple(tried[:TRIED]))
                given.append(near.plan)
            else:
                tried.append(Rejected(near.plan, float(near.times.seconds), reason))
    yield replace(_bottom(space), tried=tuple(tried[:TRIED]))


def choose_bottom(
    kernel: KernelOp,
    sizes: Mapping[str, int],
    limits: Limits,
    strides: Mapping[str, Sequence[int]] | None = None,
    pin: Pin | None = None,
) -> Chosen:
    """The plan of the bottom rung, which fits anything, at once."""
    return _bottom(read_space(kernel, sizes, limits, None, strides, pin))


def _bottom(space: Space) -> Chosen:
    plan, setting = bottom_plan(space)
    plan = with_pin(plan, space.pin)
    (use,) = space.needs.evaluate_many([plan], space.sizes, Device.of(space.limits))
    times = model_time(setting, space.limits, use.registers_a_thread, use.shared_bytes).at(0)
    return Chosen(plan, use, times, "bottom")


def rung_of(plan: Plan, space: Space) -> str:
    """The last rung of the ladder that a plan stands on."""
    homes = set(plan.homes.values())
    if plan.splits:
        return "launches"
    if Home.MEMORY in homes:
        return "memory"
    held = {axis for axis in space.wholes if plan.chunks[axis] >= space.extents[axis]}
    crossing = [value for value in space.needs.crossing if set(value.whole) - held]
    if any(value.label not in plan.homes for value in crossing):
        return "recompute"
    return "shared" if crossing else "registers"


@dataclass(frozen=True)
class _Kind:
    """Plans of one kind, the registers and shared bytes that they take, their times, and the best of them in order.

    `seconds`: what decides between them and others: see `_plainness`.
    """

    move: Move
    setting: Setting
    registers: Numbers
    shared: Numbers
    times: Times
    seconds: Numbers
    best: Sequence[int]

    @property
    def least(self) -> float:
        return float(self.seconds[self.best[0]])


@dataclass(frozen=True)
class _Near:
    """A plan looked at closely: one of a kind."""

    space: Space
    kind: _Kind
    number: int

    @property
    def weight(self) -> float:
        """Seconds, as they count beside others'."""
        return float(self.kind.seconds[self.number])

    @cached_property
    def times(self) -> Times:
        return self.kind.times.at(self.number)

    @cached_property
    def plan(self) -> Plan:
        return with_pin(self.kind.setting.plan(self.number), self.space.pin)

    @cached_property
    def use(self) -> Use:
        return self.space.needs.evaluate(self.plan, self.space.sizes, Device.of(self.space.limits))

    @property
    def misfit(self) -> str | None:
        """Why it does not fit, None if it does."""
        space = self.space
        may_spill = space.limits.warp == 1 and space.pin != NOTHING
        return why_not(self.use, space.limits, 0.0 if may_spill else float(self.kind.registers[self.number]))


def _kinds(space: Space) -> list[_Kind]:
    """Kinds of plans: what holds what first, then every move from the best of them, while that is better."""
    seen: dict[Move, _Kind | None] = {}

    def look(move: Move) -> _Kind | None:
        move = pinned_move(space, move)
        if move not in seen:
            seen[move] = _kind(space, move)
        return seen[move]

    starts = [kind for move in first_moves(space) if (kind := look(move)) is not None]
    for start in sorted(starts, key=lambda kind: kind.least)[:2]:
        best = start
        for _ in range(ROUNDS):
            others = [kind for move in next_moves(space, best.move) if (kind := look(move)) is not None]
            better = min(others, key=lambda kind: kind.least, default=best)
            if better.least >= best.least:
                break
            best = better
        look(in_memory(best.move))
    return [kind for kind in seen.values() if kind is not None]


def _kind(space: Space, move: Move) -> _Kind | None:
    """A kind's plans by modelled time; None where the kernel cannot have it, or nothing fits at first sight."""
    try:
        grid = space.grid(move)
    except PlanError:
        return None
    limits = space.limits
    most: Numbers
    if limits.warp > 1:
        columns = columns_of(space, grid)
        registers, shared, most = columns.registers, columns.shared, limits.registers
        fits = which_fit(columns, grid, limits)
        wieldy = fits & is_wieldy(grid, limits, registers)
        fits = wieldy if np.any(wieldy) else fits
    else:
        registers, shared, most = cpu_registers(grid, limits), 0, np.inf
        fits = (registers <= limits.registers) & (cpu_unrolled(grid, limits) <= UNROLLED)
        if space.pin != NOTHING and not np.any(fits):  # what is pinned may spill
            fits = registers == np.min(registers)
    if move.split is not None and move.split not in space.pin.splits:
        fits = fits & (grid.shares * grid.size(move.split) < grid.extents[move.split])
    if not np.any(fits):
        return None
    return _modelled(space, move, grid.only(fits), grid.among(fits, registers), grid.among(fits, shared), most)


def _modelled(space: Space, move: Move, setting: Setting, registers: Numbers, shared: Numbers, most: Numbers) -> _Kind:
    """A kind whose plans get no more registers a thread than `most`."""
    times = model_time(setting, space.limits, np.minimum(registers, most), shared)
    seconds = np.broadcast_to(times.seconds * _plainness(move), setting.shape)
    best = np.argsort(seconds, kind="stable")[: 4 * KEPT]
    return _Kind(move, setting, registers, shared, times, seconds, best.tolist())


def _plainness(move: Move) -> float:
    """Above 1 for what is less plain: decisions that are modelled to win nothing are not made."""
    return 1 + PLAIN * (len(move.homes) + len(move.copies) + len(move.packs) + len(move.streams) + 2 * bool(move.split))


def _closely(space: Space, kinds: Sequence[_Kind]) -> Iterator[_Near]:
    """The best plans of all kinds, by their time as modelled with all that bounds their registers."""
    rows = sorted(
        ((float(kind.seconds[row]), number, row) for number, kind in enumerate(kinds) for row in kind.best),
        key=lambda each: each[:2],
    )
    for start in range(0, len(rows), CLOSELY):
        of_kinds: dict[int, list[int]] = {}
        for _, number, row in rows[start : start + CLOSELY]:
            of_kinds.setdefault(number, []).append(row)
        near = [each for number, some in of_kinds.items() for each in _near(space, kinds[number], sorted(some))]
        yield from sorted(near, key=lambda each: each.weight)


def _near(space: Space, kind: _Kind, rows: Sequence[int]) -> list[_Near]:
    """Some plans of a kind, modelled with all that bounds their registers."""
    limits, setting = space.limits, kind.setting
    if limits.warp > 1:
        taken, most = kind.registers[rows], setting.among(True, most_registers(setting, limits))[rows]
        if np.any(np.minimum(taken, most) != np.minimum(taken, limits.registers)):
            some = np.isin(np.arange(len(kind.seconds)), rows)
            kind = _modelled(space, kind.move, setting.only(some), taken, kind.shared[rows], most)
            rows = range(len(rows))
    return [_Near(space, kind, row) for row in rows]
