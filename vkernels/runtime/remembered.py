"""Plans whose code was found to fit, on disk: the next process neither chooses again nor tries what did not fit.

An entry is a plan as JSON, under a key of all that its choice depends on. What cannot be read counts as not there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache

from xdsl.dialects.builtin import ModuleOp

from vkernels.ir.dialect import KernelOp
from vkernels.ir.errors import FileError
from vkernels.ir.limits import Limits
from vkernels.ir.pin import Pin
from vkernels.ir.plan import Plan
from vkernels.ir.plan_json import plan_from_json, plan_to_json
from vkernels.ir.text import print_module

from .compile.cache import DiskCache
from .compile.own_code import hash_of

RUNGS = ("registers", "shared", "recompute", "memory", "launches", "bottom")
MOST_KNOWN = 1024
"""Plans that this process remembers besides; all of them are forgotten when there are more."""

_known: dict[str, Remembered] = {}


@dataclass(frozen=True)
class Remembered:
    """A plan and its rung."""

    plan: Plan
    rung: str


def question(
    kernel: KernelOp,
    sizes: Mapping[str, int],
    limits: Limits,
    strides: Mapping[str, Sequence[int]] | None,
    pin: Pin | None,
) -> str:
    """The key of a choice."""
    text = print_module(ModuleOp([kernel.clone()]))
    asked = [
        hash_of("ir/**/*.py"), hash_of("runtime/*.py"), text, dict(sizes), asdict(limits),
        None if pin is None else asdict(pin),
        None if strides is None else {name: list(of) for name, of in strides.items()},
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()


def recall(
    key: str, kernel: KernelOp | None = None, limits: Limits | None = None, pin: Pin | None = None
) -> Remembered | None:
    """The plan that was remembered under a key.

    One from disk was chosen by this very code for these very limits, and is in a folder that no one else may write, in
    an entry that is whole: its needs and its time are not worked out anew, which would take longer than all the rest.
    Numbers that no choice gives, for the `kernel` within `limits`, are refused all the same, with a warning.
    """
    if key in _known:
        return _known[key]
    cache = _cache()
    data = None if cache is None else cache.get(key)
    found = None if data is None else _read(data)
    if found is None or kernel is None or limits is None:
        return found
    from vkernels.ir.planning.bounds import beyond_bounds

    from .tuned import warn_of_refused

    reason = beyond_bounds(kernel, limits, found.plan, pin)
    if reason is not None:
        warn_of_refused(kernel.sym_name.data, f"entry {key[:12]} of the cache on disk", reason)
    return found if reason is None else None


def remember(key: str, plan: Plan, rung: str) -> None:
    """Remember that a plan's code fits."""
    if len(_known) >= MOST_KNOWN:
        _known.clear()
    _known[key] = Remembered(plan, rung)
    cache = _cache()
    if cache is not None:
        cache.put(key, json.dumps({"plan": plan_to_json(plan), "rung": rung}).encode())


def _read(data: bytes) -> Remembered | None:
    try:
        found = json.loads(data)
        if found["rung"] not in RUNGS:
            return None
        return Remembered(plan_from_json(found["plan"]), found["rung"])
    except (ValueError, TypeError, KeyError, RecursionError, FileError):  # not ours
        return None


@cache
def _cache() -> DiskCache | None:
    return DiskCache()
