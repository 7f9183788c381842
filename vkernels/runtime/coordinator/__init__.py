"""How calls share a device: priorities."""

from .priority import get_priority, priority

__all__ = ["get_priority", "priority"]
