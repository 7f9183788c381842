"""What tests of programs under a limit share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from vkernels.memory.record import record

from .programs import Program, cnn, transformer


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """The same order of additions in every run."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def peaks(one_thread):
    """The most bytes live at once, by program."""
    return {make: record(Program(make).step).peak for make in (cnn, transformer)}
