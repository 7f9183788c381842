"""Repeat calls of library functions on torch tensors of a CPU without the Python code around their kernels.

The first call of a kind is recorded: its kernel calls, the arrays that it creates, and its results. A later call of the
same kind (dtypes, shapes, strides, numbers) creates the same results and runs the same code on its own addresses. A
call like the latest one is told by torch's own guards, in one step; others are found by a key.

So a function may be `replayed` if it changes elements of arrays only by kernels and by the helpers of `arrays` and
`indices`. Helpers that cannot be repeated call `refuse`. A call is not repeated either if an address belongs to no
argument and to no array that the call created.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, wraps
from itertools import pairwise
from typing import Any, TypeVar

from vkernels.runtime import determinism, events, recording
from vkernels.runtime.recording import CallRecording, current
from vkernels.runtime.threads import on_threads_change

from .captured_call import (
    MISS,
    CapturedCall,
    Empty,
    Expectation,
    Kind,
    NotRepeatableError,
    OutOfDateError,
    Repeat,
    Step,
)

F = TypeVar("F", bound=Callable[..., Any])


class DynamicScalar(float):
    """A number that may differ between calls of one kind; only kernels receive it."""


class LiveInt(int):
    """An integer that may differ between calls of one kind."""


REMEMBERED = 256
"""Recorded kinds of calls per function; the oldest is dropped first."""

MOST_ALIKE = 4
"""Recorded calls with one key: torch tells more of them apart, such as those in inference mode."""

_modules = sys.modules
_tables: list[Table] = []
_torch_names: list[Any] = []
_PLAIN = frozenset((int, float, bool, str, type(None)))


def replayed(function: F) -> F:
    """Repeat the calls of a library function; the module's docstring lists the conditions."""
    tables = Table(), Table()  # of calls that are deterministic, or not
    _tables.extend(tables)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if events.LISTENERS or (recording.recording and current() is not None):
            return function(*args, **kwargs)  # the recording of a caller needs every launch
        table = tables[determinism.enabled()]
        try:
            result = table.latest((*args, *kwargs.values()), tuple(kwargs)) if kwargs else table.latest(args, ())
            if result is not MISS:
                return result
        except (NotRepeatableError, OutOfDateError):
            pass
        return _by_key(function, args, kwargs, table)

    return call  # type: ignore[return-value]


def _none_yet(values: Sequence[Any], names: tuple[str, ...]) -> Any:
    return MISS


@dataclass
class Table:
    """Recorded calls of a function. `calls`: by key, None where they cannot be repeated. `latest`: repeats one like
    the latest that was repeated."""

    calls: dict[Any, list[Repeat] | None] = field(default_factory=dict)
    latest: Repeat = _none_yet

    def clear(self) -> None:
        """Forget all of them."""
        self.calls.clear()
        self.latest = _none_yet


def _by_key(function: Callable[..., Any], args: Any, kwargs: dict[str, Any], table: Table) -> Any:
    """Repeat a recorded call with the key of this one, or record this one."""
    names, values = tuple(kwargs), (*args, *kwargs.values())
    key = _key(values, names)
    if key is None:
        return function(*args, **kwargs)
    alike = table.calls.get(key, [])
    if alike is None:
        return function(*args, **kwargs)
    for repeat in alike:
        try:
            result = repeat(values, names)
        except NotRepeatableError:
            return function(*args, **kwargs)
        except OutOfDateError:
            table.calls.pop(key, None)
            table.latest = _none_yet
            return function(*args, **kwargs)
        if result is not MISS:
            if _guards() is not None:
                table.latest = repeat
            return result
    return function(*args, **kwargs) if len(alike) >= MOST_ALIKE else _record(function, args, kwargs, table, key)


