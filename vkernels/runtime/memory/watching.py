"""Watching torch's operations: which storages each reads, writes and makes, how long it takes, when storages die."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from vkernels.ir.errors import TraceError

from .recorded import Iteration, Made, Step, Storage, Watched

OVERWRITING = frozenset({"copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_"})
"""Operations in place that read nothing of what they write."""
STATISTICS = ("running_mean", "running_var")
"""Arguments that batch normalisation changes, whether or not its schema says so."""


class Watch(TorchDispatchMode):
    """Notes every operation while it is entered; `end_iteration` begins the next iteration."""

    def __init__(self) -> None:
        super().__init__()
        self._iterations = [Iteration()]
        self._storages: list[Storage] = []
        self._numbers: dict[int, int] = {}
        """Of storages that live, by their address in torch; the references keep addresses from being used again."""
        self._references: dict[int, StorageWeakRef] = {}
        self._times: list[tuple[Step, Callable[[], float]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._bury()
        call = Call(func, args, kwargs or {})
        for key, tensor in call.given.items():
            self._known(key, tensor)
        clock = _CudaClock() if any(tensor.is_cuda for tensor in call.given.values()) else _Clock()
        out = func(*args, **(kwargs or {}))
        clock.stop()
        call.end(out)
        if not call.is_view:
            self._note(call, clock.seconds)
        return out

    def end_iteration(self) -> None:
        """What comes is of the next iteration."""
        self._bury()
        self._iterations.append(Iteration())

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

    def _note(self, call: Call, seconds: Callable[[], float]) -> None:
        steps = self._iterations[-1].operations
        for ordinal, (key, tensor) in enumerate(call.made.items()):
            self._known(key, tensor, Made(len(self._iterations) - 1, len(steps), ordinal))
        for key, tensor in call.given.items():  # resized
            storage = self._storages[self._numbers[key]]
            storage.size = max(storage.size, tensor.untyped_storage().nbytes())
        reads = tuple(self._numbers[key] for key in call.reads)
        writes = tuple(self._numbers[key] for key in call.writes)
        steps.append(Step(call.name, 0.0, reads, writes))
        self._times.append((steps[-1], seconds))

    def _known(self, key: int, tensor: torch.Tensor, made: Made | None = None) -> None:
        if key not in self._numbers:
            storage = tensor.untyped_storage()
            self._numbers[key] = len(self._storages)
            self._references[key] = StorageWeakRef(storage)
            self._storages.append(Storage(storage.nbytes(), made))

    def _bury(self) -> None:
        """Notes which storages are no more."""
        now = len(self._iterations) - 1, len(self._iterations[-1].operations)
        for key in [key for key, reference in self._references.items() if reference.expired()]:
            self._storages[self._numbers.pop(key)].freed = now
            del self._references[key]


class Call:
    """One operation's storages, by their address in torch. `end`, with what it gave, tells what it `made`."""

    def __init__(self, func: Any, args: Any, kwargs: Any):
        self.func, self.name = func, _name(func)
        arguments = list(_arguments(func, args, kwargs))
        self.given = {_key(tensor, func): tensor for tensors, _, _ in arguments for tensor in tensors}
        self.made: dict[int, torch.Tensor] = {}
        self.written = {
            key: pure for tensors, writes, pure in arguments if writes for key, pure in _written(tensors, pure)
        }
        read = {_key(tensor, func) for tensors, writes, _ in arguments if not writes for tensor in tensors}
        self.reads = tuple(key for key in self.given if key in read or not self.written[key])

    def end(self, out: Any) -> None:
        """`out`: what the operation gave."""
        made = {_key(tensor, self.func): tensor for tensor in _tensors(out)}
        self.made = {key: tensor for key, tensor in made.items() if key not in self.given}

    @property
    def writes(self) -> tuple[int, ...]:
        """What it wrote, and after that what it made."""
        return (*self.written, *self.made)

    @property
    def is_view(self) -> bool:
        """Whether it touched no bytes: it gave views, or has nothing to do with tensors."""
        only_looks = not self.written and not self.made and _gives_tensors(self.func)
        return only_looks or not (self.given or self.made)


def gives_only_views(func: Any) -> bool:
    """Whether its schema says so; there are more that give only views."""
    returns = func._schema.returns
    return bool(returns) and all(each.alias_info and not each.alias_info.is_write for each in returns)


def _arguments(func: Any, args: Any, kwargs: Any) -> Iterator[tuple[list[torch.Tensor], bool, bool]]:
    """The tensors of each argument, whether they are written, and whether nothing of them is read then."""
    schema = func._schema
    overwrites = schema.name.partition("::")[2] in OVERWRITING
    normalises = "batch_norm" in schema.name and "backward" not in schema.name
    for number, argument in enumerate(schema.arguments):
        value = args[number] if number < len(args) else kwargs.get(argument.name)
        writes = bool(argument.alias_info and argument.alias_info.is_write)
        changes = normalises and argument.name in STATISTICS
        yield list(_tensors(value)), writes or changes, writes and (overwrites or argument.kwarg_only)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor))


def _written(tensors: list[torch.Tensor], pure: bool) -> Iterator[tuple[int, bool]]:
    """Of each tensor its storage, and whether all of it is written over."""
    for tensor in tensors:
        storage = tensor.untyped_storage()
        whole = tensor.numel() * tensor.element_size() >= storage.nbytes() and tensor.is_contiguous()
        yield storage._cdata, pure and whole


def _gives_tensors(func: Any) -> bool:
    return any("Tensor" in str(each.type) for each in func._schema.returns)


def _key(tensor: torch.Tensor, func: Any) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        raise TraceError(
            f"{_name(func)} has a tensor without a storage ({tensor.layout}): it cannot be watched"
        ) from None


def _name(func: Any) -> str:
    return str(func._schema.name).removeprefix("aten::")


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
