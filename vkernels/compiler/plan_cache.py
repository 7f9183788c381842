"""Plans whose code was found to fit, in memory and on disk: a later process neither chooses nor tries again.

An entry is a plan as JSON, under a key of all that its choice depends on. An entry that cannot be read is a miss.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from xdsl.dialects.builtin import ModuleOp

from vkernels.ir.dialect import KernelOp
from vkernels.ir.disk_cache import DiskCache
from vkernels.ir.errors import FileError
from vkernels.ir.limits import Limits
from vkernels.ir.pin import Pin
from vkernels.ir.plan import Plan
from vkernels.ir.plan_json import plan_from_json, plan_to_json
from vkernels.ir.text import print_module

from .log_once import LogOnce
from .source_fingerprint import hash_of

RUNGS = ("registers", "shared", "recompute", "memory", "launches", "bottom")
MAX_PLANS = 1024
"""Plans in memory; all of them are dropped when there are more."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CachedPlan:
    """A plan and its rung."""

    plan: Plan
    rung: str


def cache_key(
    kernel: KernelOp,
    sizes: Mapping[str, int],
    limits: Limits,
    strides: Mapping[str, Sequence[int]] | None,
    pin: Pin | None,
) -> str:
    """The key of a choice: a hash of all that it depends on."""
    text = print_module(ModuleOp([kernel.clone()]))
    parts = [
        hash_of("ir/**/*.py"), hash_of("compiler/*.py"), text, dict(sizes), asdict(limits),
        None if pin is None else asdict(pin),
        None if strides is None else {name: list(of) for name, of in strides.items()},
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


class PlanCache:
    """Plans by key, in memory and on `disk`, if there is one. May be used by several threads."""

    def __init__(self, disk: DiskCache | None, log_once: LogOnce):
        self._disk, self._log_once = disk, log_once
        self._plans: dict[str, CachedPlan] = {}

    def get(
        self, key: str, kernel: KernelOp | None = None, limits: Limits | None = None, pin: Pin | None = None
    ) -> CachedPlan | None:
        """The plan that was stored under a key.

        A plan on disk was chosen by this very code for these very limits, and its folder can only be written by this
        user: its needs and its time are not computed again, which would take longer than all the rest. Numbers that no
        choice gives, for the `kernel` within `limits`, are refused all the same, with a warning.
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
            warn_refused_plan(self._log_once, kernel.sym_name.data, f"entry {key[:12]} of the cache on disk", reason)
        return found if reason is None else None

    def put(self, key: str, plan: Plan, rung: str) -> None:
        """Store a plan whose code fits."""
        if len(self._plans) >= MAX_PLANS:
            self._plans.clear()
        self._plans[key] = CachedPlan(plan, rung)
        if self._disk is not None:
            self._disk.put(key, json.dumps({"plan": plan_to_json(plan), "rung": rung}).encode())

    def clear_memory(self) -> None:
        """Drop what is in memory; plans on disk stay."""
        self._plans.clear()


def warn_refused_plan(log_once: LogOnce, kernel: str, entry: str, reason: str) -> None:
    """Log once for each kernel and entry that a plan from a cache or database is not used."""
    log_once.warning(_log, (kernel, entry), "%s: the plan of %s is not used: %s", kernel, entry, reason)


def _read(data: bytes) -> CachedPlan | None:
    try:
        found = json.loads(data)
        if found["rung"] not in RUNGS:
            return None
        return CachedPlan(plan_from_json(found["plan"]), found["rung"])
    except (ValueError, TypeError, KeyError, RecursionError, FileError):  # not ours
        return None
