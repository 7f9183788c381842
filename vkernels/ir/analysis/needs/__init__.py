"""What each phase of a kernel needs, as expressions in what a plan decides; see docs/needs.md."""

from .device import NeedsDevice
from .needs import Needs
from .records import AxisNeed, Columns, Crossing, Dot, NeedsUse, PhaseNeeds, PhaseUse, Scratchpad

__all__ = [
    "AxisNeed", "Columns", "Crossing", "Dot", "Needs", "NeedsDevice", "NeedsUse", "PhaseNeeds", "PhaseUse",
    "Scratchpad",
]  # fmt: skip
