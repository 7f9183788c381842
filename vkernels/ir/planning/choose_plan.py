"""The plan of the least modelled time that fits within limits; one that always fits where none does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..dialect import KernelOp
from ..limits import Limits
from ..needs import Device, Needs, Use
from ..pin import Pin, with_pin
from ..plan import Home, Plan
from .accepts import accepts
from .bottom import bottom_plan
from .columns import most_registers
from .fits import why_not
from .kinds import Kind, kinds_of, modelled
from .model_time import Times, model_time
from .pinned import NOTHING
from .space import Space, read_space

CLOSELY = 64
"""Plans that are looked at closely: their needs evaluated, and modelled again with those."""
TRIED = 16
"""Rejected plans that are told of."""
FEWER = 4
"""Plans of which it is asked whether fewer programs at once would take less time."""
FEWER_WIN = 0.9
"""Part of the time that they may take, at most: programs that go on to others are less plain than a grid of them."""


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
        for near in _closely(some, kinds_of(some)):
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
    if plan.launches or plan.split is not None:
        return "launches"
    if Home.MEMORY in homes:
        return "memory"
    held = {axis for axis in space.wholes if plan.chunks[axis] >= space.extents[axis]}
    crossing = [value for value in space.needs.crossing if set(value.whole) - held]
    if any(value.label not in plan.homes for value in crossing):
        return "recompute"
    return "shared" if crossing else "registers"


@dataclass(frozen=True)
class _Near:
    """A plan looked at closely: one of a kind."""

    space: Space
    kind: Kind
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
        return why_not(self.use, space.limits, 0.0 if may_spill else float(self.kind.taken.registers[self.number]))


def _closely(space: Space, kinds: Sequence[Kind]) -> Iterator[_Near]:
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
        near.sort(key=lambda each: each.weight)
        fewer = [found for each in near[:FEWER] if (found := _with_fewer(each)) is not None]
        yield from sorted([*fewer, *near], key=lambda each: each.weight)


def _near(space: Space, kind: Kind, rows: Sequence[int]) -> list[_Near]:
    """Some plans of a kind, modelled with all that bounds their registers."""
    limits, setting = space.limits, kind.setting
    if limits.warp > 1:
        taken, most = kind.taken.rows(rows), setting.among(True, most_registers(setting, limits))[rows]
        if np.any(np.minimum(taken.registers, most) != np.minimum(taken.registers, limits.registers)):
            some = np.isin(np.arange(len(kind.seconds)), rows)
            kind = modelled(space, kind.move, setting.only(some), taken, most)
            rows = range(len(rows))
    return [_Near(space, kind, row) for row in rows]


def _with_fewer(near: _Near) -> _Near | None:
    """A GPU's plan with fewer programs at once, where what they read again or swap then stays in the caches; None where
    that wins too little."""
    space, kind = near.space, near.kind
    cores, at = space.limits.multiprocessors, kind.setting.only(np.arange(len(kind.seconds)) == near.number)
    programs = float(np.max(at.threads_of_work))
    some = [cores * n for n in (1, 2, 4, 8) if cores * n < programs]
    if space.limits.warp == 1 or not some or space.pin.resident_programs is not None:
        return None
    taken, most = kind.taken.rows([near.number] * len(some)), most_registers(at, space.limits)
    at = replace(at, resident=np.array(some, dtype=float)).only(True)
    fewer = modelled(space, kind.move, at, taken, most)
    return _Near(space, fewer, fewer.best[0]) if fewer.least < FEWER_WIN * near.weight else None
