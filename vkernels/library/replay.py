"""Repeat calls of library functions on torch tensors of a CPU without the Python code around their kernels.

The first call of a kind is recorded: its kernel calls, the arrays that it creates, and its results. A later call of the
same kind (dtypes, shapes, strides, numbers) creates the same results and runs the same code on its own addresses. So a
function may be `replayed` if it changes elements of arrays only by kernels and by the helpers of `arrays` and
`indices`. Helpers that cannot be repeated call `refuse`. A call is not repeated either if an address belongs to no
argument and to no array that the call created.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from itertools import pairwise
from typing import Any, TypeVar

from vkernels.runtime import determinism, events, recording
from vkernels.runtime.recording import CallRecording, current
from vkernels.runtime.threads import on_threads_change

from .captured_call import CapturedCall, Expectation, NotRepeatableError, OutOfDateError, Step

F = TypeVar("F", bound=Callable[..., Any])
Repeat = Callable[[Sequence[Any]], Any]


class DynamicScalar(float):
    """A number that may differ between calls of one kind; only kernels receive it."""


class LiveInt(int):
    """An integer that may differ between calls of one kind."""


REMEMBERED = 256
"""Recorded kinds of calls per function; the oldest is dropped first."""

_modules = sys.modules
_tables: list[dict[Any, Any]] = []
_torch_names: list[Any] = []
_PLAIN = frozenset((int, float, bool, str, type(None)))


def replayed(function: F) -> F:
    """Repeat the calls of a library function; the module's docstring lists the conditions."""
    tables: tuple[dict[Any, Repeat | None], ...] = {}, {}  # of calls that are deterministic, or not
    torch_names = _torch_names
    _tables.extend(tables)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if events.LISTENERS or (recording.recording and current() is not None):
            return function(*args, **kwargs)  # the recording of a caller needs every launch
        if not torch_names and not _find(torch_names):
            return function(*args, **kwargs)
        tensor, parameter, is_grad_enabled = torch_names
        tracks = is_grad_enabled()
        values = (*args, *kwargs.values()) if kwargs else args
        key: Any = tuple(kwargs)
        try:
            for value in values:
                kind = type(value)
                if kind is tensor or kind is parameter:
                    if tracks and value.requires_grad:
                        return function(*args, **kwargs)
                    where = None if value.is_cpu else value.device
                    key = key, value.dtype, value.shape, value.stride(), where, value.is_neg()
                elif kind is DynamicScalar or kind is LiveInt:
                    key = key, kind
                elif kind in _PLAIN or (kind is tuple and all(type(each) is int for each in value)):
                    key = key, kind, value
                else:
                    return function(*args, **kwargs)
        except RuntimeError:  # torch's, for tensors without strides
            return function(*args, **kwargs)
        tapes = tables[determinism.enabled()]
        tape = tapes.get(key, _NEW)
        if tape is not None and tape is not _NEW:
            try:
                return tape(values)
            except NotRepeatableError:
                return function(*args, **kwargs)
            except OutOfDateError:
                tapes.pop(key, None)
                return function(*args, **kwargs)
        return function(*args, **kwargs) if tape is None else _record(function, args, kwargs, tapes, key)

    return call  # type: ignore[return-value]


def _find(names: list[Any]) -> bool:
    torch = _modules.get("torch")
    if torch is not None:
        names[:] = torch.Tensor, torch.nn.Parameter, torch.is_grad_enabled
    return torch is not None


def made(array: Any) -> Any:
    """Note an uninitialised array that the current call has created, and return it."""
    if (recorder := current()) is not None:
        recorder.made.append(array)
    return array


def constant(array: Any) -> Any:
    """Note an array that the current call only reads and that is the same in each call of its kind, and return it."""
    if (recorder := current()) is not None:
        recorder.constants.append(array)
    return array


def refuse() -> None:
    """Note that the current call cannot be repeated."""
    if (recorder := current()) is not None:
        recorder.refused = True


def expect(array: Any, holds: Expectation) -> bool:
    """Whether an array that the current call has computed is as expected; repeated calls check it again."""
    if (recorder := current()) is not None:
        recorder.steps.append((array, holds))
    return holds(array.tolist())


def _record(function: Callable[..., Any], args: Any, kwargs: Any, tapes: dict[Any, Any], key: Any) -> Any:
    recorder = _Recorder()
    with CallRecording(recorder):
        result = function(*args, **kwargs)
    while len(tapes) >= REMEMBERED:
        tapes.pop(next(iter(tapes)), None)
    if recorder.settled:
        tapes[key] = recorder.tape((*args, *kwargs.values()), result)
    return result


@dataclass
class _Recorder:
    made: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    steps: list[Any] = field(default_factory=list)
    refused: bool = False
    settled: bool = True

    def launched(self, entry: Any, prepared: Any, addresses: Sequence[int], scalars: Sequence[Any]) -> None:
        self.refused = self.refused or not prepared.is_repeatable
        self.settled = self.settled and prepared is entry.distinct  # not about to be replaced by better code
        self.steps.append((entry, prepared, tuple(addresses), tuple(scalars), len(self.made)))

    def tape(self, values: Sequence[Any], result: Any) -> Repeat | None:
        """What repeats the call; None if it cannot be repeated."""
        try:
            return None if self.refused or not self.steps else _AddressResolver(self, values).tape(result).repeated()
        except OutOfDateError:
            return None


