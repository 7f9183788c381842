"""A plan that is far from what the device can do, and what to tell its author."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import SourceRange, at_place


@dataclass(frozen=True)
class SlowPlan:
    """A plan far from the roofline. `seconds` and `least` (the roofline): of a call.

    `reasons`: why, the heaviest first. `place`: in the line that costs most, where it is known.
    """

    seconds: float
    least: float
    reasons: tuple[str, ...]
    place: SourceRange | None = None

    @property
    def times(self) -> float:
        """How many times the roofline."""
        return self.seconds / self.least

    def message(self, kernel: str, target: str = "") -> str:
        """What to tell the author, with the line."""
        on = f" on {target}" if target else ""
        here = ", most of it in this line" if self.place is not None else ""
        return at_place(
            self.place,
            f"{kernel}{on}: a call is modelled to take {self.seconds:.3g} s, {self.times:.0f} times the least that the "
            f"device needs{here}. Why: {'; '.join(self.reasons)}",
            kind="warning",
        )
