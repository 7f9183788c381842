"""Repeat calls of library functions on torch tensors without the Python code around their kernels.

The first call of a kind is recorded: its kernel calls, the arrays that it creates, and its results. A later call of the
same kind (dtypes, shapes, strides, numbers) creates the same results and runs the same code on its own addresses. A
call like the latest one is told by torch's own guards, in one step; others are found by a key.

So a function may be `replayed` if it changes elements of arrays only by kernels, by the helpers of `arrays` and
`indices`, and by what it calls through `computed`. Helpers that cannot be repeated call `refuse`. A call is not
repeated either if an address belongs to no argument and to no array that the call created.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar

from vkernels.runtime import determinism, events, recording, torch_guards, torch_profiler
from vkernels.runtime.recording import CallRecording, current
from vkernels.runtime.threads import on_threads_change

from . import gpu_arrays
from .call_arguments import Bundle, DynamicScalar, LiveInt, leaves
from .captured_call import MISS, Expectation, NotRepeatableError, OutOfDateError, Repeat
from .recorded_call import Recorder

F = TypeVar("F", bound=Callable[..., Any])


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
        if (
            events.LISTENERS
            or torch_profiler.module._is_profiler_enabled
            or (recording.recording and current() is not None)
        ):  # the recording of a caller needs every launch
            return function(*args, **kwargs)
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
            if torch_guards.guards() is not None:
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
            elif issubclass(kind, Bundle):
                if (parts := _key([part for _, part in leaves([value])], ())) is None:
                    return None
                key = key, kind, parts
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


def new_constant(device: Any, make: Callable[[], Any]) -> Any:
    """The array that `make` returns, as `constant` takes it, made where repeated calls may keep it."""
    recorder = current()
    if recorder is None:
        return make()
    array = gpu_arrays.made_to_keep(device, make)
    if gpu_arrays.on_gpu([array]) and not gpu_arrays.is_captured():
        gpu_arrays.read_here(array)
    recorder.constants.append(array)
    return array


def refuse() -> None:
    """Note that the current call cannot be repeated."""
    if (recorder := current()) is not None:
        recorder.refused = True


def computed(compute: Callable[..., Any], *arrays: Any) -> Any:
    """`compute` of arrays, by the functions of their own library: a new array, which repeated calls compute again.

    `compute` must do the same with all arrays of these kinds. The arrays are arguments, or parts of one.
    """
    result = compute(*arrays)
    if (recorder := current()) is not None:
        recorder.steps.append((result, compute, arrays))
        recorder.made.append(result)
    return result


def expect(array: Any, holds: Expectation) -> bool:
    """Whether an array that the current call has computed is as expected; repeated calls check it again."""
    if (recorder := current()) is not None:
        recorder.steps.append((array, holds))
    return holds(array.tolist())


def _record(function: Callable[..., Any], args: Any, kwargs: Any, table: Table, key: Any) -> Any:
    recorder = Recorder()
    with CallRecording(recorder):
        result = function(*args, **kwargs)
    if recorder.settled and not recorder.is_captured:
        tape = recorder.tape((*args, *kwargs.values()), tuple(kwargs), result)
        alike = table.calls.pop(key, None) or []
        while len(table.calls) >= REMEMBERED:
            table.calls.pop(next(iter(table.calls)), None)
        table.calls[key] = None if tape is None and not alike else [*alike, *([] if tape is None else [tape])]
    return result


def _forget() -> None:
    for table in _tables:
        table.clear()


on_threads_change(_forget)
