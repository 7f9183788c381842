"""Which of a kernel's plans are judged by their binaries: the best by the model that are not much alike, and then
neighbours of the best of these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from vkernels.ir.plan import Plan

from .plan_fallback import BOTTOM

if TYPE_CHECKING:
    from vkernels.ir.planning.choose_plan import Chosen

WITHIN = 1.5
"""How many times the least modelled time a plan may take to be judged: what is further behind lacks more than loops."""
LOOKED_AT = 16
"""Plans with different loops of which those to judge are taken."""
COMPILED = 2
"""Plans that are compiled to judge one, at most: others take the place of those that do not fit or that spill."""
NEIGHBOURS = 2
"""Plans that are compiled at last, at most, which differ little from the best that were judged."""


def plans_to_judge(
    ranked: Iterable[Chosen], count: int, present: Chosen | None = None, of_use: Sequence[bool] = ()
) -> tuple[Chosen, ...]:
    """The next plans to judge until `count` are of use: all at first, and then others for those that are not.

    `ranked`: by modelled time. `present`: the plan that calls have, which is judged first. `of_use`: of those that were
    judged before, in that order, whether each can be taken.
    First come plans with sizes of their own, and at the last place one of another structure; then plans that differ
    otherwise. None where there is nothing to choose between: no model, or only the bottom rung.
    """
    found = list(_worth_a_look(ranked)) if count > 1 else []
    if present is not None and found:
        found = [present, *(each for each in found if _is_new(_of_one_program, each, [present]))]
    if len(found) < 2:
        return ()
    given: list[Chosen] = []
    while True:
        verdicts = list(zip(given, of_use, strict=False))
        kept = [chosen for chosen, useful in verdicts if useful]
        failed = [chosen for chosen, useful in verdicts if not useful]
        left = [chosen for chosen in found if chosen not in given]
        most = min(count, len(kept) + COMPILED * count - len(given))
        more = _most_different(left, kept, failed, most, count)
        given += more
        if not more or len(given) > len(of_use):
            return tuple(more)


def neighbours(
    ranked: Iterable[Chosen], near: Sequence[Plan], judged: Sequence[Plan], spilling: Sequence[Plan] = ()
) -> tuple[Chosen, ...]:
    """Plans that differ from one of `near` in stages alone, or else in warps, by modelled time: of each in turn.

    They were taken to have loops as good as its own, or left out for other sizes. How far loops load ahead also decides
    how many programs a multiprocessor has room for, and how long each waits. `judged`: what is not judged again.
    `spilling`: those of `near` whose loops spill. Plans with fewer elements a thread come first there.
    """
    seen = [*map(_of_one_program, judged)]
    left = [each for each in _little_behind(ranked) if _of_one_program(each.plan) not in seen]
    found: list[Chosen] = []
    while len(found) < NEIGHBOURS:
        some: list[Chosen] = []
        for plan in near:
            known = [*judged, *(each.plan for each in (*found, *some))]
            leaner = _leaner(left, plan, known) if plan in spilling else []
            beside = [each for each in left if _is_beside(each.plan, plan)]
            beside.sort(key=lambda each: each.plan.warps != plan.warps)
            some += (leaner or beside)[:1]
            left = [each for each in left if _is_new(_of_one_program, each, some)]
        if not some:
            break
        found += some
    return tuple(found[:NEIGHBOURS])


def _leaner(left: Iterable[Chosen], plan: Plan, known: Sequence[Plan]) -> list[Chosen]:
    """The plans whose threads have fewer elements than those of another plan: more warps, or smaller tiles or chunks,
    and no other structure. `known`: plans whose loops are not wanted again."""
    loops = [_loops_of(each) for each in known]
    return [each for each in left if _is_leaner(each.plan, plan) and _loops_of(each.plan) not in loops]


def _is_leaner(plan: Plan, other: Plan) -> bool:
    if _structure_of(plan) != _structure_of(other) or _sizes_of(plan) == _sizes_of(other):
        return False
    sizes, others = {**plan.tiles, **plan.chunks}, {**other.tiles, **other.chunks}
    return plan.warps >= other.warps and all(sizes[axis] <= size for axis, size in others.items())


def _is_beside(plan: Plan, other: Plan) -> bool:
    """Whether plans differ in stages and warps at most, as far as one program goes."""
    return replace(_of_one_program(plan), stages=other.stages, warps=other.warps) == _of_one_program(other)


def _most_different(
    left: Sequence[Chosen], kept: Sequence[Chosen], failed: Sequence[Chosen], most: int, count: int
) -> list[Chosen]:
    """Of the plans that are left those to judge beside the `kept` ones, until there are `most`, by modelled time."""
    together = list(kept)
    while len(together) < most:
        new = [each for each in left if _is_new(_loops_of, each, together)]
        sized = [each for each in new if _is_new(_sizes_of, each, together)]
        able = [each for each in sized if _may_fit(each, failed)]
        other = [each for each in able if _is_new(_structure_of, each, together)]
        if not new:
            break
        is_last = len(together) == count - 1
        together.append(((other if is_last else []) or able or sized or new)[0])
    return [each for each in left if each in together]


def _worth_a_look(ranked: Iterable[Chosen]) -> Iterator[Chosen]:
    """The first plans that take little longer than the best, as long as the model has something to say: none twice
    that differ only in which programs run and in which order."""
    loops, seen = list[Plan](), list[Plan]()
    for chosen in _little_behind(ranked):
        if (plan := _of_one_program(chosen.plan)) in seen:
            continue
        if (alike := _loops_of(chosen.plan)) not in loops:
            if len(loops) == LOOKED_AT:
                return
            loops.append(alike)
        seen.append(plan)
        yield chosen


def _little_behind(ranked: Iterable[Chosen]) -> Iterator[Chosen]:
    """The first plans that take little longer than the best."""
    least = None
    for chosen in ranked:
        least = chosen.seconds if least is None else least
        if chosen.rung == BOTTOM or not chosen.times.parts or chosen.seconds > WITHIN * least:
            return
        yield chosen


def _is_new(of: Callable[[Plan], object], chosen: Chosen, together: Iterable[Chosen]) -> bool:
    """Whether a plan differs from others in what counts."""
    return of(chosen.plan) not in [of(each.plan) for each in together]


def _may_fit(chosen: Chosen, failed: Iterable[Chosen]) -> bool:
    """Whether a plan takes less of something than each of those that cannot be taken, as foretold."""
    registers, shared = chosen.use.registers_a_thread, chosen.use.shared_bytes
    return all(registers < each.use.registers_a_thread or shared < each.use.shared_bytes for each in failed)


def _of_one_program(plan: Plan) -> Plan:
    """A plan without what only a CPU's code depends on, and without which programs run and in which order."""
    return replace(plan, order=(), swizzle=1, resident_programs=0, lanes=None)


def _loops_of(plan: Plan) -> Plan:
    """A plan without what hardly changes its loops, such as how far they load ahead."""
    return replace(_of_one_program(plan), stages=min(plan.stages, 2))


def _sizes_of(plan: Plan) -> object:
    """What decides most about loops: how much a program has at once, and how many warps share it."""
    return dict(plan.tiles), dict(plan.chunks), plan.warps


def _structure_of(plan: Plan) -> Plan:
    """A plan without sizes."""
    return replace(_of_one_program(plan), tiles={}, chunks={}, warps=1, stages=1)
