"""How calls share a device: priorities."""

from .board import PriorityStats
from .priority import get_priority, priority, priority_stats

__all__ = ["PriorityStats", "get_priority", "priority", "priority_stats"]
