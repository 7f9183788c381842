"""What cases need of a GPU: one that is here (present.py), or one that is simulated (simulated.py)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch

Run = Callable[[], object]


class Gpu(ABC):
    """`records`: the file of what earlier parts found."""

    is_simulated = False

    def __init__(self, records: Path):
        self.records = records

    def machine(self) -> dict[str, Any]:
        """The device and the versions of everything between it and a kernel."""
        import platform

        import numpy as np
        import triton

        return {
            **self.device(), "python": platform.python_version(), "torch": torch.__version__,
            "triton": triton.__version__, "numpy": np.__version__,
        }  # fmt: skip

    @abstractmethod
    def device(self) -> dict[str, Any]:
        """Name, architecture, driver, sizes."""

    @abstractmethod
    def put(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy of a tensor of the CPU on the device, of the same strides where it is dense."""

    def plain(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor of the device as plain Triton kernels take it."""
        return tensor

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for all work."""

    @abstractmethod
    def works(self) -> bool:
        """Whether the device still runs kernels: one that broke its context leaves none that does."""

    @abstractmethod
    def release(self) -> None:
        """Give spare memory back, which other processes may need."""

    @abstractmethod
    def stream(self) -> AbstractContextManager[object]:
        """Within, work goes to a stream of its own, which waits for the work before; it is done at the end."""

    @abstractmethod
    def captured(self, run: Run) -> Run:
        """A graph of the work that a run starts, which does not run then, as a function that runs it."""

    @abstractmethod
    def microseconds(self, run: Run) -> float:
        """The device's time for one run, with cold caches."""
