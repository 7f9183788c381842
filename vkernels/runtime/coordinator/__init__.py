"""How calls share a device: priorities, contracts of latency, and tasks side by side or in turns."""

from .board import PriorityStats
from .cohost import CompanyStats, cohost_stats
from .contract_stats import ContractStats, contract_stats
from .filling_calls import FillingStats
from .gap_filling import filling_stats
from .gpu_company import gpu_company_stats
from .priority import get_priority, priority, priority_stats

__all__ = [
    "CompanyStats", "ContractStats", "FillingStats", "PriorityStats", "cohost_stats", "contract_stats", "filling_stats",
    "get_priority", "gpu_company_stats", "priority", "priority_stats",
]  # fmt: skip
