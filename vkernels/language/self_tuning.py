"""Kernels that tune themselves at their first use."""

from __future__ import annotations

from dataclasses import dataclass

from vkernels.ir.errors import OptionError
from vkernels.ir.known_fields import KnownFields


@dataclass(frozen=True)
class Tuning(KnownFields):
    """How a kernel tunes itself at the first call with new sizes: `@vk.kernel(tune=vk.Tuning(budget=10.0))`.

    `budget`: seconds that the call may wait. `caches`: how plans are judged: `program`, `cold` or `warm`. The best plan
    is kept in the tuning database, so that later processes need not tune. Raises `OptionError` for impossible values.
    """

    budget: float = 10.0
    caches: str = "program"

    def __post_init__(self) -> None:
        if isinstance(self.budget, bool) or not isinstance(self.budget, int | float) or not 0 < self.budget < 1e9:
            raise OptionError(f"vk.Tuning: budget: expected seconds above 0, got {self.budget!r}")
        if self.caches not in ("program", "cold", "warm"):
            raise OptionError(f"vk.Tuning: caches: expected program, cold or warm, got {self.caches!r}")
