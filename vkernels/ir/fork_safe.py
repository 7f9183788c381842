"""Locks that a forked child can take, though a thread of its parent may have held them."""

from __future__ import annotations

import os
import threading
from typing import Any
from weakref import WeakSet

_locks: WeakSet[Any] = WeakSet()


def fork_safe_lock(kind: Any = threading.Lock) -> Any:
    """A new lock, free in every forked child. `kind`: `threading.Lock` or `threading.RLock`."""
    lock = kind()
    _locks.add(lock)
    return lock


def _free_all() -> None:
    for lock in list(_locks):
        lock._at_fork_reinit()  # as `concurrent.futures` does


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_all)
