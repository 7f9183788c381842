"""How many machines a farm keeps on: release idle ones while demand falls, wake others when they are short.

The rules are those of `nodes.RecentPeak` and `nodes.reactive`, by which idle machines are released in the end even if
demand does not fall. What releases and wakes is the user's: commands, run with the shell.
"""

from __future__ import annotations

import logging
import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from .nodes import Demand, RecentPeak, reactive

_log = logging.getLogger(__name__)

SLOT_SECONDS = 600.0
"""Seconds between two decisions to release."""
KEPT_SLOTS = 144
COMMAND_SECONDS = 600.0
"""Seconds after which a command is ended."""

Run = Callable[[str, Mapping[str, str]], object]


@dataclass(frozen=True)
class PowerSettings:
    """`wake`, `release`: commands; empty: none. `buffer`: machines beyond those at work. `most`: machines at most.

    `wake` is told how many machines more are wanted, in VKERNELS_FARM_COUNT; `release` the name of a machine that has
    left, in VKERNELS_FARM_HOST.
    """

    wake: str = ""
    release: str = ""
    buffer: int = 1
    most: int = 1000
    slot: float = SLOT_SECONDS


@dataclass
class Power:
    """Decides for one farm. `run`: runs a command with variables; by default in the background."""

    settings: PowerSettings
    clock: Callable[[], float] = time.monotonic
    run: Run = field(default_factory=lambda: run_command)
    _active: list[int] = field(default_factory=list)
    _peak: int = 0
    _next: float | None = None
    _woken: float = float("-inf")

    def decide(self, idle: Mapping[str, str], busy: int, waiting: int) -> list[str]:
        """Wake machines if they are short, and return the idle ones to release now.

        `idle`: host by node of machines on which nothing runs; only these are ever released, so no comparison is cut
        off. `busy`: the number of others; `waiting`: machines that what waits could use besides.
        """
        wanted = min(self.settings.most, busy + waiting)
        self._peak = max(self._peak, wanted)
        on, now = len(idle) + busy, self.clock()
        self._next = now + self.settings.slot if self._next is None else self._next
        if on < wanted and now - self._woken >= self.settings.slot:
            self._woken = now
            self._wake(self._target(on, [*self._active, self._peak]) - on)
        if now < self._next:
            return []
        self._active = [*self._active, self._peak][-KEPT_SLOTS:]
        self._next, self._peak = now + self.settings.slot, wanted
        spare = on - max(self._target(on, self._active), wanted)
        return sorted(idle)[: max(0, spare)] if self.settings.release else []

    def released(self, host: str) -> None:
        """A machine has left: run the user's command."""
        self.run(self.settings.release, {"VKERNELS_FARM_HOST": host})

    def _wake(self, count: int) -> None:
        if self.settings.wake and count > 0:
            self.run(self.settings.wake, {"VKERNELS_FARM_COUNT": str(count)})

    def _target(self, on: int, active: Sequence[int]) -> int:
        """Machines that the rule keeps on, at most `most`."""
        demand = Demand(np.arange(len(active)), np.array(active), np.full(len(active), self.settings.most))
        if len(active) < 3:
            return min(self.settings.most, max(on, active[-1] + self.settings.buffer))
        now, buffer = len(active) - 1, self.settings.buffer
        falling, flat = RecentPeak(demand, buffer), reactive(demand, buffer)
        return min(self.settings.most, falling.on(now, on), flat.on(now, on))


def run_command(command: str, variables: Mapping[str, str]) -> None:
    """Run a command with the shell, in the background; its failure is logged."""

    def wait() -> None:
        try:
            done = subprocess.run(
                command, shell=True, env={**os.environ, **variables}, timeout=COMMAND_SECONDS, stdin=subprocess.DEVNULL,
                capture_output=True, text=True,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            _log.warning("%s: %s", command, error)
            return
        if done.returncode:
            _log.warning("%s: exit code %d: %s", command, done.returncode, done.stderr[-400:])

    threading.Thread(target=wait, name="vkernels-farm-command", daemon=True).start()
