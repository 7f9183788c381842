"""Dots by each kind of plan, of each dtype, and atomics."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.runtime.gpu.dot_launches import DOTS

from .case import Case
from .gpu import Gpu


def cases(gpu: Gpu) -> list[Case]:
    return [Case(name, lambda check=check: check(gpu)) for name, check in DOTS.items()]
