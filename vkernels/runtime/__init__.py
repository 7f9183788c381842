"""Calls of kernels: dispatch, arguments, launches, threads, events. It knows kernels by protocol only."""

from .cohosted_calls import cohost
from .coordinator import get_priority, priority
from .determinism import get_deterministic, set_deterministic
from .events import LaunchEvent, Listener, Stats, on_launch, stats
from .profile_calls import profile
from .threads import get_threads, set_threads
from .vendor_ranges import profiler_ranges

__all__ = [
    "LaunchEvent", "Listener", "Stats", "cohost", "get_deterministic", "get_priority", "get_threads", "on_launch",
    "priority", "profile", "profiler_ranges", "set_deterministic", "set_threads", "stats",
]  # fmt: skip
