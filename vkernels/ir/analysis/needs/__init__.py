"""What each phase of a kernel needs, as expressions in what a plan decides; see docs/needs.md."""

from .device import NeedsDevice
from .kinds import AxisNeed, Crossing, Dot, PhaseNeeds, Reduction, Scratchpad
from .needs import Needs
from .use import Columns, NeedsUse, PhaseUse

__all__ = [
    "AxisNeed",
    "Columns",
    "Crossing",
    "Dot",
    "Needs",
    "NeedsDevice",
    "NeedsUse",
    "PhaseNeeds",
    "PhaseUse",
    "Reduction",
    "Scratchpad",
]  # fmt: skip
