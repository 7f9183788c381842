"""Measuring that can be trusted: candidates compiled, compared with a reference and timed in processes of their own."""

from .bench import Bench, Options
from .children import Children
from .effort import Bounds, Effort
from .measures import Measures
from .outcomes import Candidate, Constant, Failed, Measured, Outcome, Reason

__all__ = [
    "Bench",
    "Bounds",
    "Candidate",
    "Children",
    "Constant",
    "Effort",
    "Failed",
    "Measured",
    "Measures",
    "Options",
    "Outcome",
    "Reason",
]
