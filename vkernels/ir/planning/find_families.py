"""The search among structural decisions: which families of plans are looked at."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import groupby

from ..cost_model.launches import phases_of_launches
from ..plan import StructuralChoices
from .decisions.decision import Alternatives
from .decisions.decisions import neighbours, starting_choices, things_to_decide
from .decisions.homes import in_memory
from .decisions.launches import one_more_launch
from .decisions.parallel import cuts_in_parallel
from .decisions.swizzle import groups
from .plan_families import FamilyOutline, PlanFamily, family_of, outline_of, pinned_move
from .space import PlanSearchSpace

SEARCH_ROUNDS = 4
"""Rounds in which decisions are tried again, under the best family so far."""
WORTH_AGAIN = 1.1
"""A decision is not tried again if all alternatives are known to take more than this many times as long."""
BETTER = 0.999
"""An alternative must take less than this part of the time: less is a matter of digits."""
WORTH_GOING_ON = 1.2
"""A second climb goes on if its first round ends within this many times the best of the first one."""
WORTH_CLIMBING = 2.5
"""A second climb begins if its start takes at most this many times as long as what the first one found, or is about as
good (`ALIKE`) as what that one started from: decisions may win as much again."""
ALIKE = 1.5
"""Starts that are about as good: one takes at most this many times as long as the other."""
CLOSE = 1.25
"""Families that are little worse: they take at most this many times as long. Of those that hold as many axes, more axes
are held of these."""
WORTH_HOLDING = 4.0
"""More axes are held if those before do not take more than this many times as long as others with other lanes."""
WORTH_CUTTING = 0.75
"""Part of what the whole kernel holds that a launch has to do with, for it to be one of its own."""


@dataclass
class _Held:
    """Families that hold whole axes, of those that were looked at so far.

    `least`: seconds of the best by the number of axes. `online`: seconds of all by the number of axes along which they
    go online.
    """

    least: dict[int, float] = field(default_factory=dict)
    online: dict[int, dict[StructuralChoices, float]] = field(default_factory=dict)

    def add(self, number: int, family: PlanFamily) -> None:
        self.least[number] = min(self.least.get(number, math.inf), family.least)
        self.online.setdefault(len(family.choices.online), {})[family.choices] = family.least

    def second_best(self, choices: StructuralChoices) -> float:
        """Seconds beyond which a family is not one of the best two of its kind."""
        seconds = sorted(self.online.get(len(choices.online), {}).values())
        return seconds[1] if len(seconds) > 1 else math.inf


@dataclass
class _Search:
    """The families of a search, by their choices; `wanted`: how many of all their plans are of interest, the best.

    A family of which no plan can be among them, nor better than the best of the search, is left out, and so are such
    plans of other families: least times say so, which take a part of the time that modelling takes.
    """

    space: PlanSearchSpace
    wanted: int | None
    found: dict[StructuralChoices, PlanFamily | None] = field(default_factory=dict)
    _outlines: dict[StructuralChoices, FamilyOutline | None] = field(default_factory=dict)
    _looked: dict[StructuralChoices, float] = field(default_factory=dict)
    _best: list[float] = field(default_factory=list)
    _rough: set[StructuralChoices] = field(default_factory=set)

    def look(self, choices: StructuralChoices, beside: float = 0.0, is_rough: bool = False) -> PlanFamily | None:
        """The family of some choices; None where there is none, or none that takes less than `beside` seconds nor has
        a plan of interest. `is_rough`: some of its plans may be left out, and all that take longer than `beside`."""
        choices = pinned_move(self.space, choices)
        outline = self._outline(choices)
        if outline is None:
            return None
        within = beside if is_rough and self.wanted is not None else self._within(beside)
        if choices in self._rough and not is_rough:
            self._rough.remove(choices)
            del self.found[choices]
        if choices not in self.found or (self.found[choices] is None and within > self._looked[choices]):
            family = self.found[choices] = family_of(self.space, outline, within, is_rough)
            if is_rough:
                self._rough.add(choices)
            self._looked[choices] = within
            if family is not None and self.wanted is not None and not is_rough:
                self._best = sorted([*self._best, *family.seconds[family.best].tolist()])[: self.wanted]
        return self.found[choices]

    def _outline(self, choices: StructuralChoices) -> FamilyOutline | None:
        if choices not in self._outlines:
            self._outlines[choices] = outline_of(self.space, choices)
        return self._outlines[choices]

    def at_least(self, choices: StructuralChoices) -> float:
        """Seconds that no plan of a family takes less than; infinite where none fits."""
        outline = self._outline(pinned_move(self.space, choices))
        return math.inf if outline is None else outline.shortest

    def _within(self, beside: float) -> float:
        """Seconds beyond which a plan is of no interest."""
        if self.wanted is None or len(self._best) < self.wanted:
            return math.inf
        return max(self._best[-1], beside)

    def fastest(self, every_choice: Iterable[StructuralChoices], beside: float = math.inf) -> PlanFamily | None:
        """The family of the least time among some choices; None if none takes less than `beside` seconds."""
        best: PlanFamily | None = None
        for choices in sorted(every_choice, key=self.at_least):
            family = self.look(choices, beside)
            if family is not None and (best is None or family.least < best.least):
                best, beside = family, min(beside, family.least)
        return best

    # Which axes are held at once

    def starts(self) -> list[PlanFamily]:
        """The best two families of those that hold whole axes and are plain otherwise, and the best with other lanes;
        and of those that go online, where others do not, the best."""
        kinds: dict[StructuralChoices, list[StructuralChoices]] = {}
        for choices in starting_choices(self.space):
            kinds.setdefault(replace(choices, held=frozenset()), []).append(choices)
        held = _Held()
        found = [family for every_choice in kinds.values() for family in self._holding_more(every_choice, held)]
        ranked = sorted({id(family): family for family in found}.values(), key=lambda family: family.least)
        plain = min((len(family.choices.online) for family in ranked), default=0)
        online = [family for family in ranked if len(family.choices.online) > plain]
        best = [family for family in ranked if family not in online]
        lanes = {family.choices.lanes for family in best[:2]}
        others = [family for family in best[2:] if family.choices.lanes not in lanes]
        return best[:2] + others[:1] + online[:1]

    def _holding_more(self, every_choice: Iterable[StructuralChoices], so_far: _Held) -> Iterator[PlanFamily]:
        """Families that hold one whole axis more at each step: one with which they take little. Families that take too
        long for that, and are not among the best, are left out."""
        close: list[PlanFamily] = []
        unfit: list[frozenset[str]] = []
        for number, some in groupby(sorted(every_choice, key=lambda each: len(each.held)), lambda each: len(each.held)):
            able = [each for each in some if not any(held <= each.held for held in unfit)]
            if close:
                able = [each for each in able if self._is_left_by_one(each) or _holds_more(each, close)]
            most = WORTH_HOLDING * so_far.least.get(number, math.inf)
            best = math.inf
            fitting: list[PlanFamily] = []
            for each in sorted(able, key=self.at_least):
                within = max(min(most, CLOSE * best), so_far.second_best(each))
                family = self.look(each, within, is_rough=True)
                if family is not None:
                    best = min(best, family.least)
                    fitting.append(family)
                    so_far.add(number, family)
                elif within == math.inf or self.at_least(each) == math.inf:
                    unfit.append(each.held)
            yield from fitting
            if fitting:
                close = [family for family in fitting if family.least <= CLOSE * best]
            shortest = min((self.at_least(each) for each in able if each.held not in unfit), default=0.0)
            if (best if fitting else shortest) > WORTH_HOLDING * so_far.least.get(number, math.inf):
                break

    def _is_left_by_one(self, choices: StructuralChoices) -> bool:
        """Whether all axes but one are held on a GPU, as those of products that are multiplied again often are: axes
        that do little alone, so that no way leads there by one at a time."""
        return self.space.limits.warp > 1 and len(choices.held) == len(self.space.wholes) - 1

    # One decision after another

    def climb(self, best: PlanFamily, rival: float = math.inf) -> PlanFamily:
        """The family at which no decision is better made otherwise; where a first round stays far behind a `rival`'s
        seconds, the family found so far."""
        to_decide = things_to_decide(self.space)
        for _ in range(SEARCH_ROUNDS):
            before, promising = best, list[Alternatives]()
            for decision in to_decide:
                alternatives = list(decision(best.choices))
                found = self.fastest(alternatives, best.least)
                least = min(map(self.at_least, alternatives), default=math.inf) if found is None else found.least
                if least <= WORTH_AGAIN * best.least or least == math.inf:
                    promising.append(decision)
                if found is not None and found.least < BETTER * best.least:
                    best = found
            to_decide = promising
            if best is before or best.least > WORTH_GOING_ON * rival:
                break
        self.look(in_memory(best.choices))
        return best

    def group(self, best: PlanFamily) -> PlanFamily:
        """The best family with programs in groups, on CPUs."""
        found = self.fastest(groups(self.space, best.choices), best.least) if self.space.limits.warp == 1 else None
        return found if found is not None and found.least < BETTER * best.least else best

    def cut(self, best: PlanFamily) -> PlanFamily:
        """The best family with launches of their own where these hold much less, or are parallel along sides of
        dots."""
        parallel = cuts_in_parallel(self.space, best.choices) if self.space.limits.warp > 1 else ()
        start = self.fastest(parallel, WORTH_GOING_ON * best.least)
        if start is not None and (climbed := self.climb(start, best.least)).least < BETTER * best.least:
            return climbed
        cuts = _worth_cutting(self.space, best)
        for _ in cuts:
            found = self.fastest(one_more_launch(self.space, best.choices, cuts), best.least)
            if found is None or found.least >= best.least:
                break
            best = found
        return best


def _holds_more(choices: StructuralChoices, families: Iterable[PlanFamily]) -> bool:
    """Whether some choices hold all that one of some families holds."""
    return any(family.choices.held <= choices.held for family in families)


def find_families(space: PlanSearchSpace, wanted: int | None = None) -> list[PlanFamily]:
    """Kinds of plans: what holds what first, then one decision after another from the best of them, until none is
    better made otherwise; last, on a CPU, programs in groups, and on a GPU, launches of their own.

    `wanted`: only so many plans, the best of all families, are of interest; others may be left out.
    """
    search = _Search(space, wanted)
    best: PlanFamily | None = None
    first = math.inf
    for rough in search.starts():
        start = search.look(rough.choices, rough.least) or rough
        if best is not None and start.least > max(WORTH_CLIMBING * best.least, ALIKE * first):
            continue
        first = min(first, start.least)
        found = search.climb(start, math.inf if best is None else best.least)
        best = found if best is None or found.least < best.least else best
    if best is not None:
        search.cut(search.group(best))
    return [family for family in search.found.values() if family is not None]


def _worth_cutting(space: PlanSearchSpace, family: PlanFamily) -> list[str]:
    """The phases after which a separate launch would hold much less on one side, under the best plan."""
    if space.limits.warp == 1 or not space.cuts:
        return []
    use = space.use_of(family.batch.plan(family.best[0]))
    phases = {phase.name: (phase.registers_a_thread, phase.shared_bytes) for phase in use.phases}
    found: list[str] = []
    for label in space.cuts:
        sides = [
            [max(each) for each in zip(*(phases[name] for name in names), strict=True)]
            for names in phases_of_launches(space.kernel, (label,))
        ]
        if any(min(held) < WORTH_CUTTING * max(held) for held in zip(*sides, strict=True)):
            found.append(label)
    return found


def enumerate_families(space: PlanSearchSpace) -> Iterator[tuple[StructuralChoices, PlanFamily | None]]:
    """Kinds of plans by their decisions, each once; None where none of its plans fits.

    First come those that choosing looked at, then what is one decision away from the best of those not yet left, and
    so on until there is no more: stop when there are enough.
    """
    found = sorted(find_families(space), key=lambda family: family.least)
    seen = {family.choices for family in found}
    yield from ((family.choices, family) for family in found)
    waiting = [(family.least, number, family.choices) for number, family in enumerate(found)]
    number = len(found)
    while waiting:
        for choices in _neighbours(space, heappop(waiting)[2]):
            if choices not in seen:
                seen.add(choices)
                outline = outline_of(space, choices)
                family = None if outline is None else family_of(space, outline)
                yield choices, family
                if family is not None:
                    number += 1
                    heappush(waiting, (family.least, number, choices))


def _neighbours(space: PlanSearchSpace, choices: StructuralChoices) -> Iterator[StructuralChoices]:
    for candidate in neighbours(space, choices):
        yield pinned_move(space, candidate)
    yield pinned_move(space, in_memory(choices))
    if space.limits.warp > 1:
        for candidate in one_more_launch(space, choices, space.cuts):
            yield pinned_move(space, candidate)
