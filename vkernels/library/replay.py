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
from functools import cache, wraps
from itertools import pairwise
from typing import Any, TypeVar

from vkernels.ir.errors import OutOfMemoryError
from vkernels.runtime import determinism, events, recording
from vkernels.runtime.recording import CallRecording, current
from vkernels.runtime.threads import on_threads_change

F = TypeVar("F", bound=Callable[..., Any])
Expectation = Callable[[Sequence[int]], bool]


class DynamicScalar(float):
    """A number that may differ between calls of one kind; only kernels receive it."""


class LiveInt(int):
    """An integer that may differ between calls of one kind."""


REMEMBERED = 256
"""Recorded kinds of calls per function; the oldest is dropped first."""

KEPT_BYTES = 1 << 16
"""Size limit, in bytes, of temporary arrays that are kept from one call to the next."""

_modules = sys.modules
_tables: list[dict[Any, Any]] = []
_torch_names: list[Any] = []
_PLAIN = frozenset((int, float, bool, str, type(None)))


def replayed(function: F) -> F:
    """Repeat the calls of a library function; the module's docstring lists the conditions."""
    tables: tuple[dict[Any, CapturedCall | None], ...] = {}, {}  # of calls that are deterministic, or not
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
                return tape.play(values)
            except _NotRepeatable:
                return function(*args, **kwargs)
            except _OutOfDate:
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


class _OutOfDate(Exception):
    """The recorded call is out of date."""


class _NotRepeatable(Exception):
    """These arguments differ from the recorded ones: they share memory, or fail a check."""


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

    def tape(self, values: Sequence[Any], result: Any) -> CapturedCall | None:
        """The captured call; None if it cannot be repeated."""
        try:
            return None if self.refused or not self.steps else _AddressResolver(self, values).tape(result)
        except _OutOfDate:
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
            raise _OutOfDate

    def tape(self, result: Any) -> CapturedCall:
        results = result if isinstance(result, tuple) else (result,)
        if not all(each is None or isinstance(each, self.torch.Tensor) for each in results):
            raise _OutOfDate
        returned = [each for each in results if each is not None and all(each is not value for value in self.values)]
        owners = [self._owner(each) for each in returned]
        if len({id(owner) for owner in owners}) < len(owners):
            raise _OutOfDate
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
        )  # fmt: skip

    def _owner(self, result: Any) -> Any:
        for array in self.recorder.made:
            if array.data_ptr() == result.data_ptr() and array.numel() == result.numel():
                return array
        raise _OutOfDate

    def _template(self, array: Any) -> Any:
        """A tensor without memory, for `empty_like`."""
        template = self.torch.empty_strided(array.shape, array.stride(), dtype=array.dtype, device=array.device)
        if self.torch.empty_like(template).stride() != array.stride():
            raise _OutOfDate
        template.untyped_storage().resize_(0)
        return template

    def _step(
        self, entry: Any, prepared: Any, addresses: Sequence[int], scalars: Sequence[Any], made_then: int
    ) -> _Step:
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
        return _Step(entry, prepared, sources, tuple(scalars), pairs, written, live)

    def _live(self, value: Any) -> int:
        for number, given in enumerate(self.values):
            if given is value:
                return number
        raise _OutOfDate

    def _test(self, array: Any, holds: Expectation) -> _Step:
        number, offset = self._source(array.data_ptr())
        if offset:
            raise _OutOfDate
        return _Step(None, None, ((number, 0),), (), (), (), (), holds)

    def _source(self, address: int, later: Sequence[Any] = ()) -> tuple[int, int]:
        """The number of the array that holds an address, and the offset in bytes; `later`: arrays created later."""
        for number, array in enumerate(self.arrays):
            low, high = _span(array)
            if low <= address < high and all(array is not other for other in later):
                return number, address - array.data_ptr()
        raise _OutOfDate


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


