"""The first GPU of this machine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from vkernels.compiler.default_session import set_default_session
from vkernels.compiler.session import CompilerSession
from vkernels.ir.disk_cache import DiskCache
from vkernels.runtime.gpu.device import gpu_device

from .gpu import Gpu, Run

PATIENCE = 600.0
FLUSHED = 2
"""Times the size of the L2 cache that is written before each timed run."""
ASLEEP = 1_000_000
"""Cycles, about half a millisecond, that the device then waits, so that the host has started the run before."""


class PresentGpu(Gpu):
    """`judge`: plans that are compiled for a call to choose one by its binaries."""

    def __init__(self, records: Path, judge: int = 1):
        super().__init__(records)
        os.environ["XDG_DATA_HOME"] = os.devnull  # no plans that this user has tuned
        set_default_session(CompilerSession(disk=DiskCache(), patience=PATIENCE, judge=judge))
        torch.set_grad_enabled(False)
        torch.manual_seed(0)
        self._cache: torch.Tensor | None = None

    def device(self) -> dict[str, Any]:
        found, properties = gpu_device("cuda:0"), torch.cuda.get_device_properties(0)
        return {
            "device": properties.name, "architecture": found.architecture, "memory": properties.total_memory,
            "multiprocessors": properties.multi_processor_count, "like": found.target.like, "driver": driver_version(),
            "runtime": torch.version.cuda or torch.version.hip, "limits": asdict(found.limits),
        }  # fmt: skip

    def put(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to("cuda")

    def synchronize(self) -> None:
        torch.cuda.synchronize()

    def works(self) -> bool:
        try:
            torch.cuda.synchronize()
        except Exception:
            return False
        return True

    def release(self) -> None:
        torch.cuda.empty_cache()

    @contextmanager
    def stream(self) -> Iterator[None]:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            yield
        stream.synchronize()

    def captured(self, run: Run) -> Run:
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()
        return graph.replay

    def microseconds(self, run: Run) -> float:
        """A wait after the flush keeps the device busy while the host starts the run."""
        if self._cache is None:
            size = torch.cuda.get_device_properties(0).L2_cache_size
            self._cache = torch.empty(FLUSHED * max(size, 1 << 25), dtype=torch.uint8, device="cuda")
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._cache.zero_()
        torch.cuda._sleep(ASLEEP)
        start.record()
        run()
        stop.record()
        stop.synchronize()
        return 1e3 * start.elapsed_time(stop)


def driver_version() -> str:
    """NVIDIA's driver's, as its tool says it; empty without the tool."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip().partition("\n")[0] if done.returncode == 0 else ""
