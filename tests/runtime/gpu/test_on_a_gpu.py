"""Launches keep to torch's streams, devices, graphs and memory, and wait for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from vkernels.compiler.default_session import default_session, use_session

from .dot_launches import DOTS
from .launches import LAUNCHES
from .library_launches import LIBRARY


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """A GPU as a day's stages have it: their session, without gradients. Other tests have their own."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    from gpu_stages.present import PresentGpu

    with use_session(default_session()), torch.no_grad():
        yield PresentGpu(tmp_path / "none.jsonl")


@pytest.mark.parametrize("name", [*LAUNCHES, *LIBRARY, *DOTS])
def test_a_launch_does_as_it_must(name: str, gpu: Any) -> None:
    (LAUNCHES | LIBRARY | DOTS)[name](gpu)
