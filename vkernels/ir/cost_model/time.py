"""A modelled time: what keeps a kernel longest, and what the rest adds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .plan_batch import Numbers

OVERLAP = 0.3
"""Part of what is not the bottleneck that is not hidden behind it. As fitted: processors overlap most, never all."""


@dataclass(frozen=True)
class ModeledTimes:
    """Seconds by what takes them; numbers, or arrays with one for each plan. `launches` come on top of the rest."""

    parts: Mapping[str, Numbers]
    launches: Numbers

    @property
    def seconds(self) -> Numbers:
        """The longest part, a share of the others, and the launches."""
        values = list(self.parts.values())
        longest: Numbers = 0.0
        for value in values:
            longest = np.maximum(longest, value)
        return longest + OVERLAP * (sum(values) - longest) + self.launches

    def at(self, number: int) -> ModeledTimes:
        """Those of one plan."""
        parts = {name: _at(value, number) for name, value in self.parts.items()}
        return ModeledTimes(parts, _at(self.launches, number))

    @property
    def bottleneck(self) -> str:
        """What takes longest."""
        parts = {**self.parts, "launches": self.launches}
        return max(parts, key=lambda name: float(parts[name]))


def _at(value: Numbers, number: int) -> float:
    flat = np.asarray(value, dtype=float).reshape(-1)
    return float(flat[number] if flat.size > 1 else flat[0])
