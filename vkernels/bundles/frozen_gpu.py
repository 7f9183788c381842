"""Calls of a bundle's code on a GPU: its binaries are loaded by the driver, and nothing is compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vkernels.compiler.arguments import Arguments
from vkernels.compiler.array_layout import is_aligned, is_large
from vkernels.compiler.size_classes import WIDE
from vkernels.ir.errors import ArgumentError, BundleError, NotInBundleError
from vkernels.ir.launch_arguments import HostArguments, LaunchParameter, ParameterKind
from vkernels.runtime.events import LaunchRecord

from .bundle import Bundle
from .host_sizes import host_arguments
from .loaded_code import read_plan
from .manifest import Code, GpuLaunch, Variant

if TYPE_CHECKING:
    from vkernels.runtime.gpu.bound_executable import BoundGpuExecutable
    from vkernels.runtime.gpu.device import GpuDevice


@dataclass(frozen=True)
class FrozenLaunch:
    """The part of a launch that calls use, see `vkernels.runtime.gpu.packing.LaunchLike`."""

    name: str
    parameters: tuple[LaunchParameter, ...]
    swap_bytes: int
    is_persistent: bool


@dataclass(frozen=True)
class LoadedGpuLaunch:
    """A launch that a device has loaded, see `vkernels.runtime.gpu.packing.Loaded`. `binary`: its record."""

    launch: FrozenLaunch
    binary: GpuLaunch
    function: int
    resident: int
    hidden: int


def gpu_runnable(variant: Variant, device: GpuDevice) -> list[Code]:
    """The code of a variant that a GPU can run: of its architecture, that for the most similar slice first."""
    size = device.limits.multiprocessors
    found = [code for code in variant.codes if code.gpu is not None and code.machine == device.architecture]
    return sorted(found, key=lambda code: abs(code.limits.get("multiprocessors", 0) - size))


class GpuLoader:
    """Loads binaries of a bundle, each once on each device."""

    def __init__(self, bundle: Bundle):
        self._bundle = bundle
        self._functions: dict[tuple[int, str, str], int] = {}

    def bound(self, device: GpuDevice, code: Code, arguments: Arguments, name: str) -> BoundGpuExecutable:
        """The code of a record, for calls with these arguments. `name`: of the kernel.

        Raises `NotInBundleError` where a program does not fit on the device, `BundleError` for a record that does not
        fit its kernel, and `SetupError` where the driver refuses.
        """
        from vkernels.runtime.gpu.bound_executable import BoundGpuExecutable
        from vkernels.runtime.gpu.packing import pack

        gpu = code.gpu
        assert gpu is not None, "code for a GPU"
        with device.driver.on(device.number):
            loaded = [self._launch(device, each, name) for each in gpu.launches]
        if gpu.host is not None:
            prepared = host_arguments(gpu.host, arguments.sizes, self._bundle.path.name)
        else:
            prepared = HostArguments(gpu.buffers, tuple(each.programs for each in gpu.launches))
        try:
            packed = pack(loaded, prepared, arguments)
        except (KeyError, IndexError) as error:
            where = self._bundle.path.name
            raise BundleError(f"{where}: a launch of {name} takes what the kernel does not have: {error}") from None
        return BoundGpuExecutable(device, packed, read_plan(self._bundle, code), code.rung)

    def _launch(self, device: GpuDevice, record: GpuLaunch, name: str) -> LoadedGpuLaunch:
        key = device.number, record.binary, record.name
        if record.shared > device.limits.shared:
            raise NotInBundleError(
                f"{name}: the bundle's code needs {record.shared} bytes of shared memory a program, "
                f"{device.target.name} has {device.limits.shared}"
            )
        function = self._functions.get(key)
        if function is None:
            binary = self._bundle.read(record.binary)
            function = self._functions[key] = device.driver.load(binary, record.name, record.shared)
        blocks = device.driver.resident(function, record.threads, record.shared)
        if blocks < 1:
            raise NotInBundleError(f"{name}: the bundle's code needs more registers than {device.target.name} has")
        parameters = tuple(LaunchParameter(ParameterKind(p.kind), p.name, p.number, p.type) for p in record.parameters)
        launch = FrozenLaunch(record.name, parameters, record.swap_bytes, record.is_persistent)
        resident = record.resident or blocks * device.limits.multiprocessors
        return LoadedGpuLaunch(launch, record, function, resident, record.hidden)


class FrozenGpuCalls:
    """Calls of one shape on a GPU: by code for aligned addresses where all are, by code for any addresses elsewhere.

    `choose`: gives the code for arguments; `arguments`: of a call, whatever its addresses.
    """

    is_repeatable, is_settled = True, True

    def __init__(
        self, device: GpuDevice, arguments: Arguments, choose: Callable[[Arguments], BoundGpuExecutable], name: str
    ):  # fmt: skip
        self._device, self._arguments, self._choose, self._name = device, arguments, choose, name
        self._bound: dict[tuple[bool, ...], BoundGpuExecutable] = {}
        self._last: BoundGpuExecutable | None = None

    def run(self, addresses: Sequence[int], scalars: Sequence[bool | int | float]) -> None:
        """Start the kernel on tensors at these addresses, with these scalars, in the order of the parameters."""
        key = tuple([address % WIDE == 0 for address in addresses])
        bound = self._bound.get(key) or self._bind(key, addresses)
        bound.run(addresses, scalars)

    def launch_record(self) -> LaunchRecord:
        """How calls are run."""
        assert self._last is not None, "after a call"
        return self._last.launch_record()

    def _bind(self, key: tuple[bool, ...], addresses: Sequence[int]) -> BoundGpuExecutable:
        driver = self._device.driver
        with driver.on(self._device.number):
            if driver.is_capturing():
                raise ArgumentError(
                    f"{self._name}: a first call loads code, which cannot be done while a CUDA graph is captured: make "
                    "a call like it before"
                )
        views = zip(self._arguments.tensors.items(), addresses, strict=True)
        tensors = {name: replace(view, address=address) for (name, view), address in views}
        self._last = self._bound[key] = self._choose(replace(self._arguments, tensors=tensors))
        return self._last


def reachable(codes: Sequence[Code], arguments: Arguments) -> list[Code]:
    """The code that a call's addresses and the reach of its tensors allow, that which assumes the most first."""
    aligned = {name for name, view in arguments.tensors.items() if is_aligned(view)}
    large = {name for name, view in arguments.tensors.items() if is_large(view)}
    found = [code for code in codes if aligned.issuperset(code.assumes.aligned) and large.issubset(code.assumes.large)]
    return sorted(found, key=lambda code: -len(code.assumes.aligned))
