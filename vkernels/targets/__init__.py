"""Devices: those of the project's own table, those of a file of one's own, and those of this machine."""

from __future__ import annotations

from .limits import limits_of
from .own import load_targets
from .present import present_targets
from .table import known_targets, target_named
from .target import CpuSizes, GreenContexts, PeakRates, Slice, Target

__all__ = [
    "CpuSizes",
    "GreenContexts",
    "PeakRates",
    "Slice",
    "Target",
    "known_targets",
    "limits_of",
    "load_targets",
    "present_targets",
    "target_named",
]
