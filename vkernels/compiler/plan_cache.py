"""Plans whose code was found to fit, in memory and on disk: a later process neither chooses nor tries again.

An entry is a plan as JSON, under a key of all that its choice depends on. An entry that cannot be read is a miss.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from msgspec import convert

from vkernels.ir.errors import FileError
from vkernels.ir.plan import Plan
from vkernels.ir.plan_json import plan_from_json, plan_to_json
from vkernels.ir.slow_plan import SlowPlan

if TYPE_CHECKING:
    from vkernels.ir.dialect import KernelOp
    from vkernels.ir.disk_cache import DiskCache
    from vkernels.ir.limits import Limits
    from vkernels.ir.pin import Pin

    from .log_once import LogOnce

RUNGS = ("registers", "shared", "recompute", "memory", "launches", "bottom")
MAX_PLANS = 1024
"""Plans in memory; all of them are dropped when there are more."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CachedPlan:
    """A plan and its rung. `slow`: how it is far from what the device can do, if it is."""

    plan: Plan
    rung: str
    slow: SlowPlan | None = None


class PlanCache:
    """Plans by key, in memory and on `disk`, if there is one. May be used by several threads."""

    def __init__(self, disk: DiskCache | None, log_once: LogOnce):
        self._disk, self._log_once = disk, log_once
        self._plans: dict[str, CachedPlan] = {}

    def get(
        self, key: str, kernel: KernelOp | None = None, limits: Limits | None = None, pin: Pin | None = None
    ) -> CachedPlan | None:
        """The plan that was stored under a key.

        A plan on disk was chosen by this code for these limits, and only this user can write its folder. So its needs
        and time are not computed again, which would take longer than all the rest. A plan with numbers that are never
        chosen, for the `kernel` within `limits`, is refused with a warning.
        """
        if key in self._plans:
            return self._plans[key]
        data = None if self._disk is None else self._disk.get(key)
        found = None if data is None else _read(data)
        if found is None or kernel is None or limits is None:
            return found
        from vkernels.ir.planning.bounds import beyond_bounds

        reason = beyond_bounds(kernel, limits, found.plan, pin)
        if reason is not None:
            self._log_once.refused_plan(
                _log, kernel.sym_name.data, f"entry {key[:12]} of the cache on disk", reason
            )  # fmt: skip
        return found if reason is None else None

    def is_known(self, key: str) -> bool:
        """Whether the plan of a key is in memory."""
        return key in self._plans

    def put(self, key: str, plan: Plan, rung: str, slow: SlowPlan | None = None) -> None:
        """Store a plan whose code fits."""
        if len(self._plans) >= MAX_PLANS:
            self._plans.clear()
        self._plans[key] = CachedPlan(plan, rung, slow)
        if self._disk is not None:
            more = {} if slow is None else {"slow": asdict(slow)}
            self._disk.put(key, json.dumps({"plan": plan_to_json(plan), "rung": rung, **more}).encode())


def _read(data: bytes) -> CachedPlan | None:
    try:
        found = json.loads(data)
        if found["rung"] not in RUNGS:
            return None
        slow = convert(found.get("slow"), SlowPlan | None)
        return CachedPlan(plan_from_json(found["plan"]), found["rung"], slow)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, FileError):  # not ours
        return None
