"""Ways to choose a schedule: the published ones, each in a file, and our own search."""

from __future__ import annotations

from .search import PUBLISHED, Strategy, search

__all__ = ["PUBLISHED", "Strategy", "search"]
