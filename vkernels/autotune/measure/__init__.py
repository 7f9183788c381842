"""Measuring that can be trusted: candidates compiled, compared with a reference and timed in processes of their own."""

from .bench import Bench, BenchOptions
from .measures import Candidate, Effort, Failed, FailureReason, Measurement, Measures, Outcome, WorkerLimits
from .measuring_worker import Children

__all__ = [
    "Bench",
    "BenchOptions",
    "Candidate",
    "Children",
    "Effort",
    "Failed",
    "FailureReason",
    "Measurement",
    "Measures",
    "Outcome",
    "WorkerLimits",
]
