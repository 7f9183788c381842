"""Launches: whether what vkernels starts on a GPU runs as it should, one thing at a time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.runtime.gpu.launches import LAUNCHES
from tests.runtime.gpu.library_launches import LIBRARY

from .case import Case
from .gpu import Gpu


def cases(gpu: Gpu) -> list[Case]:
    return cases_of(LAUNCHES | LIBRARY, gpu)


def cases_of(checks: Mapping[str, Callable[[Any], None]], gpu: Gpu) -> list[Case]:
    """A case for each check of a GPU."""
    return [Case(name, lambda check=check: check(gpu)) for name, check in checks.items()]
