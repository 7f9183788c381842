"""Run training steps in less memory than they need: `vkernels.memory.limit(step, bytes)`."""

from __future__ import annotations

from .limit import Limited, Report, limit

__all__ = ["Limited", "Report", "limit"]
