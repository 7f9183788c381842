"""What each phase of a kernel needs, as expressions in what a plan decides; see docs/needs.md."""

from .device import Device
from .kinds import AxisNeed, Crossing, Dot, PhaseNeeds, Reduction, Scratchpad
from .needs import Needs, annotate_needs
from .use import Columns, PhaseUse, Use

__all__ = [
    "AxisNeed", "Columns", "Crossing", "Device", "Dot", "Needs", "PhaseNeeds", "PhaseUse", "Reduction", "Scratchpad",
    "Use", "annotate_needs",
]  # fmt: skip
