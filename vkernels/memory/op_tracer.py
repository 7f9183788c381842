"""Trace torch's operations: which storages each reads, writes and makes, how long it takes, when storages are freed."""

from __future__ import annotations

import gc
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from .op_storages import OpCall, kind_of
from .source_lines import SourceLines
from .tiers import storage_of

UNWRITTEN = ("empty", "new_empty")
"""Prefixes of operations that return uninitialised tensors."""


class Made(NamedTuple):
    """The operation of an iteration that made a storage, and the storage's number among those it made."""

    iteration: int
    operation: int
    ordinal: int


@dataclass
class Storage:
    """A piece of memory. `made`: None if it existed before. `freed`: the iteration and the operation in it before which
    it was freed; None while it lives. `kind`: torch's type of its device. `name`: the program's own, if known."""

    size: int
    made: Made | None
    freed: tuple[int, int] | None = None
    kind: str = "cpu"
    name: str = ""


@dataclass
class RecordedOp:
    """One operation; `reads` and `writes` are indices of storages. `outside`: seconds of the program between the
    previous operation and this one. `source`: the line of the program."""

    name: str
    seconds: float
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    outside: float = 0.0
    source: str = ""


@dataclass
class Iteration:
    """Operations in the order in which they ran. `outside`: seconds of the program after the last."""

    operations: list[RecordedOp] = field(default_factory=list)
    outside: float = 0.0


@dataclass
class Watched:
    """Iterations in order, and all storages that they used."""

    iterations: list[Iteration]
    storages: list[Storage]


class OpTracer(TorchDispatchMode):
    """Records every operation while it is entered; `end_iteration` begins the next iteration.

    `sources`: finds the line of the program of each operation. `has_hooks`: whether all operations allow autograd's
    hooks on saved tensors, which torch's function transforms (`torch.func`) forbid.
    """

    def __init__(self, sources: SourceLines | None = None) -> None:
        super().__init__()
        self._sources = sources
        self.has_hooks = True
        self._iterations = [Iteration()]
        self._storages: list[Storage] = []
        self._numbers: dict[int, int] = {}
        """Live storages by their address in torch; the references keep addresses from being reused."""
        self._references: dict[int, StorageWeakRef] = {}
        self._writes: Counter[int] = Counter()
        """Operations that wrote a storage, by its number."""
        self._times: list[tuple[RecordedOp, Callable[[], float]]] = []
        self._outside = self._left = 0.0
        """Seconds of the program since the last operation, until it was last left."""

    def __enter__(self) -> Any:
        self._left = time.perf_counter()
        return super().__enter__()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._outside += time.perf_counter() - self._left
        self._note_freed()
        self.has_hooks = self.has_hooks and torch._C._autograd._saved_tensors_hooks_is_enabled()  # type: ignore[attr-defined]
        call = OpCall(func, args, kwargs or {})
        for key, storage in call.given.items():
            self._note_storage(key, storage)
        is_cuda = any(storage.is_cuda for storage in call.given.values())
        stop = _cuda_clock() if is_cuda else _clock()
        out = func(*args, **(kwargs or {}))
        seconds = stop()
        call.end(out)
        if call.is_view:
            self._outside += 0.0 if is_cuda else seconds()
        else:
            self._note_op(call, seconds)
            self._outside = 0.0
        self._left = time.perf_counter()
        return out

    def end_iteration(self) -> None:
        """Begin the next iteration."""
        self._iterations[-1].outside = self._outside + time.perf_counter() - self._left
        self._note_freed()
        self._iterations.append(Iteration())
        self._outside, self._left = 0.0, time.perf_counter()

    def set_names(self, names: Mapping[int, str]) -> None:
        """Name the live storages by their addresses in torch, unless they have names."""
        for key, name in names.items():
            if key in self._numbers:
                storage = self._storages[self._numbers[key]]
                storage.name = storage.name or name

    @property
    def watched(self) -> Watched:
        """All iterations that have ended."""
        for op, seconds in self._times:
            op.seconds = seconds()
        self._times.clear()
        return Watched(self._iterations[:-1], self._storages)

    @property
    def has_ended(self) -> bool:
        """Whether an iteration has ended."""
        return len(self._iterations) > 1

    @property
    def now(self) -> int:
        """The number of the next operation in its iteration."""
        return len(self._iterations[-1].operations)

    def is_made(self, key: int) -> bool:
        """Whether this iteration has made the storage with this address in torch."""
        number = self._numbers.get(key)
        made = None if number is None else self._storages[number].made
        return made is not None and made.iteration == len(self._iterations) - 1

    def writes(self, key: int) -> int:
        """How many operations have written the storage with this address in torch."""
        return self._writes[self._numbers[key]]

    @property
    def alive(self) -> dict[int, StorageWeakRef]:
        """References to the storages that lived at the last operation, by their index in `watched`."""
        return {self._numbers[key]: reference for key, reference in self._references.items()}

    def _note_op(self, call: OpCall, seconds: Callable[[], float]) -> None:
        operations = self._iterations[-1].operations
        for ordinal, (key, made) in enumerate(call.made.items()):
            self._note_storage(key, made, Made(len(self._iterations) - 1, len(operations), ordinal))
        for key, given in call.given.items():  # it may have been resized
            storage = self._storages[self._numbers[key]]
            storage.size = max(storage.size, given.nbytes())
        reads = tuple(self._numbers[key] for key in call.reads)
        writes = tuple(self._numbers[key] for key in call.writes)
        self._writes.update(writes)
        source = "" if self._sources is None else self._sources.now()
        operations.append(RecordedOp(call.kind.name, 0.0, reads, writes, self._outside, source))
        self._times.append((operations[-1], seconds))

    def _note_storage(self, key: int, storage: torch.UntypedStorage, made: Made | None = None) -> None:
        if key not in self._numbers:
            self._numbers[key] = len(self._storages)
            self._references[key] = StorageWeakRef(storage)
            self._storages.append(Storage(storage.nbytes(), made, kind=storage.device.type))

    def _note_freed(self) -> None:
        now = len(self._iterations) - 1, len(self._iterations[-1].operations)
        for key in [key for key, reference in self._references.items() if reference.expired()]:
            self._storages[self._numbers.pop(key)].freed = now
            del self._references[key]


