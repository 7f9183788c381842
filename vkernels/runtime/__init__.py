"""Calls of kernels: dispatch, arguments, launches, threads, events. It knows kernels by protocol only."""

from .determinism import get_deterministic, set_deterministic
from .events import LaunchEvent, Listener, Stats, on_launch, stats
from .threads import get_threads, set_threads

__all__ = [
    "LaunchEvent", "Listener", "Stats", "get_deterministic", "get_threads", "on_launch", "set_deterministic",
    "set_threads", "stats",
]  # fmt: skip
