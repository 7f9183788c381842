"""Drawings: how searches went, and what each choice weighs. Narrow, so that their words can be read on a phone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil, log10

from vkernels.autotune.report import Choice, Convergence, Slice, Subject

from ..explain.html.markup import bar, label, line, svg, text

WIDE, LEFT, RIGHT, TOP, HIGH = 480.0, 44.0, 8.0, 8.0, 190.0
ROW = 24.0
COLOURS = 6
MOST_SLICES = 6
"""Lines in one drawing."""
MOST_POINTS = 400
"""Points of a line, at most."""
SLOWEST = 10.0
"""Times the best that a drawing reaches up to, at most."""
TICKS = (1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0)
MOST_CHOICES = 10


def convergence(subject: Subject) -> str:
    """Of each slice the longest run."""
    runs = [(each, max(each.convergence, key=lambda run: len(run.trials), default=None)) for each in subject.slices]
    shown = [(each, run, each.best.seconds) for each, run in runs if run and each.best and each.best.seconds]
    if not shown:
        return ""
    left_out = len(shown) - MOST_SLICES
    shown = shown[:MOST_SLICES]
    last = max(run.trials[-1][0] for _, run, _ in shown) or 1
    slowest = max([*_slowest(shown), 1.2])
    scale = _Scale(last, slowest)
    shapes = _axes(scale)
    for number, (_, run, best) in enumerate(shown):
        shapes += _run(scale, run, best, number)
    bottom = TOP + HIGH + 40
    for number, (each, _, _) in enumerate(shown):
        y = bottom + number * 18
        shapes += [bar(LEFT, y - 9, 14, 9, f"f{number % COLOURS}"), label(LEFT + 20, y, each.name)]
    if left_out > 0:
        shapes.append(label(LEFT, bottom + len(shown) * 18, f"and {left_out} more slices"))
    height = bottom + (len(shown) + (left_out > 0)) * 18
    return svg(WIDE, height, shapes, "The best time until each trial, as a multiple of the best in the end")


class _Scale:
    """Trials to the right, multiples of the best time upwards, logarithmically."""

    def __init__(self, last: int, slowest: float):
        self.last, self.slowest = last, slowest

    def x(self, trial: float) -> float:
        return LEFT + (WIDE - LEFT - RIGHT) * trial / self.last

    def y(self, times: float) -> float:
        part = log10(min(max(times, 1.0), self.slowest)) / log10(self.slowest)
        return TOP + HIGH * (1 - part)


def _slowest(shown: Sequence[tuple[Slice, Convergence, float]]) -> list[float]:
    """What the drawing must reach up to: where the lines begin."""
    return [min(SLOWEST, until / best) for _, run, best in shown for _, _, until in run.trials if until]


def _axes(scale: _Scale) -> list[str]:
    shapes = []
    for tick in TICKS:
        if tick <= scale.slowest:
            y = scale.y(tick)
            shapes += [line(LEFT, y, WIDE - RIGHT, y, "axis"), label(LEFT - 6, y + 4, f"×{tick:g}", anchor="end")]
    step = max(1, ceil(scale.last / 5))
    for trial in range(0, scale.last + 1, step):
        shapes.append(label(scale.x(trial), TOP + HIGH + 21, trial, anchor="middle"))
    return shapes


def _run(scale: _Scale, run: Convergence, best: float, number: int) -> list[str]:
    colour = number % COLOURS
    trials = run.trials[:: max(1, len(run.trials) // MOST_POINTS)]
    shapes = []
    for trial, seconds, _ in trials:
        x = scale.x(trial)
        if seconds is None:
            shapes.append(_cross(x, TOP + HIGH + 5))
        else:
            times = seconds / best
            if times <= scale.slowest:
                shapes.append(_dot(x, scale.y(times), colour, f"trial {trial}: ×{times:.2f}"))
    ways = [(scale.x(trial), scale.y(until / best)) for trial, _, until in trials if until is not None]
    steps = [f"M{ways[0][0]:.1f} {ways[0][1]:.1f}"] if ways else []
    steps += [f"H{x:.1f}V{y:.1f}" for _, (x, y) in pairwise(ways)]
    if ways:
        shapes.append(f'<path d="{"".join(steps)}" class="way s{colour}"/>')
    return shapes


def _dot(x: float, y: float, colour: int, title: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" class="tried f{colour}"><title>{text(title)}</title></circle>'


def _cross(x: float, y: float) -> str:
    return f'<path d="M{x - 2:.1f} {y - 2:.1f}l4 4m0 -4l-4 4" class="failed"/>'


def weights(choices: Sequence[Choice]) -> str:
    """A bar for each choice: from what its second best value costs, to what its worst does."""
    shown = choices[:MOST_CHOICES]
    top = log10(max(min(SLOWEST, max(choice.most for choice in shown)), 1.05))
    left, room = 150.0, WIDE - 150.0 - 92.0
    shapes = []
    for number, choice in enumerate(shown):
        y = number * ROW
        values = [*choice.factors.items()]
        length = room * min(1.0, log10(choice.most) / top)
        second = room * min(1.0, log10(values[1][1]) / top)
        said = ", ".join(f"{value} ×{factor:.2f}" for value, factor in values)
        shapes += [
            label(0, y + 15, choice.name, most=22),
            bar(left, y + 3, room, ROW - 8, "room"),
            bar(left, y + 3, length, ROW - 8, "home shared", said),
            bar(left, y + 3, second, ROW - 8, "need", said),
            label(left + room + 6, y + 15, f"×{values[1][1]:.2f}–{choice.most:.2f}"),
        ]
    return svg(WIDE, len(shown) * ROW + 4, shapes, "What each choice weighs: its second best value, and its worst")
