"""The timer on a GPU, on a torch whose GPU is this machine's CPU: every call that it makes is made, and made right."""

import ctypes
import time
from types import SimpleNamespace

import pytest
import torch
from msgspec import structs

from vkernels.ir.errors import OutOfMemoryError, SetupError
from vkernels.memory import calibrate_gpu as calibrating
from vkernels.memory import gpu_timer
from vkernels.memory.calibrate_gpu import MemoryKind, calibrate_gpu
from vkernels.memory.calibration import Calibration, Origin
from vkernels.memory.gpu_timer import TorchTimer
from vkernels.memory.placement.choose import choose
from vkernels.memory.placement.costs import BufferPlacement
from vkernels.memory.placement.place import place
from vkernels.memory.placement.program import Buffer, BufferUse, PlacedLaunch, PlacedProgram
from vkernels.targets import known_targets

from .fakes import DISCRETE

ORIN = known_targets()["jetson-agx-orin-64"]


class Event:
    """Of a stream that does everything at once."""

    def __init__(self, enable_timing):
        self.at = 0.0

    def record(self):
        self.at = time.perf_counter()

    def synchronize(self):
        pass

    def elapsed_time(self, other):
        return (other.at - self.at) * 1e3


class FakeTorch:
    """torch, with a GPU whose memory is the host's; pinned memory is what `pinned` has the addresses of."""

    def __init__(self, integrated=True):
        self.pinned, self.version = set(), SimpleNamespace(hip=None)
        self.cuda = SimpleNamespace(
            is_available=lambda: True, device_count=lambda: 1, set_device=lambda device: None, Event=Event,
            synchronize=lambda device=None: None, current_stream=lambda device: SimpleNamespace(cuda_stream=0),
            get_device_properties=lambda device: SimpleNamespace(is_integrated=integrated),
        )  # fmt: skip

    def __getattr__(self, name):
        return getattr(torch, name)

    def device(self, kind, number=0):
        return torch.device("cpu", number)

    def ones(self, *shape, pin_memory=False, device=None):
        made = torch.ones(*shape)
        self.pinned |= {made.data_ptr()} if pin_memory else set()
        return made

    def as_tensor(self, pointer, device):
        given = pointer.__cuda_array_interface__
        assert (given["typestr"], given["version"]) == ("|u1", 3)
        made = (ctypes.c_uint8 * given["shape"][0]).from_address(given["data"][0])
        made.keeps = pointer
        return torch.frombuffer(made, dtype=torch.uint8)


class FakeDriver:
    """Managed memory out of ordinary memory; counts what is freed and asked for."""

    def __init__(self, works=True):
        self.blocks, self.freed, self.asked, self.works = {}, 0, [], works

    def allocate(self, pointer, size, flags):
        if not self.works:
            return 2
        block = ctypes.create_string_buffer(size.value)
        pointer._obj.value = ctypes.addressof(block)
        self.blocks[pointer._obj.value] = block
        return 0

    def free(self, pointer):
        self.freed += 1
        del self.blocks[pointer.value]
        return 0

    def prefetch(self, pointer, size, device, stream):
        self.asked.append(size.value)
        return 0


@pytest.fixture
def fake(monkeypatch):
    """A torch with a GPU, and a driver with managed memory."""
    found, driver = FakeTorch(), FakeDriver()
    for module in ("gpu_timer", "cuda_api", "placement.place"):
        monkeypatch.setattr(f"vkernels.memory.{module}.torch", found)
    monkeypatch.setattr(gpu_timer, "_driver", lambda names: driver)
    return SimpleNamespace(torch=found, driver=driver)


def test_a_whole_calibration_runs_through_every_call(fake, monkeypatch):
    monkeypatch.setattr(calibrating, "LARGE", 1 << 20)
    monkeypatch.setattr(calibrating, "SMALL", 1 << 14)
    said = []
    found = calibrate_gpu(TorchTimer(0), ORIN, said.append)
    assert isinstance(found, Calibration)
    assert (found.origin, found.access.integrated) == (Origin.MEASURED, True)
    assert found.access.managed.prefetch > 0
    assert len(said) == 5
    assert 1 << 20 in fake.driver.asked
    assert not fake.driver.blocks  # all that was allocated was freed


@pytest.mark.parametrize("memory", list(MemoryKind))
@pytest.mark.parametrize("scattered", [False, True])
def test_kernels_write_all_of_the_memory_that_they_are_asked_to(fake, memory, scattered):
    timer = TorchTimer(0)
    buffer = timer._on(memory, 1 << 14)
    assert (buffer.data_ptr() in fake.torch.pinned) == (memory is MemoryKind.MAPPED)
    buffer.fill_(7.0)
    assert timer.kernel(memory, 1 << 14, writes=True, scattered=scattered) >= 0
    assert torch.equal(buffer, torch.ones(1 << 12))
    assert timer.kernel(memory, 1 << 14, scattered=scattered) >= 0
    assert timer.kernel(memory, 1 << 14, often=3) >= 0


def test_without_managed_memory_there_are_no_figures_of_it(fake, monkeypatch):
    monkeypatch.setattr(gpu_timer, "_driver", lambda names: None)
    monkeypatch.setattr(calibrating, "LARGE", 1 << 16)
    timer = TorchTimer(0)
    assert (timer.has_managed, timer.has_prefetch) == (False, False)
    assert calibrate_gpu(timer, ORIN).access.managed is None


def test_a_driver_that_refuses_is_told_of(fake):
    timer = TorchTimer(0)
    fake.driver.works = False
    with pytest.raises(OutOfMemoryError, match="4096 bytes"):
        timer.first_touch(4096, by_device=True)


def test_libraries_that_are_not_here_have_no_managed_memory():
    assert gpu_timer._driver((("libnothing-of-the-kind.so",), "a", "b", "c")) is None


def test_pinned_memory_that_cannot_be_reached_is_a_clear_error(fake, monkeypatch):
    monkeypatch.setattr(fake.torch, "as_tensor", lambda pointer, device: torch.ones(4), raising=False)
    with pytest.raises(SetupError, match="copies memory at an address"):
        gpu_timer.mapped(torch.ones(4), "cuda")

    def refuses(pointer, device):
        raise RuntimeError("not registered\nwith any device")

    monkeypatch.setattr(fake.torch, "as_tensor", refuses, raising=False)
    with pytest.raises(SetupError, match=r"not registered$"):
        gpu_timer.mapped(torch.ones(4), "cuda")


class Pinned(torch.Tensor):
    """A tensor that says that it is pinned."""

    def is_pinned(self):
        return True


def test_tensors_are_put_where_the_decision_says(fake):
    size = 4096
    access = structs.replace(DISCRETE, managed=None)
    uses = (BufferUse("often", size * 64, 0, size * 6400, 0), BufferUse("once", 0, size, 0, size, fresh=True))
    buffers = (Buffer("often", size * 64), Buffer("once", size, None, wanted=True))
    decision = choose(PlacedProgram(buffers, (PlacedLaunch("k", uses, {}, 0.0),)), access)
    assert [each.placement for each in decision.choices] == [BufferPlacement.COPY, BufferPlacement.ZERO_COPY]
    once = torch.zeros(32, 32).as_subclass(Pinned)
    arrays = {"often": torch.ones(64, 1024), "once": once, "other": 3}
    found = place(decision, arrays)
    assert found["other"] == 3
    assert torch.equal(found["often"], arrays["often"])
    found["once"].fill_(5.0)
    assert found["once"].shape == (32, 32)
    assert torch.equal(torch.Tensor(once), torch.full((32, 32), 5.0))
