"""Measuring that can be trusted: candidates compiled, compared with a reference and timed in processes of their own."""

from .bench import Bench, BenchOptions
from .children import Children
from .effort import Effort, WorkerLimits
from .measures import Measures
from .outcomes import Candidate, Constant, Failed, FailureReason, Measurement, Outcome

__all__ = [
    "Bench",
    "BenchOptions",
    "Candidate",
    "Children",
    "Constant",
    "Effort",
    "Failed",
    "FailureReason",
    "Measurement",
    "Measures",
    "Outcome",
    "WorkerLimits",
]