def _key(values: Sequence[Any], names: tuple[str, ...]) -> Any:
    """The key of a kind of call; None where it is not repeated."""
    if not _torch_names and not _find(_torch_names):
        return None
    tensor, parameter, is_grad_enabled = _torch_names
    tracks = is_grad_enabled()
    key: Any = names
    try:
        for value in values:
            kind = type(value)
            if kind is tensor or kind is parameter:
                if tracks and value.requires_grad:
                    return None
                where = None if value.is_cpu else value.device
                key = key, value.dtype, value.shape, value.stride(), where, value.is_neg()
            elif kind is DynamicScalar or kind is LiveInt:
                key = key, kind
            elif kind is float:
                key = key, kind, value or repr(value)  # 0.0 equals -0.0
            elif kind in _PLAIN or (kind is tuple and all(type(each) is int for each in value)):
                key = key, kind, value
            else:
                return None
    except RuntimeError:  # torch's, for tensors without strides
        return None
    return key


def _find(names: list[Any]) -> bool:
    torch = _modules.get("torch")
    if torch is not None:
        names[:] = torch.Tensor, torch.nn.Parameter, torch.is_grad_enabled
    return torch is not None


@cache
def _guards() -> Any:
    """Torch's native guards, which tell in one step whether tensors are like others; None where it has none."""
    import torch

    guards: Any = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
    try:
        x = torch.empty(2, 3)
        is_like = guards.TensorGuards(x, dynamic_dims_sizes=[[2, 3]], dynamic_dims_strides=[[3, 1]]).check
        is_right = is_like(x) and not is_like(x.t()) and not is_like(x.double())
        made = guards._empty_strided_cpu((2, 3), (3, 1), torch.float64)
        return guards if is_right and made.shape == x.shape and made.dtype == torch.float64 else None
    except (AttributeError, TypeError, RuntimeError, SystemError):
        return None


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


def _record(function: Callable[..., Any], args: Any, kwargs: Any, table: Table, key: Any) -> Any:
    recorder = _Recorder()
    with CallRecording(recorder):
        result = function(*args, **kwargs)
    if recorder.settled:
        tape = recorder.tape((*args, *kwargs.values()), tuple(kwargs), result)
        alike = table.calls.pop(key, None) or []
        while len(table.calls) >= REMEMBERED:
            table.calls.pop(next(iter(table.calls)), None)
        table.calls[key] = None if tape is None and not alike else [*alike, *([] if tape is None else [tape])]
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

    def tape(self, values: Sequence[Any], names: tuple[str, ...], result: Any) -> Repeat | None:
        """What repeats the call; None if it cannot be repeated."""
        try:
            if self.refused or not self.steps:
                return None
            return _AddressResolver(self, values).tape(names, result).repeated()
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

    def tape(self, names: tuple[str, ...], result: Any) -> CapturedCall:
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
            self._kind(names), tuple(self.given), tuple(self._template(each) for each in returned),
            tuple(self._template(each) for each in others), tuple(self.recorder.constants),
            tuple(steps), tuple(None if each is None else numbers[id(each)] for each in results),
            isinstance(result, tuple), tuple(_extent(at, self.values[number]) for at, number in enumerate(self.given)),
            self._empty(), self.torch.autograd.graph.increment_version,
        )  # fmt: skip

    def _kind(self, names: tuple[str, ...]) -> Kind:
        others = [(at, value) for at, value in enumerate(self.values) if not isinstance(value, self.torch.Tensor)]
        live = tuple((at, type(value)) for at, value in others if isinstance(value, DynamicScalar | LiveInt))
        numbers = tuple((at, value) for at, value in others if (at, type(value)) not in live)
        is_like = None
        if self.given and (guards := _guards()) is not None:
            tensors = [self.values[number] for number in self.given]
            is_like = guards.TensorGuards(
                *tensors, dynamic_dims_sizes=[list(each.shape) for each in tensors],
                dynamic_dims_strides=[list(each.stride()) for each in tensors],
            ).check  # fmt: skip
        types = tuple(type(self.values[number]) for number in self.given)
        return Kind(len(self.values), names, numbers, live, types, is_like)

    def _empty(self) -> Empty:
        """The fast way, except for modes of torch that see every operation: guards tell calls within one apart."""
        is_seen = self.torch._C._len_torch_dispatch_stack() > 0
        guards = None if is_seen else _guards()
        return Empty(self.torch.empty_like, None if guards is None else guards._empty_strided_cpu)

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
    for table in _tables:
        table.clear()


on_threads_change(_forget)
