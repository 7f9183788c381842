"""How a baseline did beside our inference. Importing it needs no torch, unlike the baselines themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .timing import Spread, ratio


@dataclass(frozen=True)
class BaselineResult:
    """A baseline's seconds, how many times faster ours was in the same rounds, and whether its survivors are right."""

    seconds: Spread
    ratio: Spread
    matches: bool

    @staticmethod
    def of(theirs: Sequence[float], ours: Sequence[float], matches: bool) -> BaselineResult:
        return BaselineResult(Spread.of(theirs), ratio(theirs, ours), matches)
