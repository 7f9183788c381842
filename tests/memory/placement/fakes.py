"""A GPU that answers a timer's questions by figures that it was given."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from vkernels.memory.calibrate_gpu import FAULT_BYTES, MemoryKind
from vkernels.memory.calibration import AccessCosts, AccessRates, Managed


@dataclass(frozen=True)
class FakeGpu:
    """A `calibrate_gpu.GpuTimer` that behaves as `access` says."""

    access: AccessCosts
    cache_rate: float = 1e13

    @property
    def integrated(self):
        return self.access.integrated

    @property
    def has_managed(self):
        return self.access.managed is not None

    @property
    def has_prefetch(self):
        return self.access.managed is not None and self.access.managed.prefetch is not None

    def copy(self, size, to_device):
        return self.access.copy_seconds + size / (self.access.to_device if to_device else self.access.to_host)

    def kernel(self, memory, size, writes=False, scattered=False, often=1):
        rates = self.access.device if memory is MemoryKind.DEVICE else self.access.mapped
        name = ("scattered_" if scattered else "") + ("write" if writes else "read")
        rate, seconds = getattr(rates, name), self.access.launch_seconds
        is_cached = memory is MemoryKind.DEVICE or self.access.is_cached
        again = size * (often - 1) / (self.cache_rate if is_cached else rate)
        return seconds + size / rate + again

    def first_touch(self, size, by_device):
        managed = self.access.managed
        seconds = managed.first_seconds + ceil(size / managed.fault_bytes) * managed.fault_seconds
        seconds += size / (managed.to_device if by_device else managed.to_host)
        if by_device:
            return seconds + self.access.launch_seconds + size / self.access.device.read
        return seconds + size / self.access.host

    def prefetch(self, size):
        return self.access.managed.prefetch_seconds + size / self.access.managed.prefetch

    def launch(self):
        return self.access.launch_seconds

    def by_host(self, size, pinned):
        return size / (self.access.pinned_by_host if pinned else self.access.host)


DISCRETE = AccessCosts(
    False,
    2e10,
    2.5e10,
    8e-6,
    AccessRates(2e12, 1.8e12, 1e12, 8e11),
    AccessRates(1.5e10, 1.8e10, 6e9, 5e9),
    False,
    3e10,
    2e10,
    3e-6,
    Managed(0.0, FAULT_BYTES, 1.2e10, 1e10, 1.9e10, 9e-6, 4e-5),
)
INTEGRATED = AccessCosts(
    True,
    3e10,
    4e10,
    8e-6,
    AccessRates(1.5e11, 1.4e11, 1e11, 9e10),
    AccessRates(1.4e11, 1.3e11, 5e10, 4e10),
    True,
    3e10,
    3e10,
    5e-6,
    None,
)
