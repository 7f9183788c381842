"""Watching torch's operations: which storages each reads, writes and makes, how long it takes, when storages die."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from .calls import OpCall
from .recorded import Iteration, Made, RecordedOp, Storage, Watched


class Watch(TorchDispatchMode):
    """Notes every operation while it is entered; `end_iteration` begins the next iteration."""

    def __init__(self) -> None:
        super().__init__()
        self._iterations = [Iteration()]
        self._storages: list[Storage] = []
        self._numbers: dict[int, int] = {}
        """Of storages that live, by their address in torch; the references keep addresses from being used again."""
        self._references: dict[int, StorageWeakRef] = {}
        self._times: list[tuple[RecordedOp, Callable[[], float]]] = []
        self._outside = 0.0
        """What the program itself has taken since the last operation."""
        self._left = 0.0

    def __enter__(self) -> Any:
        self._left = time.perf_counter()
        return super().__enter__()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._outside += time.perf_counter() - self._left
        self._bury()
        call = OpCall(func, args, kwargs or {})
        for key, storage in call.given.items():
            self._known(key, storage)
        clock = _CudaClock() if any(storage.is_cuda for storage in call.given.values()) else _Clock()
        out = func(*args, **(kwargs or {}))
        clock.stop()
        call.end(out)
        if call.is_view:
            self._outside += clock.seconds() if isinstance(clock, _Clock) else 0.0
        else:
            self._note(call, clock.seconds)
            self._outside = 0.0
        self._left = time.perf_counter()
        return out

    def end_iteration(self) -> None:
        """What comes is of the next iteration."""
        now = time.perf_counter()
        self._iterations[-1].outside = self._outside + now - self._left
        self._bury()
        self._iterations.append(Iteration())
        self._outside, self._left = 0.0, time.perf_counter()

    @property
    def watched(self) -> Watched:
        """All of the iterations that have ended."""
        for step, seconds in self._times:
            step.seconds = seconds()
        self._times.clear()
        return Watched(self._iterations[:-1], self._storages)

    @property
    def alive(self) -> dict[int, StorageWeakRef]:
        """References to the storages that lived at last sight, by their index in `watched`."""
        return {self._numbers[key]: reference for key, reference in self._references.items()}

    def _note(self, call: OpCall, seconds: Callable[[], float]) -> None:
        steps = self._iterations[-1].operations
        for ordinal, (key, made) in enumerate(call.made.items()):
            self._known(key, made, Made(len(self._iterations) - 1, len(steps), ordinal))
        for key, given in call.given.items():  # resized
            storage = self._storages[self._numbers[key]]
            storage.size = max(storage.size, given.nbytes())
        reads = tuple(self._numbers[key] for key in call.reads)
        writes = tuple(self._numbers[key] for key in call.writes)
        steps.append(RecordedOp(call.name, 0.0, reads, writes, self._outside))
        self._times.append((steps[-1], seconds))

    def _known(self, key: int, storage: torch.UntypedStorage, made: Made | None = None) -> None:
        if key not in self._numbers:
            self._numbers[key] = len(self._storages)
            self._references[key] = StorageWeakRef(storage)
            self._storages.append(Storage(storage.nbytes(), made, kind=storage.device.type))

    def _bury(self) -> None:
        """Notes which storages are no more."""
        now = len(self._iterations) - 1, len(self._iterations[-1].operations)
        for key in [key for key, reference in self._references.items() if reference.expired()]:
            self._storages[self._numbers.pop(key)].freed = now
            del self._references[key]


class _Clock:
    """Times what the calling thread does."""

    def __init__(self) -> None:
        self._begun = time.perf_counter()
        self._took = 0.0

    def stop(self) -> None:
        self._took = time.perf_counter() - self._begun

    def seconds(self) -> float:
        return self._took


class _CudaClock:
    """Times what the current stream does; `seconds` waits for it."""

    def __init__(self) -> None:
        self._events = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        self._events[0].record()

    def stop(self) -> None:
        self._events[1].record()

    def seconds(self) -> float:
        self._events[1].synchronize()
        return float(self._events[0].elapsed_time(self._events[1])) / 1e3