@dataclass(frozen=True)
class _Step:
    """One kernel call or, if `holds` is given, one check of an array.

    `sources`: an array's number and an offset for each address. `pairs`: those of the entry that arguments may share.
    `written`: numbers of written arguments. `live`: positions of scalars and the arguments that they come from.
    """

    entry: Any
    prepared: Any
    sources: tuple[tuple[int, int], ...]
    scalars: tuple[Any, ...]
    pairs: tuple[tuple[tuple[int, int], tuple[int, int], int, int], ...]
    written: tuple[int, ...]
    live: tuple[tuple[int, int], ...]
    holds: Expectation | None = None


class CapturedCall:
    """One kind of call, ready to be repeated, also from several threads at once."""

    def __init__(
        self, given: tuple[int, ...], templates: tuple[Any, ...], others: tuple[Any, ...], constants: tuple[Any, ...],
        steps: tuple[_Step, ...], results: tuple[int | None, ...], several: bool,
        extents: tuple[tuple[int, int, int], ...],
    ):  # fmt: skip
        import torch

        self.empty_like = torch.empty_like
        self.given, self.templates, self.others, self.constants = given, templates, others, constants
        self.steps, self.results, self.several = steps, results, several
        self.fixed = [array.data_ptr() for array in constants]
        self.only = results[0] if len(results) == 1 and not several else None
        self.pairs = tuple(pair for step in steps for pair in step.pairs)
        self.written = sorted({number for step in steps for number in step.written})
        self.extents = extents
        small = sum(array.numel() * array.element_size() for array in others) <= KEPT_BYTES
        self.spare: list[list[Any]] | None = [] if small and others else None

    def play(self, values: Sequence[Any]) -> Any:
        arrays = [values[number] for number in self.given]
        for template in self.templates:
            arrays.append(self.empty_like(template))
        try:
            addresses = [array.data_ptr() for array in arrays]
            for number, needed, itemsize in self.extents:
                array = arrays[number]
                if len(array.untyped_storage()) - array.storage_offset() * itemsize < needed:
                    raise _NotRepeatable
        except RuntimeError:  # torch's, for tensors without memory; the function reports it
            raise _NotRepeatable from None
        if 0 in addresses:
            raise _NotRepeatable
        others: list[Any] = []
        if self.others:
            others = self._others()
            addresses += [array.data_ptr() for array in others]
        if self.fixed:
            addresses += self.fixed
        for (one, start), (other, end), low, high in self.pairs:
            if low < addresses[other] + end - addresses[one] - start < high:
                raise _NotRepeatable
        for step in self.steps:
            if step.entry is not None and step.entry.distinct is not step.prepared:
                raise _OutOfDate
        for step in self.steps:
            if step.holds is None:
                scalars: Any = step.scalars
                if step.live:
                    scalars = list(scalars)
                    for at, number in step.live:
                        scalars[at] = values[number]
                try:
                    step.prepared.run([addresses[number] + offset for number, offset in step.sources], scalars)
                except OutOfMemoryError:
                    raise _OutOfDate from None
                step.entry.counters.calls += 1
            elif not step.holds([*arrays, *others][step.sources[0][0]].tolist()):
                raise _NotRepeatable
        if self.written:
            _count_writes([arrays[number] for number in self.written])
        if others and self.spare is not None:
            self.spare.append(others)
        if self.only is not None:
            return arrays[self.only]
        return tuple([None if number is None else arrays[number] for number in self.results]) if self.several else None

    def _others(self) -> list[Any]:
        try:
            return self.spare.pop()  # type: ignore[union-attr]
        except (IndexError, AttributeError):
            return [self.empty_like(template) for template in self.others]


def _count_writes(tensors: list[Any]) -> None:
    _version_counter()(tensors)


@cache
def _version_counter() -> Callable[[Sequence[Any]], None]:
    counter: Callable[[Sequence[Any]], None] = _modules["torch"].autograd.graph.increment_version
    return counter


_NEW: Any = object()


def _forget() -> None:
    for tapes in _tables:
        tapes.clear()


on_threads_change(_forget)
