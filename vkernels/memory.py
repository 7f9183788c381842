"""Training steps in less memory than they need: `vkernels.memory.limit(step, bytes)`; docs/memory-running.md."""

from __future__ import annotations

from vkernels.runtime.memory.limit import Limited, Report, limit

__all__ = ["Limited", "Report", "limit"]
