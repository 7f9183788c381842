"""What a call of a library function did, and what repeats it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Any

from vkernels.runtime import torch_guards

from . import gpu_arrays
from .call_arguments import Bundle, DynamicScalar, LiveInt, leaves
from .captured_call import CapturedCall, Empty, Expectation, Kind, OutOfDateError, Place, Repeat, Step


@dataclass
class Recorder:
    made: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    steps: list[Any] = field(default_factory=list)
    refused: bool = False
    settled: bool = True

    def launched(self, entry: Any, prepared: Any, addresses: Sequence[int], scalars: Sequence[Any]) -> None:
        self.refused = self.refused or not prepared.is_repeatable
        self.settled = self.settled and prepared is entry.distinct  # not about to be replaced by better code
        self.steps.append((entry, prepared, tuple(addresses), tuple(scalars), len(self.made)))

    @property
    def is_captured(self) -> bool:
        """Whether the call went into a CUDA graph, which owns what the call has made."""
        return gpu_arrays.on_gpu((*self.made, *self.constants)) and gpu_arrays.is_captured()

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

    def __init__(self, recorder: Recorder, values: Sequence[Any]):
        import torch

        self.torch, self.recorder, self.arguments = torch, recorder, values
        found = [*leaves(values)]
        self.places, self.values = [place for place, _ in found], [value for _, value in found]
        self.given = [number for number, value in enumerate(self.values) if isinstance(value, torch.Tensor)]
        self.arrays = [self.values[number] for number in self.given]
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
        of_steps = {id(step[0]) for step in self.recorder.steps if len(step) == 3}
        if any(id(owner) in of_steps for owner in owners):
            raise OutOfDateError
        rest = [array for array in self.recorder.made if all(array is not owner for owner in owners)]
        others = [array for array in rest if id(array) not in of_steps]
        derived = [array for array in rest if id(array) in of_steps]
        self.arrays += [*owners, *others, *derived, *self.recorder.constants]
        numbers = {id(each): len(self.given) + number for number, each in enumerate(returned)}
        numbers |= {id(self.values[number]): at for at, number in enumerate(self.given)}
        known: dict[int, Callable[..., Step]] = {2: self._test, 3: self._computed, 5: self._step}
        steps = [known[len(step)](*step) for step in self.recorder.steps]
        return CapturedCall(
            self._kind(names), tuple(self.places[number] for number in self.given),
            tuple(self._template(each) for each in returned),
            tuple(self._template(each) for each in others), len(derived), tuple(self.recorder.constants),
            tuple(steps), tuple(None if each is None else numbers[id(each)] for each in results),
            isinstance(result, tuple), tuple(_extent(at, self.values[number]) for at, number in enumerate(self.given)),
            self._empty(), self.torch.autograd.graph.increment_version, gpu_arrays.on_gpu(self.arrays),
        )  # fmt: skip

    def _kind(self, names: tuple[str, ...]) -> Kind:
        leaves = zip(self.places, self.values, strict=True)
        others = [(place, value) for place, value in leaves if not isinstance(value, self.torch.Tensor)]
        live = tuple((place, type(value)) for place, value in others if isinstance(value, DynamicScalar | LiveInt))
        numbers = tuple((place, value) for place, value in others if (place, type(value)) not in live)
        bundles = tuple(
            (at, type(value), tuple(each.name for each in fields(value)))  # type: ignore[arg-type]
            for at, value in enumerate(self.arguments) if isinstance(value, Bundle)
        )  # fmt: skip
        is_like = None
        if self.given and (native := torch_guards.guards()) is not None:
            tensors = [self.values[number] for number in self.given]
            is_like = native.TensorGuards(
                *tensors, dynamic_dims_sizes=[list(each.shape) for each in tensors],
                dynamic_dims_strides=[list(each.stride()) for each in tensors],
            ).check  # fmt: skip
        types = tuple(type(self.values[number]) for number in self.given)
        return Kind(len(self.arguments), names, numbers, live, types, is_like, bundles)

    def _empty(self) -> Empty:
        """The fast way of a CPU, except for modes of torch that see every operation: guards tell calls within one
        apart."""
        is_seen = self.torch._C._len_torch_dispatch_stack() > 0
        on_gpu = gpu_arrays.on_gpu((*self.arrays, *self.recorder.made))
        native = None if is_seen or on_gpu else torch_guards.guards()
        return Empty(self.torch.empty_like, None if native is None else native._empty_strided_cpu)

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

    def _live(self, value: Any) -> Place:
        for place, given in zip(self.places, self.values, strict=True):
            if given is value:
                return place
        raise OutOfDateError

    def _computed(self, result: Any, compute: Callable[..., Any], arrays: Sequence[Any]) -> Step:
        return Step(
            None, None, tuple((self._number(each), 0) for each in arrays), compute=compute, made=self._number(result)
        )  # fmt: skip

    def _number(self, array: Any) -> int:
        for number, each in enumerate(self.arrays):
            if each is array:
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
    if array.device.type not in ("cpu", "cuda") or 0 in array.shape:
        return 0, 0
    last = sum((length - 1) * stride for length, stride in zip(array.shape, array.stride(), strict=True))
    return array.data_ptr(), array.data_ptr() + (last + 1) * array.element_size()


def _extent(at: int, array: Any) -> tuple[int, int, int]:
    """An argument's number, its span and its element size in bytes: a later call may have a resized storage."""
    low, high = _span(array)
    return at, high - low, array.itemsize
