"""Arrays on GPUs in calls that are repeated: work there is done later, stream by stream, and may be captured.

What a repeated call makes, torch allocates on the current stream, so that its memory is used again in that stream's
order. What it keeps from an earlier call, other streams have made.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def on_gpu(arrays: Iterable[Any]) -> bool:
    """Whether one of some torch tensors is on a GPU."""
    return any(array.device.type == "cuda" for array in arrays)


def is_captured() -> bool:
    """Whether work on the current stream is captured into a CUDA graph."""
    import torch

    return bool(torch.cuda.is_current_stream_capturing())


def wait_for(arrays: Iterable[Any]) -> None:
    """Wait until the current stream has made what later calls, on any stream, only read."""
    import torch

    for device in {array.device for array in arrays if on_gpu([array])}:
        torch.cuda.current_stream(device).synchronize()


def read_here(*arrays: Any) -> None:
    """Let no one else have the memory of arrays on a GPU before what the current stream runs now is done."""
    import torch

    for array in arrays:
        array.record_stream(torch.cuda.current_stream(array.device))
