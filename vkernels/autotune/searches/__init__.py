"""Searches behind one interface: `ask` for a point, `tell` what it took. `SEARCHES` has them by name."""

from .forest import ForestSearch
from .search import ExhaustiveSearch, FailedPoint, GeneticSearch, LocalSearch, Outcome, RandomSearch, Search, Trial

SEARCHES: dict[str, type[Search]] = {
    "forest": ForestSearch,
    "local": LocalSearch,
    "genetic": GeneticSearch,
    "random": RandomSearch,
    "exhaustive": ExhaustiveSearch,
}
DEFAULT_SEARCH = "forest"

__all__ = ["DEFAULT_SEARCH", "SEARCHES", "FailedPoint", "Outcome", "Search", "Trial"]
