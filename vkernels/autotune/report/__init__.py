"""What a tuning database says of each kernel, as figures to draw: docs/database.md."""

from .choices import choices_of
from .findings import Choice, Convergence, Findings, Slice, Subject, find

__all__ = ["Choice", "Convergence", "Findings", "Slice", "Subject", "choices_of", "find"]
