"""A lower bound on a program's time that is a sum over buffers, for branch and bound.

A launch takes its longest part and a share of the others; the longest part is at least any weighted mean of all. So
weights of each launch's memory, link and rest, and a price for each byte of footprint beyond the limit, give a bound.
The best weights and price are the dual values of the linear relaxation.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
from scipy.optimize import linprog

from vkernels.ir.cost_model.plan_batch import OVERLAP

from .costs import PlacementCost
from .program import LINK, MEMORY, PlacedLaunch

Floats = Any
"""An array of float64."""


def bound_of(
    launches: Sequence[PlacedLaunch], table: Sequence[Sequence[PlacementCost]], limit: float, seconds: float
) -> tuple[Floats, float]:
    """Return the bound's seconds for each placement of each buffer, and those that no placement changes.

    `table` has each buffer's placements, `limit` the bytes that they have to fit in, `seconds` the scale of the time.
    """
    widest = max((len(row) for row in table), default=1)
    alone, footprints = np.full((len(table), widest), inf), np.zeros((len(table), widest))
    memory, link = np.zeros((2, len(table), widest, len(launches)))
    for buffer, row in enumerate(table):
        for number, cost in enumerate(row):
            alone[buffer, number], footprints[buffer, number] = cost.alone, cost.footprint
            memory[buffer, number], link[buffer, number] = cost.memory, cost.link
    own = np.array([_parts_of(each) for each in launches]).reshape(len(launches), 3)
    capacity = min(limit, float(footprints.max(axis=1).sum()))
    exists, unit = np.isfinite(alone), max(seconds, 1e-12)
    # Variables: the share of each placement, then the longest part of each launch. Scaled: solvers' tolerances are
    # absolute.
    shares = (alone + OVERLAP * (memory + link).sum(axis=2))[exists] / unit
    parts = np.hstack([np.vstack([memory[exists].T, link[exists].T]) / unit, -np.tile(np.eye(len(launches)), (2, 1))])
    room = np.append(footprints[exists], np.zeros(len(launches))) / max(1.0, capacity)
    one_each = np.arange(len(table))[:, None] == np.nonzero(exists)[0]
    solved = linprog(
        np.append(shares, np.full(len(launches), 1 - OVERLAP)),
        np.vstack([parts, room]), np.append(-own[:, :2].T.ravel() / unit, capacity / max(1.0, capacity)),
        np.hstack([one_each, np.zeros((len(table), len(launches)))]), np.ones(len(table)),
        [(0, None)] * len(shares) + [(rest / unit, None) for rest in own[:, 2]],
    )  # fmt: skip
    weights, price = np.full(own.shape, 1 / 3), 0.0
    if solved.status == 0:
        duals = np.maximum(0, -solved.ineqlin.marginals)
        weights[:, :2] = duals[:-1].reshape(2, -1).T / (1 - OVERLAP)
        weights[:, :2] /= np.maximum(1, weights[:, :2].sum(axis=1, keepdims=True))
        weights[:, 2] = 1 - weights[:, :2].sum(axis=1)
        price = float(duals[-1]) * unit / max(1.0, capacity)
    scale = (1 - OVERLAP) * weights + OVERLAP
    rows = alone + price * footprints + memory @ scale[:, 0] + link @ scale[:, 1]
    fixed = sum(each.launch + OVERLAP * sum(each.parts.values()) for each in launches)
    return rows, fixed + (1 - OVERLAP) * float((weights * own).sum()) - price * capacity


def _parts_of(launch: PlacedLaunch) -> tuple[float, float, float]:
    """Seconds of memory, of the link, and of the longest of the rest, without buffers."""
    rest = max((value for name, value in launch.parts.items() if name not in (MEMORY, LINK)), default=0.0)
    return launch.parts.get(MEMORY, 0.0), launch.parts.get(LINK, 0.0), rest
