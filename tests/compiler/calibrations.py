"""Calibrations of other machines, which tests take for this machine's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from vkernels.compiler.backends.llvm import host_register_bytes
from vkernels.targets.cpu_rates import CpuRates, family_cpu_rates

from .rates import OTHER, SOME

CALIBRATIONS = (None, SOME, OTHER, family_cpu_rates())
"""None: this machine was not measured."""


@contextmanager
def calibrating(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[CpuRates | None], Any]]:
    """A function that lets this machine have been calibrated so, in what is compiled from then on."""

    def calibrate(rates: CpuRates | None) -> None:
        for module in ("vkernels.targets.present", "vkernels.targets.cpu_rates"):
            monkeypatch.setattr(f"{module}.known_cpu_rates", lambda cache=None: rates)
        host_register_bytes.cache_clear()

    yield calibrate
    monkeypatch.undo()
    host_register_bytes.cache_clear()