class _AddressResolver:
    """Resolves a recorded call's addresses. Arrays are numbered: arguments, results, temporaries, constants."""

    def __init__(self, recorder: _Recorder, values: Sequence[Any]):
        import torch

        self.torch, self.recorder, self.values = torch, recorder, values
        self.given = [number for number, value in enumerate(values) if isinstance(value, torch.Tensor)]
        self.arrays = [values[number] for number in self.given]
        spans = [_span(array) for array in [*self.arrays, *recorder.made]]
        shared = any(one[1] > two[0] for one, two in pairwise(sorted(spans)))
        if shared or any(low >= high for low, high in spans):
            raise OutOfDateError

    def tape(self, result: Any) -> CapturedCall:
        results = result if isinstance(result, tuple) else (result,)
        if not all(each is None or isinstance(each, self.torch.Tensor) for each in results):
            raise OutOfDateError
        returned = [each for each in results if each is not None and all(each is not value for value in self.values)]
        owners = [self._owner(each) for each in returned]
        if len({id(owner) for owner in owners}) < len(owners):
            raise OutOfDateError
        others = [array for array in self.recorder.made if all(array is not owner for owner in owners)]
        self.arrays += [*owners, *others, *self.recorder.constants]
        numbers = {id(each): len(self.given) + number for number, each in enumerate(returned)}
        numbers |= {id(self.values[number]): at for at, number in enumerate(self.given)}
        steps = [self._step(*step) if len(step) > 2 else self._test(*step) for step in self.recorder.steps]
        return CapturedCall(
            tuple(self.given), tuple(self._template(each) for each in returned),
            tuple(self._template(each) for each in others), tuple(self.recorder.constants),
            tuple(steps), tuple(None if each is None else numbers[id(each)] for each in results),
            isinstance(result, tuple), tuple(_extent(at, self.values[number]) for at, number in enumerate(self.given)),
            self.torch.empty_like, self.torch.autograd.graph.increment_version,
        )  # fmt: skip

    def _owner(self, result: Any) -> Any:
        for array in self.recorder.made:
            if array.data_ptr() == result.data_ptr() and array.numel() == result.numel():
                return array
        raise OutOfDateError

    def _template(self, array: Any) -> Any:
        """A tensor without memory, for `empty_like`."""
        template = self.torch.empty_strided(array.shape, array.stride(), dtype=array.dtype, device=array.device)
        if self.torch.empty_like(template).stride() != array.stride():
            raise OutOfDateError
        template.untyped_storage().resize_(0)
        return template

    def _step(
        self, entry: Any, prepared: Any, addresses: Sequence[int], scalars: Sequence[Any], made_then: int
    ) -> Step:
        later = self.recorder.made[made_then:]  # unnoted memory of this call may have been there
        sources = tuple(self._source(address, later) for address in addresses)
        pairs = tuple(
            (sources[a], sources[b], low, high) for a, b, low, high in entry.pairs
            if sources[a][0] < len(self.given) and sources[b][0] < len(self.given)
        )  # fmt: skip
        at = {position: source for (position, _), source in zip(entry.readers, sources, strict=True)}
        written = tuple(number for position in entry.tracked if (number := at[position][0]) < len(self.given))
        live = tuple(
            (at, self._live(value)) for at, value in enumerate(scalars) if isinstance(value, DynamicScalar | LiveInt)
        )
        return Step(entry, prepared, sources, tuple(scalars), pairs, written, live)

    def _live(self, value: Any) -> int:
        for number, given in enumerate(self.values):
            if given is value:
                return number
        raise OutOfDateError

    def _test(self, array: Any, holds: Expectation) -> Step:
        number, offset = self._source(array.data_ptr())
        if offset:
            raise OutOfDateError
        return Step(None, None, ((number, 0),), holds=holds)

    def _source(self, address: int, later: Sequence[Any] = ()) -> tuple[int, int]:
        """The number of the array that holds an address, and the offset in bytes; `later`: arrays created later."""
        for number, array in enumerate(self.arrays):
            low, high = _span(array)
            if low <= address < high and all(array is not other for other in later):
                return number, address - array.data_ptr()
        raise OutOfDateError


def _span(array: Any) -> tuple[int, int]:
    """The first address of an array and the end of its memory; torch has no negative strides."""
    if array.device.type != "cpu" or 0 in array.shape:
        return 0, 0
    last = sum((length - 1) * stride for length, stride in zip(array.shape, array.stride(), strict=True))
    return array.data_ptr(), array.data_ptr() + (last + 1) * array.element_size()


def _extent(at: int, array: Any) -> tuple[int, int, int]:
    """An argument's number, its span and its element size in bytes: a later call may have a resized storage."""
    low, high = _span(array)
    return at, high - low, array.itemsize


_NEW: Any = object()


def _forget() -> None:
    for tapes in _tables:
        tapes.clear()


on_threads_change(_forget)
