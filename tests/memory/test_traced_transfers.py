"""Transfers of swapped memory are in traces, in the thread that makes them."""

from __future__ import annotations

import numpy as np
import pytest

from vkernels.memory.cpu_device import AT_ONCE, CpuDevice
from vkernels.memory.device import Lane, Transfer
from vkernels.runtime.tracing import tracing


@pytest.mark.parametrize("lane", [Lane.TO_HOST, Lane.FROM_HOST])
@pytest.mark.parametrize("is_large", [False, True])
def test_a_transfer_is_traced_with_its_bytes(lane, is_large):
    size = AT_ONCE[lane] + 4096 if is_large else 4096
    source = np.random.default_rng(11).integers(0, 255, size, np.uint8)
    to = np.zeros_like(source)
    device = CpuDevice()
    try:
        with tracing() as trace:
            done = device.carry(lane, (source, to), Transfer(source.ctypes.data, to.ctypes.data, size))
            assert device.wait(done) is None
        device.carry(lane, (source, to), Transfer(source.ctypes.data, to.ctypes.data, 64))  # which nobody traces
    finally:
        device.close()
    np.testing.assert_array_equal(to, source)
    (span,) = trace.spans
    assert (span.kind, span.name, span.about) == (lane.value, lane.value, {"bytes": size})
    assert span.start < span.end
    assert (trace.threads[span.thread] != "MainThread") == is_large
