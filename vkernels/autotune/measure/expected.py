"""Right results of a task, and whether a candidate's are as near to them as rounding explains."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import log2
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from vkernels.runtime.arrays import is_torch

if TYPE_CHECKING:
    import torch

Numbers = npt.NDArray[Any]

EPSILON = {
    "float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7, "float8_e4m3fn": 2.0**-3,
    "float8_e5m2": 2.0**-2,
}  # fmt: skip
"""Distance from 1 to the next number of a dtype."""
UNITS, UNITS_OF_A_TERM = 16, 4
"""Tolerated roundings of any computation, and more for each doubling of the number of terms."""
PEERS = 4
"""A candidate's error may be this multiple of that of another plan in the same dtypes."""
BLOCK = 1 << 15
"""Elements compared together, so that they and temporary results stay in a cache."""
BLOCK_THERE = 1 << 24
"""The same on a device of torch, which a few launches a block keep busy."""
FAR_OFF = {"float64": 1e-8, "float32": 1e-2}
"""Larger differences between float64 and the dtype, relative to the largest value, are no rounding. 0.2 for 16 bits."""


@dataclass(frozen=True)
class Expected:
    """The expected value of one output.

    `peer`: by another plan in the same dtypes; `exact`: in float64, if the kernel supports it; `dtype`: the output's;
    `slack`: tolerated difference from `exact`, beyond the rounding of the result.
    """

    name: str
    dtype: str
    peer: Numbers
    exact: Numbers | None
    slack: float
    _there: dict[str, tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict, compare=False, repr=False)

    @staticmethod
    def of(name: str, dtype: str, peer: Numbers, exact: Numbers | None, terms: int) -> Expected:
        """`terms`: maximal number of terms of a result."""
        if dtype not in EPSILON:
            return Expected(name, dtype, peer, None, 0.0)
        scale, apart = _largest(peer, peer if exact is None else exact)
        if exact is not None and apart > FAR_OFF.get(dtype, 0.2) * scale:  # rounding makes it jump, as a random mask
            exact, apart = None, 0.0
        units = UNITS + UNITS_OF_A_TERM * log2(max(2, terms))
        rounding = min(EPSILON[dtype], EPSILON["float32"]) * units * scale
        return Expected(name, dtype, peer, exact, (2 if exact is None else 1) * rounding + PEERS * apart)

    def is_surely_right(self, found: object) -> bool:
        """Whether an output is right, checked fast and where it is: a tensor of a GPU is not copied to the host.

        False also if that is uncertain: at the very ends of the tolerance, and for some outputs.
        """
        if isinstance(found, np.ndarray):
            return self._is_surely_right_here(found)
        return is_torch(found) and self._is_surely_right_there(found)

    def _is_surely_right_here(self, found: Numbers) -> bool:
        low, high = self._ends
        if found.shape != self.peer.shape or found.dtype != low.dtype or not found.flags.c_contiguous:
            return False
        flat, low, high = (each.reshape(-1) for each in (found, low, high))
        for start in range(0, flat.size, BLOCK):
            some = slice(start, start + BLOCK)
            if not ((flat[some] >= low[some]) & (flat[some] <= high[some])).all():
                return False
        return True

    def _is_surely_right_there(self, found: Any) -> bool:
        """The same for torch tensors, in blocks, so that little of the device's memory is taken."""
        import torch

        if tuple(found.shape) != self.peer.shape:
            return False
        try:
            low, high = self._there.get(str(found.device)) or self._ends_on(found.device)
            flat = found.reshape(-1)
            for start in range(0, flat.numel(), BLOCK_THERE):
                some = slice(start, start + BLOCK_THERE)
                block = flat[some].to(low.dtype)
                if not bool(((block >= low[some]) & (block <= high[some])).all()):
                    return False
        except torch.OutOfMemoryError:
            return False
        return True

    def _ends_on(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        low, high = (torch.from_numpy(np.require(each.reshape(-1), None, "W")).to(device) for each in self._ends)
        self._there[str(device)] = low, high
        return low, high

    @cached_property
    def _ends(self) -> tuple[Numbers, Numbers]:
        """The least and largest tolerated value of each element: in float32, unless the dtype is wider, which has all
        values of narrower ones; of integers and booleans the right value itself. Empty for a NaN."""
        if self.dtype not in EPSILON:
            return self.peer, self.peer
        held = np.dtype("float64" if self.dtype == "float64" else "float32")
        low, high = (np.empty(self.peer.shape, held) for _ in range(2))
        peer, exact = (None if each is None else each.reshape(-1) for each in (self.peer, self.exact))
        assert peer is not None, "there always is one"
        for start in range(0, peer.size, BLOCK):
            some = slice(start, start + BLOCK)
            expected = _expected(peer[some], None if exact is None else exact[some])
            low.reshape(-1)[some], high.reshape(-1)[some] = self._ends_of(expected, held)
        return low, high

    def _ends_of(self, expected: Numbers, held: np.dtype[Any]) -> tuple[Numbers, Numbers]:
        exact = ~np.isfinite(expected)
        with np.errstate(invalid="ignore", over="ignore"):
            reach = np.where(exact, 0.0, EPSILON[self.dtype] * np.abs(expected) + self.slack)
            low, high = (expected - reach).astype(held), (expected + reach).astype(held)
            inner = np.nextafter(low, held.type(np.inf)), np.nextafter(high, held.type(-np.inf))
        return np.where(exact, low, inner[0]), np.where(exact, high, inner[1])

    def difference(self, found: Numbers) -> str:
        """What is wrong with an output; empty if it is right."""
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
        expected = _expected(self.peer, self.exact)
        with np.errstate(invalid="ignore", over="ignore"):
            apart = np.abs(found - expected)
            near = apart <= EPSILON[self.dtype] * np.abs(expected) + self.slack
        same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        return np.asarray(~(same | (near & np.isfinite(expected))))


def _expected(peer: Numbers, exact: Numbers | None) -> Numbers:
    return peer if exact is None else np.where(np.isfinite(peer), exact, peer)


def _largest(peer: Numbers, expected: Numbers) -> tuple[float, float]:
    """The largest of the finite expected values, and the largest difference of a peer from them; in blocks, because
    temporary results of large outputs take longer to allocate than to compute."""
    scale = apart = 0.0
    flat, other = peer.reshape(-1), expected.reshape(-1)
    for start in range(0, flat.size, BLOCK):
        one, two = flat[start : start + BLOCK], other[start : start + BLOCK]
        finite = np.isfinite(one) & np.isfinite(two)
        scale = max(scale, float(np.max(np.abs(two[finite]), initial=0.0)))
        apart = max(apart, float(np.max(np.abs(one[finite] - two[finite]), initial=0.0)))
    return scale, apart
