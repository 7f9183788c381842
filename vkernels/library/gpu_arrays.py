"""Arrays on GPUs in calls that are repeated: work there is done later, stream by stream, and may be captured.

What a repeated call makes, torch allocates on the current stream, so that its memory is used again in that stream's
order. What it keeps from an earlier call, other streams have made, and a thread of its own: while this thread warms up
a CUDA graph, as `torch.compile(mode="reduce-overhead")` does, what it makes belongs to the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def on_gpu(arrays: Iterable[Any]) -> bool:
    """Whether one of some torch tensors is on a GPU."""
    return any(array.device.type == "cuda" for array in arrays)


def is_captured() -> bool:
    """Whether work on the current stream is captured into a CUDA graph."""
    import torch

    return bool(torch.cuda.is_current_stream_capturing())


def made_to_keep(device: Any, make: Callable[[], T]) -> T:
    """What `make` returns: arrays that later calls, on any stream, only read. They are there when this returns.

    `device`: a torch device. While a graph is captured, `make` is captured too, and the graph owns the arrays.
    """
    if device.type != "cuda" or is_captured():
        return make()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_made_aside, device, make).result()


def _made_aside(device: Any, make: Callable[[], T]) -> T:
    """What `make` returns, made on a stream of its own."""
    import torch

    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    with torch.cuda.stream(stream):
        made = make()
    stream.synchronize()
    return made


def read_here(*arrays: Any) -> None:
    """Let no one else have the memory of arrays on a GPU before what the current stream runs now is done."""
    import torch

    for array in arrays:
        array.record_stream(torch.cuda.current_stream(array.device))
