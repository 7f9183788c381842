"""Measuring that can be trusted: candidates compiled, compared with a reference and timed in processes of their own."""

from .bench import Bench, BenchOptions
from .measures import (
    BySetting,
    Candidate,
    Effort,
    Failed,
    FailureReason,
    Measurement,
    Measures,
    Outcome,
    OutOfTimeError,
    Setting,
    WorkerLimits,
)
from .measuring_worker import Children

__all__ = [
    "Bench",
    "BenchOptions",
    "BySetting",
    "Candidate",
    "Children",
    "Effort",
    "Failed",
    "FailureReason",
    "Measurement",
    "Measures",
    "OutOfTimeError",
    "Outcome",
    "Setting",
    "WorkerLimits",
]
