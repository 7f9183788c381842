"""Whether what a candidate computed is right: up to rounding of the dtypes that it was computed and stored in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log2
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[Any]

EPSILON = {
    "float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7, "float8_e4m3fn": 2.0**-3,
    "float8_e5m2": 2.0**-2,
}  # fmt: skip
"""Distance from 1 to the next number of a dtype."""
UNITS, UNITS_OF_A_TERM = 16, 4
"""Roundings that any computation may have, and more of them for each time that the number of terms doubles."""
PEERS = 4
"""A candidate may err so many times as much as another plan in the same dtypes does."""
BLOCK = 1 << 15
"""Elements compared together: they and what comes of them stay in a cache."""
FAR_OFF = {"float64": 1e-8, "float32": 1e-2}
"""Of the largest value: what differs by more, in float64 and as computed, is no rounding. Of 16 bits it is 0.2."""


@dataclass(frozen=True)
class Expected:
    """One output. `peer`: by another plan in the same dtypes; `exact`: in float64, where that can be computed;
    `dtype`: the output's; `slack`: how far from `exact`, beyond the rounding of the result, an element may be."""

    name: str
    dtype: str
    peer: Numbers
    exact: Numbers | None
    slack: float

    @staticmethod
    def of(name: str, dtype: str, peer: Numbers, exact: Numbers | None, terms: int) -> Expected:
        """`terms`: how many numbers a result may be made of, at most."""
        if dtype not in EPSILON:
            return Expected(name, dtype, peer, None, 0.0)
        expected = peer if exact is None else exact
        finite = np.isfinite(peer) & np.isfinite(expected)
        scale = float(np.max(np.abs(expected[finite]), initial=0.0))
        apart = float(np.max(np.abs(peer[finite] - expected[finite]), initial=0.0))
        if exact is not None and apart > FAR_OFF.get(dtype, 0.2) * scale:  # what jumps with rounding, a random mask
            exact, apart = None, 0.0
        units = UNITS + UNITS_OF_A_TERM * log2(max(2, terms))
        rounding = min(EPSILON[dtype], EPSILON["float32"]) * units * scale
        return Expected(name, dtype, peer, exact, (2 if exact is None else 1) * rounding + PEERS * apart)

    def is_surely_right(self, found: object) -> bool:
        """Whether an output is right, told fast, without temporary arrays as large as it: as `difference`, but for
        elements at the very ends of what they may be, and for some outputs nothing can be told."""
        if self._ends is None or not isinstance(found, np.ndarray) or found.shape != self.peer.shape:
            return False
        low, high = self._ends
        if found.dtype != low.dtype or not found.flags.c_contiguous:
            return False
        flat = found.reshape(-1)
        for start in range(0, flat.size, BLOCK):
            some = slice(start, start + BLOCK)
            if not ((flat[some] >= low[some]) & (flat[some] <= high[some])).all():
                return False
        return True

    @cached_property
    def _ends(self) -> tuple[Numbers, Numbers] | None:
        """The least and the largest that each element may be, within what `difference` takes; None where the dtype is
        not NumPy's own. Nothing lies between those of a NaN."""
        if self.dtype not in ("float32", "float64"):
            return None
        held = np.dtype(self.dtype)
        expected = self._expected().reshape(-1)
        with np.errstate(invalid="ignore", over="ignore"):
            reach = np.where(np.isfinite(expected), EPSILON[self.dtype] * np.abs(expected) + self.slack, 0.0)
            low, high = (expected - reach).astype(held), (expected + reach).astype(held)
            inner = np.nextafter(low, held.type(np.inf)), np.nextafter(high, held.type(-np.inf))
        exact = ~np.isfinite(expected)
        return np.where(exact, low, inner[0]), np.where(exact, high, inner[1])

    def _expected(self) -> Numbers:
        return self.peer if self.exact is None else np.where(np.isfinite(self.peer), self.exact, self.peer)

    def difference(self, found: Numbers) -> str:
        """What is wrong about an output; empty where nothing is."""
        if found.shape != self.peer.shape:
            return f"{self.name} has shape {found.shape}, expected {self.peer.shape}"
        wrong = self._wrong(found)
        count = int(np.count_nonzero(wrong))
        if not count:
            return ""
        first = tuple(int(number) for number in np.argwhere(wrong)[0])
        expected = (self.peer if self.exact is None else self.exact)[first]
        place = ", ".join(map(str, first))
        digits = 17 if self.dtype == "float64" else 9
        return (
            f"{self.name}: {count} of {wrong.size} elements are wrong; the first, [{place}], is "
            f"{found[first]:.{digits}g}, expected {expected:.{digits}g}"
        )

    def _wrong(self, found: Numbers) -> npt.NDArray[np.bool_]:
        if self.dtype not in EPSILON:
            return np.asarray(found != self.peer)
        expected = self._expected()
        with np.errstate(invalid="ignore", over="ignore"):
            apart = np.abs(found - expected)
            near = apart <= EPSILON[self.dtype] * np.abs(expected) + self.slack
        same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        return np.asarray(~(same | (near & np.isfinite(expected))))
