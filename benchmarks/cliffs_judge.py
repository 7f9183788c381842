"""What seconds of plans say about limits: steps, distance from the best, porting and range. Nothing is measured here.

A `Case` is one kernel's table of plans and seconds. A plan's time does not depend on limits: they only say which plans
are admitted, those that the planner counts to keep within them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

STEP, ALL, NEAR = 1.5, 3.0, 1.3
"""The bars: the chosen plan's time from one limits to the next, over all of them, and against the best found."""
GOOD = 1.05
"""What an author would have taken for good on the limits at hand: within five hundredths of the best."""


@dataclass(frozen=True)
class Point:
    """Limits: vector registers, and bytes of a core's share of level 2."""

    registers: int
    shared: int

    def __str__(self) -> str:
        return f"{self.registers} × {self.shared >> 10} KiB"

    def is_halved(self, other: Point) -> bool:
        """Whether `other` has half of one of both, and as much of the other."""
        halves = (self.registers == 2 * other.registers, self.shared == 2 * other.shared)
        same = (self.registers == other.registers, self.shared == other.shared)
        return (halves[0] and same[1]) or (halves[1] and same[0])


@dataclass(frozen=True)
class Timed:
    """A plan, as JSON; what the planner counts that it takes; seconds a call: what three quarters of the turns exceed.

    `origin`: who made it: chosen, liked (by the model), drawn (at random), beside (a good one), library or pinned.
    `final`: timed in the last turns, with all that matter; others only in the search, a few times.
    """

    plan: Mapping[str, Any]
    registers: int
    shared: int
    origin: str
    final: bool
    seconds: float
    median: float
    upper: float

    def fits(self, point: Point) -> bool:
        return self.registers <= point.registers and self.shared <= point.shared


@dataclass(frozen=True)
class Choice:
    """What was chosen within some limits. `plan`: its number. `native`: the highest vector register in its code, plus
    one; `spills`: registers that its code stores on the stack, and loads, where there are but eight; -1: not looked."""

    plan: int
    rung: str
    modelled: float
    native: int = -1
    spills: int = -1


@dataclass(frozen=True)
class Case:
    """One kernel: limits, plans, what was chosen at each limits. The first limits are the machine's own.

    `pinned`: for a plan whose sizes an author pins, by number, the plan that the toolkit makes of them at each limits.
    `specified`: plans drawn at random to stand for what authors may have pinned. `enumerated`: plans that the search
    drew from; `refused`: of those tried, how many could not be run.
    """

    label: str
    points: Sequence[Point]
    plans: Sequence[Timed]
    choices: Sequence[Choice]
    pinned: Mapping[int, Sequence[int]]
    specified: Sequence[int]
    enumerated: int
    refused: int

    def admitted(self, at: int) -> list[int]:
        """Plans that keep within limits. The bottom rung, which there always is, counts where it was chosen."""
        point = self.points[at]
        return [n for n, plan in enumerate(self.plans) if plan.fits(point) or n == self.choices[at].plan]

    def seconds(self, plan: int) -> float:
        return self.plans[plan].seconds

    def best(self, at: int) -> int:
        return min(self.admitted(at), key=self.seconds)

    def chosen(self, at: int) -> float:
        """Seconds of the chosen plan."""
        return self.seconds(self.choices[at].plan)

    def good(self, at: int) -> list[int]:
        """Plans within `GOOD` of the best, of those that an author could have found and the toolkit was asked about."""
        most = GOOD * self.seconds(self.best(at))
        return [n for n in self.admitted(at) if n in self.pinned and self.seconds(n) <= most]


@dataclass(frozen=True)
class Verdict:
    """The worst of each bar, and where. `steps`: from, to, ratio."""

    step: tuple[int, int, float]
    in_all: tuple[int, float]
    from_best: tuple[int, float]

    @property
    def holds(self) -> bool:
        return self.step[2] <= STEP and self.in_all[1] <= ALL and self.from_best[1] <= NEAR


def steps(case: Case) -> Iterator[tuple[int, int, float]]:
    """Every halving: limits, halved limits, and how many times longer the chosen plan takes."""
    for one, point in enumerate(case.points):
        for other, halved in enumerate(case.points):
            if point.is_halved(halved):
                yield one, other, case.chosen(other) / case.chosen(one)


def judge(case: Case) -> Verdict:
    every = range(len(case.points))
    return Verdict(
        max(steps(case), key=lambda step: step[2], default=(0, 0, 1.0)),
        max(((at, case.chosen(at) / case.chosen(0)) for at in every), key=lambda each: each[1]),
        max(((at, case.chosen(at) / case.seconds(case.best(at))) for at in every), key=lambda each: each[1]),
    )


@dataclass(frozen=True)
class Porting:
    """What plans good on the source lose on the target: `loss`, the largest, as a part of the best there (0.5: half as
    long again); None where none of them runs. `failed`: the part of them that does not fit."""

    loss: float | None
    failed: float


def port_fixed(case: Case, source: int, target: int) -> Porting:
    """Whole plans carried over: one that does not keep within the target's limits does not run."""
    good = case.good(source)
    there = [case.seconds(n) for n in good if n in case.admitted(target)]
    return _porting(case, target, there, len(good))


def port_pinned(case: Case, source: int, target: int) -> Porting:
    """Sizes carried over as virtual ones: the toolkit chooses the rest, and gives way where the sizes do not fit."""
    good = case.good(source)
    return _porting(case, target, [case.seconds(case.pinned[n][target]) for n in good], len(good))


def port_free(case: Case, target: int) -> Porting:
    """Nothing pinned: the chosen plan, wherever the author was."""
    return _porting(case, target, [case.chosen(target)], 1)


def _porting(case: Case, target: int, there: Sequence[float], of: int) -> Porting:
    best = case.seconds(case.best(target))
    return Porting(max(there) / best - 1 if there else None, 1 - len(there) / of if of else 0.0)


@dataclass(frozen=True)
class Range:
    """The worst against the best that an author could have pinned, of those that run; the part that does not run."""

    worst: float
    failed: float


def range_fixed(case: Case, at: int) -> Range:
    """Whole plans pinned."""
    admitted = set(case.admitted(at))
    runs = [case.seconds(n) for n in case.specified if n in admitted]
    return _range(case, at, runs)


def range_pinned(case: Case, at: int) -> Range:
    """The same plans' sizes pinned, the rest chosen."""
    return _range(case, at, [case.seconds(case.pinned[n][at]) for n in case.specified])


def _range(case: Case, at: int, runs: Sequence[float]) -> Range:
    best = case.seconds(case.best(at))
    return Range(max(runs, default=best) / best, 1 - len(runs) / len(case.specified) if case.specified else 0.0)


def case_to_json(case: Case) -> dict[str, Any]:
    return asdict(case)


def case_from_json(plain: Mapping[str, Any]) -> Case:
    values = dict(plain)
    values["points"] = [Point(**each) for each in plain["points"]]
    values["plans"] = [Timed(**each) for each in plain["plans"]]
    values["choices"] = [Choice(**each) for each in plain["choices"]]
    values["pinned"] = {int(number): plans for number, plans in plain["pinned"].items()}
    return Case(**values)
