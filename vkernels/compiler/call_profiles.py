"""Profiles of calls: how long they take, and how soon their thread calls again. Kept by a store that the session holds.

This package knows no database: the store is what a program gives, as with tuned plans.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from vkernels.ir.fork_safe import fork_safe_lock
from vkernels.ir.plan import Plan
from vkernels.ir.plan_json import frozen
from vkernels.targets.present import present_cpu

from .arguments import Arguments, dense_strides
from .artifact_cache import hash_of

if TYPE_CHECKING:
    from .compilation import Compilation

MAX_PROFILES = 4096
"""Profiles that are kept in memory; all of them are dropped when there are more."""


@dataclass(frozen=True)
class CallKey:
    """Calls with equal keys, and the same plan, take equally long.

    `kernel`: its name; `kernel_hash`: SHA-256 of its IR as written, with its constants. `shape`: sizes by name;
    `dtypes`: `out=float32 x=float16`; `layouts`: strides in elements of tensors that are not row-major, `x=1,64`.
    `slice`: `cpu:cores=2`; `device`: the processor's name. `code`: SHA-256 of our code generator.
    """

    kernel: str
    kernel_hash: str
    shape: Mapping[str, int]
    dtypes: str
    layouts: str
    slice: str
    device: str
    code: str

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all fields."""
        return hashlib.sha256(json.dumps(astuple(self), sort_keys=True).encode()).hexdigest()

    def __str__(self) -> str:
        sizes = " ".join(f"{name}={size}" for name, size in self.shape.items())
        return " ".join(part for part in (self.kernel, sizes) if part)


@dataclass(frozen=True)
class CallProfile:
    """How long calls with one key take under one plan. Times are in seconds.

    `calls`: how many were measured. `shortest`, `longest`; `lower`, `p50`, `upper`: the quartiles; `p99`. `gap`: the
    median time from the end of a call to the begin of the next kernel call of the same thread, `short_gap`: the 10th
    percentile; None where no call followed. `beside`: names of the calls that ran at the same time; empty: alone.
    `when`: seconds since 1970. Of calls on a GPU, `gaps`: the samples, in ascending order; `parts`: in how many equal
    parts a call was started, each of which took so long.
    """

    key: CallKey
    plan: Plan
    calls: int
    shortest: float
    lower: float
    p50: float
    upper: float
    p99: float
    longest: float
    gap: float | None = None
    short_gap: float | None = None
    beside: tuple[str, ...] = ()
    when: float = 0.0
    gaps: tuple[float, ...] = ()
    parts: int = 1

    @property
    def identity(self) -> str:
        """SHA-256 of what was measured: a later profile of the same identity replaces it."""
        what = [self.key.digest, frozen(self.plan).decode(), list(self.beside), *([self.parts] * (self.parts > 1))]
        return hashlib.sha256(json.dumps(what).encode()).hexdigest()

    def __str__(self) -> str:
        gap = "" if self.gap is None else f", gap {1e6 * self.gap:.0f} µs"
        beside = f" beside {', '.join(self.beside)}" if self.beside else ""
        part = f", one of {self.parts} parts" if self.parts > 1 else ""
        return (
            f"{self.key}{part}{beside}: {1e6 * self.p50:.0f} µs ({1e6 * self.lower:.0f}–{1e6 * self.upper:.0f}), "
            f"p99 {1e6 * self.p99:.0f} µs{gap}, {self.calls} calls on {self.key.slice}"
        )


class ProfileStore(Protocol):
    """Keeps profiles, as a database does. Neither method raises, nor takes longer than seconds."""

    def profiles(self, key: CallKey) -> Iterable[CallProfile]:
        """All profiles of calls with this key."""
        ...

    def keep(self, profiles: Sequence[CallProfile]) -> None:
        """Store profiles. Each replaces one of the same identity."""
        ...


class CallProfiles:
    """The profiles of a session, in memory and in a `store`; without one they end with the process."""

    def __init__(self, store: ProfileStore | None = None):
        self.store = store
        self._found: dict[str, dict[str, CallProfile]] = {}
        self._lock = fork_safe_lock()

    def find(self, key: CallKey, plan: Plan, beside: Sequence[str] = (), parts: int = 1) -> CallProfile | None:
        """The profile of calls under a plan, alone or `beside` others, whole or in `parts`; None where there is
        none."""
        wanted = frozen(plan), tuple(sorted(beside)), parts
        return next((p for p in self._of(key).values() if (frozen(p.plan), p.beside, p.parts) == wanted), None)

    def keep(self, profiles: Sequence[CallProfile]) -> None:
        """Keep profiles, also in the store."""
        for each in profiles:
            found = self._of(each.key)
            with self._lock:
                found[each.identity] = each
        if self.store is not None and profiles:
            self.store.keep(profiles)

    def forget(self) -> None:
        """Drop what is in memory: another store may know others."""
        with self._lock:
            self._found.clear()

    def _of(self, key: CallKey) -> dict[str, CallProfile]:
        found = self._found.get(key.digest)
        if found is None:
            stored = [] if self.store is None else self.store.profiles(key)
            found = {each.identity: each for each in stored}
            with self._lock:
                if len(self._found) >= MAX_PROFILES:
                    self._found.clear()
                found = self._found.setdefault(key.digest, found)
        return found


def call_key(compilation: Compilation, arguments: Arguments, device: str | None = None) -> CallKey:
    """The key of a call on the device of this name, by default this machine's CPU."""
    request = compilation.request
    from xdsl.dialects.builtin import ModuleOp  # which programs with bundles do without

    from vkernels.ir.text import print_module

    text = print_module(ModuleOp([compilation.ir.kernel.clone()]))
    dtypes = arguments.dtypes
    return CallKey(
        request.kernel.name, hashlib.sha256(text.encode()).hexdigest(), dict(sorted(arguments.sizes.items())),
        " ".join(f"{name}={dtypes[name]}" for name in sorted(dtypes)), _layouts(arguments), request.target.slice,
        present_cpu().name if device is None else device, code_digest(),
    )  # fmt: skip


def code_digest() -> str:
    """SHA-256 of the code generator and the runtime, which decide how long calls take."""
    return hashlib.sha256("".join(map(hash_of, ("ir/**/*.py", "compiler/*.py", "runtime/*.py"))).encode()).hexdigest()


def _layouts(arguments: Arguments) -> str:
    found = []
    for name, view in sorted(arguments.tensors.items()):
        if view.strides != dense_strides(view.shape, range(len(view.shape))):
            found.append(f"{name}={','.join(map(str, view.strides))}")
    return " ".join(found)
