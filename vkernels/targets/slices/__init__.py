"""Slices: parts of a device, as targets of their own; docs/slices.md."""

from .present import cpu_slice_limits, planned_limits, present_slice, present_slices
from .slice_of import slice_of, split_names, target_or_slice

__all__ = [
    "cpu_slice_limits", "planned_limits", "present_slice", "present_slices", "slice_of", "split_names",
    "target_or_slice",
]  # fmt: skip
