"""Run training steps in less memory than they need: `vkernels.memory.limit(step, bytes)`."""

from __future__ import annotations

from .limit import limit
from .limited import Limited
from .report import Report

__all__ = ["Limited", "Report", "limit"]
