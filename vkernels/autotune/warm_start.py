"""Points to begin with, from what neighbouring devices and slices found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .searches.search import Outcome
from .space import Point, SearchSpace

COUNT = 16
"""Seeds, unless told otherwise: enough to cover some neighbours, few enough to leave a small budget to the search."""
WORTHWHILE = 1e-3
"""Of the best time on a neighbour, on average: a point that gains less covers nothing more."""


def best_of_neighbours(
    space: SearchSpace, neighbours: Sequence[Mapping[Point, Outcome]], count: int = COUNT
) -> list[Point]:
    """At most `count` points of `space` that were fast on neighbours, best first.

    `neighbours`: what each measured, seconds or a failure by point. A point's score on a neighbour is the best time
    there over its own; 0 where it failed or was not measured. First come those that together cover the neighbours, each
    the one that gains most over those before: the new device may be like any one of them. Then those whose mean score
    is highest.
    """
    points = [point for point in dict.fromkeys(point for told in neighbours for point in told) if point in space]
    if not points or count < 1:
        return []
    scores = np.array([_scores(points, told) for told in neighbours])
    means = scores.mean(0)
    chosen: list[int] = []
    covered = np.zeros(len(neighbours))
    while len(chosen) < count:
        gains = np.maximum(scores - covered[:, None], 0).mean(0)
        best = int(np.argmax(gains + WORTHWHILE * means))
        if gains[best] < WORTHWHILE:
            break
        chosen.append(best)
        covered = np.maximum(covered, scores[:, best])
    rest = [int(i) for i in np.argsort(-means, kind="stable") if i not in set(chosen) and means[i] > 0]
    return [points[i] for i in (chosen + rest)[:count]]


def _scores(points: Sequence[Point], told: Mapping[Point, Outcome]) -> list[float]:
    best = min((outcome for outcome in told.values() if isinstance(outcome, float)), default=0.0)
    outcomes = (told.get(point) for point in points)
    return [best / outcome if isinstance(outcome, float) else 0.0 for outcome in outcomes]
