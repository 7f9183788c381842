"""Every point, in the order of the space."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..space import Point
from .search import Search


class ExhaustiveSearch(Search):
    """Goes through the space in its order, whatever its size; ends when it has come through."""

    _rest: Iterator[Point] | None = None

    def _propose(self, random: np.random.Generator) -> Point | None:
        if self._rest is None:
            self._rest = iter(self.space)
        return next(filter(self.is_new, self._rest), None)
