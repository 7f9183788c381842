"""Transfers of swapped memory are in traces, in the thread that makes them."""

from __future__ import annotations

import time

import numpy as np
import pytest

from vkernels.memory import stream_spans
from vkernels.memory.cpu_device import AT_ONCE, CpuDevice
from vkernels.memory.cuda_device import CudaDevice
from vkernels.memory.device import Lane, Transfer
from vkernels.runtime.tracing import tracing

from .fake_cuda import STYLES, FakeCuda


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


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("most", [2, 256])
def test_a_gpus_transfers_are_traced_when_its_streams_make_them(style, most, tmp_path, monkeypatch):
    monkeypatch.setattr(stream_spans, "MOST_UNTOLD", most)
    gpu = FakeCuda(STYLES.index(style))
    device = CudaDevice(gpu.device, gpu)
    arena, host, flash = device.arena(4096), device.host(4096), device.flash(tmp_path, 4096)
    with tracing() as trace:
        for number in range(4):
            out = device.carry(Lane.TO_HOST, None, Transfer(arena.address, host.address, 1000 + number))
            device.wait(device.carry(Lane.FROM_HOST, None, Transfer(host.address, arena.address, 2000 + number), [out]))
        asked = time.perf_counter()
        stored = device.carry(Lane.TO_FLASH, None, Transfer(arena.address, 0, 300, flash))
        assert device.wait(stored) is None
    device.carry(Lane.TO_HOST, None, Transfer(arena.address, host.address, 64))  # which nobody traces
    device.close()
    spans = {kind: [span for span in trace.spans if span.kind == kind] for kind in ("to host", "from host", "to flash")}
    assert sorted(span.about["bytes"] for span in spans["to host"]) == [1000, 1001, 1002, 1003]
    assert sorted(span.about["bytes"] for span in spans["from host"]) == [2000, 2001, 2002, 2003]
    for kind in ("to host", "from host"):
        assert {trace.threads[span.thread] for span in spans[kind]} == {f"cpu {kind}"}
    for there, back in zip(spans["to host"], spans["from host"], strict=True):
        assert trace.begun < there.start <= there.end <= back.start <= back.end
    if style == "late":
        assert spans["from host"][-1].start > asked, "it is shown when it was asked for"
    (stored,) = spans["to flash"]
    assert (stored.about, trace.threads[stored.thread][:17]) == ({"bytes": 300}, "vkernels to flash")
