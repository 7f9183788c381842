"""Run what `torch.compile` has made as it was written: compiled code has other bits than the same code, when it is
watched, and needs other memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType
from typing import Any

import torch

FILE, CALLER = "torch/_dynamo/eval_frame.py", "compile_wrapper"
"""The file, and the function in it, that calls compiled code."""


def as_written() -> AbstractContextManager[Any]:
    """Let functions run as they were written, if any was ever given to `torch.compile`."""
    if not _compiles():
        return nullcontext()
    stance: AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
    return stance


@contextmanager
def noticing(found: Callable[[], None]) -> Iterator[None]:
    """Call `found` once, at the first call of compiled code. Slow, and not beside a profiler of Python."""
    if not _compiles() or sys.getprofile() is not None:
        yield
        return

    def on_event(frame: FrameType, event: str, arg: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_name == CALLER and code.co_filename.endswith(FILE):
            sys.setprofile(None)
            found()

    sys.setprofile(on_event)
    try:
        yield
    finally:
        sys.setprofile(None)


def _compiles() -> bool:
    frames = sys.modules.get("torch._dynamo.eval_frame")
    backends = getattr(frames, "cached_backends", {})
    return any(each is not None for each in backends.values())
