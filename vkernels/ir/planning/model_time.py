"""How long a kernel takes under a plan, as modelled: what keeps it longest, and what the rest adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..limits import Limits
from .launches import parts_of
from .setting import Numbers, Setting

OVERLAP = 0.3
"""Part of what is not the bottleneck that is not hidden behind it. As fitted: processors overlap most, never all."""


@dataclass(frozen=True)
class Times:
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

    def at(self, number: int) -> Times:
        """Those of one plan."""
        parts = {name: _at(value, number) for name, value in self.parts.items()}
        return Times(parts, _at(self.launches, number))

    @property
    def bottleneck(self) -> str:
        """What takes longest."""
        parts = {**self.parts, "launches": self.launches}
        return max(parts, key=lambda name: float(parts[name]))


def model_time(
    at: Setting, limits: Limits, registers: Numbers | tuple[Numbers, ...], shared: Numbers | tuple[Numbers, ...]
) -> Times:
    """The times of plans that take so many registers a thread and bytes of shared memory a program; of each launch,
    where a tuple gives them for each."""
    from .model_cpu import cpu_times
    from .model_gpu import gpu_times

    if at.launched:
        each = [
            model_time(part, limits, _of_launch(registers, number), _of_launch(shared, number))
            for number, part in enumerate(parts_of(at))
        ]
        return _in_turn(each)
    if limits.warp > 1:
        return gpu_times(at, limits, registers, shared)
    return cpu_times(at, limits, registers)


def _of_launch(numbers: Numbers | tuple[Numbers, ...], launch: int) -> Numbers:
    return numbers[launch] if isinstance(numbers, tuple) else numbers


def _in_turn(each: Sequence[Times]) -> Times:
    """Launches one after another: what takes long in one overlaps nothing in the next."""
    parts: dict[str, Numbers] = {}
    for times in each:
        for name, value in times.parts.items():
            parts[name] = parts.get(name, 0.0) + value
    launches = sum((times.launches for times in each), start=0.0)
    waited = sum((times.seconds for times in each), start=0.0) - Times(parts, launches).seconds
    return Times(parts, launches + np.maximum(0, waited))


def _at(value: Numbers, number: int) -> float:
    flat = np.asarray(value, dtype=float).reshape(-1)
    return float(flat[number] if flat.size > 1 else flat[0])
