"""Log a message once, however often its cause is met."""

from __future__ import annotations

import logging
from collections.abc import Hashable

MAX_KEYS = 4096
"""Causes that are known; all of them are dropped when there are more."""


class LogOnce:
    """Logs one message for each key. Two threads that meet a cause at the same time may both log it."""

    def __init__(self) -> None:
        self._keys: set[Hashable] = set()

    def warning(self, log: logging.Logger, key: Hashable, message: str, *values: object) -> None:
        """Log a warning, unless one was logged for this key."""
        if self.is_first(key):
            log.warning(message, *values)

    def is_first(self, key: Hashable) -> bool:
        """Whether a cause is met for the first time."""
        if key in self._keys:
            return False
        if len(self._keys) >= MAX_KEYS:
            self._keys.clear()
        self._keys.add(key)
        return True

    def refused_plan(self, log: logging.Logger, kernel: str, entry: str, reason: str) -> None:
        """Log once for each kernel and entry that a plan from a cache or database is not used."""
        self.warning(log, (kernel, entry), "%s: the plan of %s is not used: %s", kernel, entry, reason)
