"""Whether calls are deterministic: a setting of this process, else torch's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from vkernels.ir.errors import OptionError
from vkernels.targets.deterministic import CORES

from .threads import get_threads

_modules = sys.modules
_never: Callable[[], bool] = bool
_always: Callable[[], bool] = partial(bool, 1)
_setting: bool | None = None


def set_deterministic(on: bool | None) -> None:
    """Let every call give the same bits in every run, or not; None: as torch's deterministic algorithms are set.

    Raises `OptionError` for anything else.
    """
    global enabled, _setting
    if on is not None and not isinstance(on, bool):
        raise OptionError(f"set_deterministic: expected True, False or None, got {on!r}")
    _setting = on
    enabled = _as_torch if on is None else _always if on else _never


def get_deterministic() -> bool:
    """Whether calls are deterministic.

    As set with `set_deterministic`, else whether `torch.use_deterministic_algorithms(True)` was called. Kernels with
    `@vk.kernel(deterministic=True)` are in any case.
    """
    return enabled()


@contextmanager
def using_deterministic(on: bool | None) -> Iterator[None]:
    """Set it within a `with`, in all threads."""
    before = _setting
    set_deterministic(on)
    try:
        yield
    finally:
        set_deterministic(before)


def threads_to_plan_for() -> int:
    """Threads that work on a CPU is divided for: those that calls use, or a fixed number for deterministic ones."""
    return CORES if enabled() else get_threads()


def _as_torch() -> bool:
    """Torch's setting, which this reads directly from the next call on, once torch is there."""
    global enabled
    torch: Any = _modules.get("torch")
    read = getattr(torch, "are_deterministic_algorithms_enabled", None)  # None too while torch is being imported
    if read is None:
        return False
    read = getattr(torch._C, "_get_deterministic_algorithms", read)  # what it calls: every call asks
    if enabled is _as_torch:
        enabled = read
    return bool(read())


enabled: Callable[[], bool] = _as_torch
"""Whether calls are deterministic; `determinism.enabled()` of every call. It is replaced by what answers soonest."""
