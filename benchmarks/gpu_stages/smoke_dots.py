"""Dots by each kind of plan, of each dtype, and atomics."""

from __future__ import annotations

from tests.runtime.gpu.dot_launches import DOTS

from .case import Case
from .gpu import Gpu
from .smoke import cases_of


def cases(gpu: Gpu) -> list[Case]:
    return cases_of(DOTS, gpu)
