"""Calls of torch's for a GPU, as far as a torch without one can tell: what is asked for, and what errors become."""

from __future__ import annotations

import contextlib
import ctypes
from types import SimpleNamespace

import pytest
import torch

from vkernels.ir.errors import OutOfMemoryError, SetupError
from vkernels.memory.cuda_api import Cuda, HostArena, Spares
from vkernels.memory.cuda_device import CudaDevice
from vkernels.memory.op_tracer import OpTracer

from .fake_cuda import Event, FakeCuda, Stream


@pytest.fixture
def cuda(monkeypatch):
    """A `Cuda` whose GPU is the CPU; `registered`: what was asked of CUDA's runtime."""
    registered = []

    def register(address, size, flags):
        registered.append((address, size, flags))
        return 0 if size < 1 << 30 else 2

    runtime = SimpleNamespace(cudaHostRegister=register, cudaHostUnregister=registered.append)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "cudart", lambda: runtime)
    made = Cuda(torch.device("cuda"))
    assert made.device == torch.device("cuda", 3)
    made.device = torch.device("cpu")
    made.registered = registered
    return made


def test_the_fake_gpu_has_the_methods_of_the_real_one():
    ours = {name for name in vars(Cuda) if not name.startswith("_")}
    assert ours <= set(dir(FakeCuda))
    for fake, real, names in (
        (Stream, torch.cuda.Stream, ("wait_event",)),
        (Event, torch.cuda.Event, ("record", "query", "synchronize")),
    ):
        assert all(hasattr(fake, name) and hasattr(real, name) for name in names)


def test_a_copy_is_asked_of_a_stream(cuda, monkeypatch):
    streams = []

    @contextlib.contextmanager
    def on(stream):
        streams.append(stream)
        yield

    monkeypatch.setattr(torch.cuda, "stream", on)
    to = cuda.allocate(5).zero_()
    cuda.copy("a stream", to, torch.arange(5, dtype=torch.uint8))
    assert streams == ["a stream"]
    assert to.tolist() == [0, 1, 2, 3, 4]


def test_storages_of_torchs_allocator_are_taken_and_no_others(cuda):
    assert cuda.takes(cuda.storage(100))
    assert cuda.takes(torch.ones(5).untyped_storage())
    assert not cuda.takes(torch.frombuffer(bytearray(8), dtype=torch.uint8).untyped_storage())
    assert not cuda.takes(torch.empty(5, device="meta").untyped_storage())


def test_pages_are_pinned_as_many_as_asked_for_and_given_back_when_nothing_lies_there(cuda, monkeypatch):
    monkeypatch.setattr(cuda, "at", at_address)
    arena = HostArena(cuda, 5000)
    ((address, size, flags),) = cuda.registered
    assert (address, size, flags) == (arena.address, 8192, 3)
    view = arena.view(4096, 100)
    assert view.data_ptr() == address + 4096
    assert arena.bytes.data_ptr() == address
    del arena
    assert len(cuda.registered) == 1, "it is used still"
    del view
    assert cuda.registered[1:] == [address]


def at_address(address, size, owner):
    array = (ctypes.c_char * size).from_address(address)
    array.owner = owner
    return torch.frombuffer(array, dtype=torch.uint8)


def test_pages_that_cannot_be_pinned_are_said(cuda):
    with pytest.raises(OutOfMemoryError, match=r"1073741824 bytes of the host cannot be pinned: CUDA's error 2"):
        cuda.pin(0, 1 << 30)


def test_memory_that_the_gpu_has_not_is_said(cuda, monkeypatch):
    def none(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch, "empty", none)
    with pytest.raises(OutOfMemoryError, match="no memory for an arena of 77 bytes"):
        cuda.allocate(77)
    with pytest.raises(OutOfMemoryError, match="77 bytes of the host cannot be pinned"):
        cuda.pinned(77)


def test_memory_at_an_address_is_described_as_torch_asks_and_torch_must_take_it_where_it_is(cuda, monkeypatch):
    described = []

    def as_tensor(value, device):
        described.append((value.__cuda_array_interface__, value.owner, device))
        return torch.ones(4, dtype=torch.uint8)

    monkeypatch.setattr(torch, "as_tensor", as_tensor)
    owner = object()
    with pytest.raises(SetupError, match="copies memory at an address"):
        cuda.at(4096, 100, owner)
    interface = {"data": (4096, False), "shape": (100,), "typestr": "|u1", "strides": None, "version": 3}
    assert described == [(interface, owner, torch.device("cpu"))]


def test_spare_memory_is_given_back_once_all_that_may_use_it_is_done():
    gpu = FakeCuda(1)
    spares, stream = Spares(gpu), gpu.stream()
    storage = spares.make(100)
    address = storage.data_ptr()
    assert spares.at(address) is not None
    assert not spares.has_dead
    gpu.ask(stream, lambda: None)
    del storage
    assert spares.at(address) is None
    assert spares.has_dead
    event = gpu.event()
    event.record(stream)
    spares.bury([event])
    assert spares.has_dead, "the stream may be using it"
    event.synchronize()
    spares.bury([])
    assert not spares.has_dead


def test_who_records_a_program_sees_no_operations_of_moving_its_tensors(cuda, monkeypatch):
    monkeypatch.setattr(torch.cuda, "stream", contextlib.nullcontext)
    program = Stream(None, "program")
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: program)
    cuda.at = lambda address, size, owner: torch.zeros(size, dtype=torch.uint8)
    monkeypatch.setattr(CudaDevice, "_bytes", lambda self, address, size: torch.zeros(size, dtype=torch.uint8))
    device = CudaDevice(torch.device("cuda"), cuda)
    seen = OpTracer()
    with seen:
        arena, host = device.arena(4096), device.host(4096)
        storages = device.fresh(64), arena.view(0, 64), host.view(0, 64)
        device.copy(arena.address, host.address, 64)
    assert len(storages) == 3
    seen.end_iteration()
    assert not seen.watched.storages
