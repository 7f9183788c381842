"""Calls of kernels: dispatch, arguments, launches, threads, events. It knows kernels by protocol only."""

from .events import LaunchEvent, Listener, Stats, on_launch, stats
from .threads import get_threads, set_threads

__all__ = ["LaunchEvent", "Listener", "Stats", "get_threads", "on_launch", "set_threads", "stats"]
