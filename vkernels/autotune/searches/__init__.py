"""Searches behind one interface: `ask` for a point, `tell` what it took. `SEARCHES` has them by name."""

from .exhaustive import ExhaustiveSearch
from .forest import ForestSearch
from .genetic import GeneticSearch
from .local import LocalSearch
from .random import RandomSearch
from .search import FailedPoint, Outcome, Search, Trial

SEARCHES: dict[str, type[Search]] = {
    "forest": ForestSearch,
    "local": LocalSearch,
    "genetic": GeneticSearch,
    "random": RandomSearch,
    "exhaustive": ExhaustiveSearch,
}
"""By the name that a user chooses one by."""
DEFAULT_SEARCH = "forest"

__all__ = ["DEFAULT_SEARCH", "SEARCHES", "FailedPoint", "Outcome", "Search", "Trial"]
