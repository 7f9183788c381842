"""Points at random."""

from __future__ import annotations

import numpy as np

from ..space import Point
from .search import Search


class RandomSearch(Search):
    """Every point that is new is as likely as any other."""

    def _propose(self, random: np.random.Generator) -> Point | None:
        return None
