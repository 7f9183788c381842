"""`vk.profile`: measure profiles of calls. What measures is imported when it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vkernels.ir.errors import OptionError

if TYPE_CHECKING:
    from .profiling import Profiling


def profile(calls: int = 200, renew: bool = False) -> Profiling:
    """Measure how long calls of kernels on the CPU take, within a `with` block, and store their profiles.

    `with vk.profile() as profiling: …` observes the calls of all threads. A profile has the seconds of a call's median,
    quartiles and p99, and the gaps between the calls of a thread. It is of the calls with the same sizes, dtypes, plan
    and number of threads that ran while no other kernel of this process did. `calls`: after so many a profile is
    frozen. A stored profile of as many calls stays, unless `renew`. Profiles of fewer than 20 calls are dropped.
    `profiling.profiles` is a tuple of them. Where a tuning database is in use, they are
    stored there.

    Calls outside of the block have no overhead. Raises `OptionError` for a number of calls below 20.
    """
    from .profiling import LEAST_CALLS, MOST_CALLS, Profiling

    if type(calls) is not int or not LEAST_CALLS <= calls <= MOST_CALLS:
        raise OptionError(f"profile: calls: expected a whole number from {LEAST_CALLS} to {MOST_CALLS}, got {calls!r}")
    return Profiling(calls, bool(renew))
