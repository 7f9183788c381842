"""What a tuning database says of each kernel, as figures to draw: docs/database.md."""

from .choices import choices_of
from .findings import Convergence, DecisionWeight, ReportedKernel, ReportedSlice, TuningReport, find

__all__ = ["Convergence", "DecisionWeight", "ReportedKernel", "ReportedSlice", "TuningReport", "choices_of", "find"]
