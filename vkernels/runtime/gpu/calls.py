"""Calls of one shape on a GPU: code that assumes aligned addresses for those that are, other code for the rest."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial

from vkernels.ir.errors import ArgumentError, OutOfMemoryError
from vkernels.ir.plan import Plan

from ..arguments import Arguments
from ..events import Ran
from ..specialise import WIDE
from ..way import Finish, Way, with_less
from .compiling import CompiledGpu
from .device import GpuDevice
from .loading import LoadedLaunch, load
from .packing import pack
from .prepared import PreparedGpu

WayFor = Callable[[Arguments, Finish[CompiledGpu, PreparedGpu]], Way[PreparedGpu]]
"""The way to the code for what is known of arguments, their addresses included, given what makes it ready."""


class GpuCalls:
    """What `Launcher` runs for one key of arguments on a GPU. `arguments`: those of its first call, without memory.

    While a graph is captured nothing is loaded: calls run what is ready, be it that something better is by now.
    """

    def __init__(self, kernel: str, device: GpuDevice, arguments: Arguments, way: WayFor):
        self._kernel, self._device, self._arguments, self._way = kernel, device, arguments, way
        self._aligned: PreparedGpu | None = None
        self._others: dict[Hashable, PreparedGpu] = {}
        self._ready_before: dict[Hashable, PreparedGpu] = {}
        self._ways: dict[Hashable, Way[PreparedGpu]] = {}
        self._last: PreparedGpu | None = None

    def run(self, addresses: Sequence[int], scalars: Sequence[bool | int | float]) -> None:
        """Start the kernel on tensors at these addresses, with these scalars, in the order of the parameters."""
        together = 0
        for address in addresses:
            together |= address
        key = None if together % WIDE == 0 else tuple(address % WIDE == 0 for address in addresses)
        prepared = self._aligned if key is None else self._others.get(key)
        if prepared is None:
            prepared = self._prepare(key, addresses)
        try:
            prepared.run(addresses, scalars)
        except OutOfMemoryError as error:
            if self._is_captured():
                raise
            way = self._ways.get(key) or self._way_to(key, addresses)
            with_less(way, error, partial(self._put, key), lambda ready: ready.run(addresses, scalars))

    def ran(self) -> Ran:
        """How calls are run; those of other alignments differ in little that is told."""
        assert self._last is not None, "after a call"
        return self._last.ran()

    def _put(self, key: Hashable, prepared: PreparedGpu | None) -> None:
        if prepared is not None:
            self._last = self._ready_before[key] = prepared
        if key is None:
            self._aligned = prepared
        elif prepared is None:
            self._others.pop(key, None)
        else:
            self._others[key] = prepared

    def _prepare(self, key: Hashable, addresses: Sequence[int]) -> PreparedGpu:
        """The best code by now. Raises `ArgumentError` where there is none yet, and a graph is being captured."""
        if self._is_captured():
            if key in self._ready_before:
                return self._ready_before[key]
            raise ArgumentError(
                f"{self._kernel}: a first call with tensors of these shapes, dtypes and alignments loads code, which "
                "cannot be done while a CUDA graph is captured: make a call like it before"
            )
        way = self._ways.get(key) or self._way_to(key, addresses)
        prepared = way.get()
        self._put(key, prepared)
        way.when_better(lambda: self._put(key, None))
        if way.is_settled:
            self._ways.pop(key, None)
        return prepared

    def _way_to(self, key: Hashable, addresses: Sequence[int]) -> Way[PreparedGpu]:
        """The way of calls of an alignment, from now on."""
        views = zip(self._arguments.tensors.items(), addresses, strict=True)
        tensors = {name: replace(view, address=address) for (name, view), address in views}
        arguments = replace(self._arguments, tensors=tensors)
        return self._ways.setdefault(key, self._way(arguments, partial(self._ready, arguments)))

    def _is_captured(self) -> bool:
        """Whether what is started now goes into a graph instead of to the device."""
        with self._device.driver.on(self._device.number):
            return self._device.driver.is_capturing()

    def _ready(self, arguments: Arguments, compiled: CompiledGpu, plan: Plan, rung: str) -> PreparedGpu:
        prepared = compiled.lowered.prepare(arguments.sizes)
        packed = pack(loaded_on(self._device, compiled), prepared, arguments)
        return PreparedGpu(self._device, packed, plan, rung)


def loaded_on(device: GpuDevice, compiled: CompiledGpu) -> tuple[LoadedLaunch, ...]:
    """Compiled launches on a device, loaded at the first call for it and kept with the code."""
    loaded = compiled.loaded.get(device.number)
    if loaded is None:
        loaded = compiled.loaded.setdefault(device.number, load(device, compiled))
    return loaded