def _clock() -> Callable[[], Callable[[], float]]:
    """Start a clock of the calling thread. The returned function stops it and returns a function for its seconds."""
    begun = time.perf_counter()

    def stop() -> Callable[[], float]:
        took = time.perf_counter() - begun
        return lambda: took

    return stop


def _cuda_clock() -> Callable[[], Callable[[], float]]:
    """Start a clock of the current stream, as `_clock`; the function for its seconds waits for the stream."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()

    def seconds() -> float:
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3

    def stop() -> Callable[[], float]:
        end.record()
        return seconds

    return stop


class View(NamedTuple):
    """The part of a storage that an operation used or returned."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


class Touched(TorchDispatchMode):
    """Records, while it is entered, the tensors that operations read and write, without keeping them alive."""

    def __init__(self) -> None:
        super().__init__()
        self._references: dict[int, StorageWeakRef] = {}
        """By the storage's address in torch, in order of first use; references keep addresses from being reused."""
        self._views: defaultdict[int, dict[View, None]] = defaultdict(dict)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        kind = kind_of(func)
        if not kind.only_views:
            made = () if kind.name.startswith(UNWRITTEN) else out
            for leaf in tree_leaves((args, kwargs, made)):
                if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided:
                    self._note(leaf)
        return out

    def contents(self, but: frozenset[int] = frozenset()) -> Iterator[torch.Tensor]:
        """Yield the tensors that still live, by storage in order of first use, without the storages at addresses `but`.

        None is kept alive after the next is requested.
        """
        gc.collect()
        for key, reference in self._references.items():
            storage = None if key in but else storage_of(reference)
            if storage is None:
                continue
            for view in self._views[key]:
                whole = torch.empty(0, dtype=view.dtype, device=storage.device)
                if _last(view) <= storage.nbytes():
                    yield whole.set_(storage, view.offset, view.shape, view.strides)

    def _note(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._references:
            self._references[key] = StorageWeakRef(storage)
        view = View(tensor.dtype, tuple(tensor.shape), tensor.stride(), int(tensor.storage_offset()))
        self._views[key][view] = None


def _last(view: View) -> int:
    if 0 in view.shape:
        return 0
    reach = sum((length - 1) * stride for length, stride in zip(view.shape, view.strides, strict=True))
    return (view.offset + reach + 1) * view.dtype.itemsize
