"""Lay out the arguments of launches in slots of eight bytes; each call fills in addresses and scalars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from vkernels.compiler.arguments import Arguments
from vkernels.compiler.array_layout import seen_strides
from vkernels.compiler.backends.triton_adapter import SCRATCH_ALIGNMENT
from vkernels.ir.errors import ArgumentError
from vkernels.ir.launch_arguments import HostArguments, LaunchParameter, ParameterKind

MAX_PROGRAMS = (1 << 31) - 1
"""Programs that a GPU starts along one dimension of a grid."""


_BITS: Mapping[str, int] = {"i1": 1, "i32": 32, "i64": 64}


class LaunchLike(Protocol):
    """The part of a `TtirLaunch` that calls use."""

    @property
    def name(self) -> str: ...
    @property
    def parameters(self) -> Sequence[LaunchParameter]: ...
    @property
    def swap_bytes(self) -> int: ...
    @property
    def is_persistent(self) -> bool: ...


class BinaryLike(Protocol):
    """The part of a `Binary` that calls use."""

    @property
    def threads(self) -> int: ...
    @property
    def shared(self) -> int: ...
    @property
    def global_scratch(self) -> int: ...


class Loaded(Protocol):
    """A launch that a device has loaded, see `LoadedLaunch`."""

    @property
    def launch(self) -> LaunchLike: ...
    @property
    def binary(self) -> BinaryLike: ...
    @property
    def function(self) -> int: ...
    @property
    def resident(self) -> int: ...
    @property
    def hidden(self) -> int: ...


@dataclass(frozen=True)
class Start:
    """One launch of a call: a function, how many programs of how many threads, where its slots begin.

    `programs`: all that a persistent launch runs, in ranges where that is wanted; `range_slots`: those of the first and
    the end of a range.
    """

    function: int
    grid: int
    threads: int
    shared: int
    first: int
    programs: int = 0
    range_slots: tuple[int, int] | None = None

    @property
    def waves(self) -> int:
        """Into how many ranges it can be divided, each of as many programs as run at once."""
        return -(-self.programs // self.grid) if self.range_slots is not None else 1


def pack(launches: Sequence[Loaded], prepared: HostArguments, arguments: Arguments) -> Packed:
    """Lay out a call's slots. The launches' swap spaces and Triton's own scratch share memory: they run in turn.

    Raises `OutOfResources` for more programs than a GPU starts, `ArgumentError` for a number too large for its
    parameter.
    """
    packed = Packed(arguments, prepared)
    for number, launch in enumerate(launches):
        if prepared.programs[number] > 0:
            packed.add(launch, prepared.programs[number], launch.launch.swap_bytes + prepared.more_swap(number))
    return packed


class Packed:
    """A call of one shape.

    `template`: every slot, 0 where a call writes. `pointers`: slots that take the address of a tensor, and which;
    `scalars`: slots that take a scalar, which, and whether it is an f64; `own`: slots that take an address within the
    call's own memory of `own_bytes` bytes, and how far from its start. `given`: how many tensors and scalars a call
    has. Launches without programs are left out.
    """

    def __init__(self, arguments: Arguments, prepared: HostArguments):
        self._arguments = arguments
        self.given = len(arguments.tensors), len(arguments.scalars)
        self._tensors = {name: number for number, name in enumerate(arguments.tensors)}
        self._scalars = {name: number for number, name in enumerate(arguments.scalars)}
        self._buffers: list[int] = []
        self._shared_start = 0
        for size in prepared.buffer_bytes:
            self._buffers.append(self._shared_start)
            self._shared_start += _up(size)
        self.own_bytes = self._shared_start
        self.starts: list[Start] = []
        self.template: list[int] = []
        self.pointers: list[tuple[int, int]] = []
        self.scalars: list[tuple[int, int, bool]] = []
        self.own: list[tuple[int, int]] = []

    def add(self, loaded: Loaded, programs: int, swap_bytes: int) -> None:
        """Add the slots of one launch, each resident program of which takes `swap_bytes` bytes."""
        launch, binary, first = loaded.launch, loaded.binary, len(self.template)
        grid = min(programs, loaded.resident) if launch.is_persistent else programs
        most = MAX_PROGRAMS - (grid if launch.is_persistent else 0)  # a persistent one counts on by `grid`, in 32 bits
        if programs > most:
            from vkernels.ir.planning.resources import OutOfResources, Resource, Shortage  # a compiler's

            reason = f"has {programs} programs, more than the {most} that a GPU counts: its tiles are too small"
            raise OutOfResources(Shortage(Resource.PROGRAMS, programs, most, reason), launch.name)
        swap, scratch = _up(swap_bytes * grid), binary.global_scratch * grid
        self.own_bytes = max(self.own_bytes, self._shared_start + swap + scratch)
        slots = {parameter.kind: len(self.template) + number for number, parameter in enumerate(launch.parameters)}
        ends = slots.get(ParameterKind.FIRST_PROGRAM), slots.get(ParameterKind.PROGRAMS)
        for parameter in launch.parameters:
            self._slot(parameter, programs)
        for number in range(loaded.hidden):
            if number == 0 and scratch:
                self.own.append((len(self.template), self._shared_start + swap))
            self.template.append(0)
        begin, end = ends
        range_slots = None if begin is None or end is None else (begin, end)
        self.starts.append(Start(loaded.function, grid, binary.threads, binary.shared, first, programs, range_slots))

    def _slot(self, parameter: LaunchParameter, programs: int) -> None:
        slot, arguments, name = len(self.template), self._arguments, parameter.name
        value = 0
        match parameter.kind:
            case ParameterKind.POINTER:
                self.pointers.append((slot, self._tensors[name]))
            case ParameterKind.SCALAR:
                self.scalars.append((slot, self._scalars[name], parameter.type == "f64"))
            case ParameterKind.BUFFER:
                self.own.append((slot, self._buffers[parameter.number]))
            case ParameterKind.SWAP:
                self.own.append((slot, self._shared_start))
            case ParameterKind.STRIDE:
                value = seen_strides(arguments.tensors[name])[parameter.number]
                _check(value, parameter, f"a stride of `{name}`")
            case ParameterKind.SIZE:
                value = arguments.sizes[name]
                _check(value, parameter, f"the size {name}")
            case ParameterKind.PROGRAMS:
                value = programs
                _check(value, parameter, "the number of programs")
        self.template.append(value)


def _check(value: int, parameter: LaunchParameter, what: str) -> None:
    most = 1 << (_BITS[parameter.type] - 1)
    if not -most <= value < most:
        raise ArgumentError(f"{what} is {value}, which does not fit in {parameter.type}")


def _up(size: int) -> int:
    return -(-size // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT
