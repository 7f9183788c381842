"""Calls of one shape on a GPU: code that assumes aligned addresses for those that are, other code for the rest."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

from vkernels.ir.plan import Plan

from ..arguments import Arguments
from ..events import Ran
from ..specialise import WIDE
from .compiling import CompiledGpu
from .device import GpuDevice
from .loading import LoadedLaunch, load
from .packing import pack
from .prepared import PreparedGpu

Compile = Callable[[Arguments], CompiledGpu]
"""The code for what is known of arguments, their addresses included."""


class GpuCalls:
    """What `Launcher` runs for one key of arguments on a GPU. `arguments`: those of its first call, without memory."""

    def __init__(self, device: GpuDevice, arguments: Arguments, compile: Compile):
        self._device, self._arguments, self._compile = device, arguments, compile
        self._aligned: PreparedGpu | None = None
        self._others: dict[Hashable, PreparedGpu] = {}
        self._plan: Plan | None = None

    def run(self, addresses: Sequence[int], scalars: Sequence[bool | int | float]) -> None:
        """Start the kernel on tensors at these addresses, with these scalars, in the order of the parameters."""
        together = 0
        for address in addresses:
            together |= address
        if together % WIDE == 0:
            if self._aligned is None:
                self._aligned = self._prepare(addresses)
            self._aligned.run(addresses, scalars)
            return
        key = tuple(address % WIDE == 0 for address in addresses)
        prepared = self._others.get(key)
        if prepared is None:
            prepared = self._others.setdefault(key, self._prepare(addresses))
        prepared.run(addresses, scalars)

    def ran(self) -> Ran:
        """How calls are run; those of other alignments differ in nothing that is told."""
        prepared = self._aligned or next(iter(self._others.values()))
        assert self._plan is not None, "known with the first code"
        return prepared.ran(self._plan)

    def _prepare(self, addresses: Sequence[int]) -> PreparedGpu:
        views = zip(self._arguments.tensors.items(), addresses, strict=True)
        tensors = {name: replace(view, address=address) for (name, view), address in views}
        arguments = replace(self._arguments, tensors=tensors)
        compiled = self._compile(arguments)
        self._plan = compiled.plan
        prepared = compiled.lowered.prepare(arguments.sizes)
        return PreparedGpu(self._device, pack(loaded_on(self._device, compiled), prepared, arguments))


def loaded_on(device: GpuDevice, compiled: CompiledGpu) -> tuple[LoadedLaunch, ...]:
    """Compiled launches on a device, loaded at the first call for it and kept with the code."""
    loaded = compiled.loaded.get(device.number)
    if loaded is None:
        loaded = compiled.loaded.setdefault(device.number, load(device, compiled))
    return loaded
