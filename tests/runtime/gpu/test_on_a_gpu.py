"""Launches keep to torch's streams, devices, graphs and memory, and wait for nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .dot_launches import DOTS
from .launches import LAUNCHES
from .library_launches import LIBRARY


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    from gpu_stages.present import PresentGpu

    return PresentGpu(tmp_path / "none.jsonl")


@pytest.mark.parametrize("name", [*LAUNCHES, *LIBRARY, *DOTS])
def test_a_launch_does_as_it_must(name: str, gpu: Any) -> None:
    (LAUNCHES | LIBRARY | DOTS)[name](gpu)
