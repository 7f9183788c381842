"""How calls share a device: priorities, and contracts of latency."""

from .board import PriorityStats
from .contract_stats import ContractStats, contract_stats
from .priority import get_priority, priority, priority_stats

__all__ = ["ContractStats", "PriorityStats", "contract_stats", "get_priority", "priority", "priority_stats"]
