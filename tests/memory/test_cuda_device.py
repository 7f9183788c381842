"""Moving a GPU's tensors, on a fake GPU that does what it is asked late and in any order allowed: the same bits."""

from __future__ import annotations

import ctypes
import errno
import random
from types import SimpleNamespace

import pytest
import torch
from torch.utils._python_dispatch import _disable_current_modes

import vkernels.memory
import vkernels.memory.cuda_device as cuda_device
from vkernels.ir.errors import FileError, OutOfMemoryError, SetupError
from vkernels.memory import schedule_executor as devices
from vkernels.memory.cuda_device import CudaDevice
from vkernels.memory.device import Lane
from vkernels.memory.links import Tier
from vkernels.memory.residency import Residency
from vkernels.memory.tiers import Flash

from .fake_cuda import STYLES, FakeCuda, OnGpu, Stream
from .moves import MOVES, move
from .programs import Program, cnn, transformer

pytestmark = pytest.mark.usefixtures("one_thread")
SIZE = 4096
SEEDS = 24
STEPS = 20


class Bytes:
    """A tensor of the fake GPU that a program writes and reads, late; `expected`: what is in it when all is done."""

    def __init__(self, gpu, there, size, fill):
        self.gpu, self.storage, self.expected = gpu, gpu.storage(size), bytearray([fill] * size)
        self.held = there.meet(self.storage)
        self._ask(lambda memory: memory.__setitem__(slice(None), bytes([fill] * size)))

    def add(self, begin, amount):
        """Change the bytes from `begin`, whatever they are when it is done."""

        def work(memory):
            memory[begin:] = bytes((each + amount) % 256 for each in memory[begin:])

        self._ask(work)
        self.expected[begin:] = bytes((each + amount) % 256 for each in self.expected[begin:])

    def check(self, wrong):
        """Note it in `wrong` where they are not as expected when this is done."""
        expected = bytes(self.expected)
        self._ask(lambda memory: wrong.append(1) if bytes(memory) != expected else None)

    def _ask(self, work):
        address, size = self.storage.data_ptr(), len(self.expected)
        self.gpu.ask(self.gpu.program(), lambda: work((ctypes.c_ubyte * size).from_address(address)) and None)


def moved_about(seed, folder, acts=250):
    """How many reads were wrong of a program whose tensors are moved as a draw says."""
    draw, gpu, wrong = random.Random(seed), FakeCuda(seed), []
    there = Residency(CudaDevice(gpu.device, gpu), SIZE, SIZE, SIZE, folder)
    tensors = {}

    for number in range(acts):
        if len(tensors) < 12:
            tensors[number] = Bytes(gpu, there, draw.randint(1, 900), number % 256)
        if draw.random() < 0.05:
            gpu.current = draw.choice(gpu.programs)
        turn(there)
        each = tensors[n := draw.choice([*tensors])]
        act = draw.choice([*MOVES, "write", "read", "free", "end"])
        move(act, there, each.held, draw)
        if act == "write":
            there.will_change(each.held)
            each.add(draw.randrange(each.held.size), number % 7 + 1)
        elif act == "read":
            there.make_readable(each.held)
            each.check(wrong)
        elif act == "free" and draw.random() < 0.4:
            del tensors[n]
        elif act == "end" and draw.random() < 0.3:
            there.settle()
            for other in tensors.values():
                other.check(wrong)
    there.close()
    for each in tensors.values():
        each.check(wrong)
    gpu.synchronize()
    assert there.failed is None
    del there
    assert not gpu.pinned_now or len(tensors), "pages are pinned still"
    return len(wrong)


def turn(there):
    there._on.turn()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_bytes_are_kept_through_any_moves_in_any_order_that_streams_allow(seed, tmp_path):
    assert moved_about(seed, tmp_path) == 0


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """What goes to flash goes in several pieces."""
    monkeypatch.setattr(cuda_device, "PIECE", 128)


def kind_of(stream):
    return "program" if stream in stream.gpu.programs else "lane"


@pytest.mark.parametrize("waits", ["lane program", "lane lane", "program lane", "program program"])
def test_a_stream_that_does_not_wait_for_another_is_caught(waits, tmp_path, monkeypatch):
    really = Stream.wait_event

    def wait_event(self, event):
        if f"{kind_of(self)} {kind_of(event.mark.stream)}" != waits:
            really(self, event)

    monkeypatch.setattr(Stream, "wait_event", wait_event)
    assert any(moved_about(seed, tmp_path) for seed in range(5 * SEEDS))


def through_flash(folder, device=CudaDevice):
    """How many reads were wrong after a tensor was on flash, on a GPU that does nothing before it must."""
    gpu, wrong = FakeCuda(STYLES.index("late")), []
    there = Residency(device(gpu.device, gpu), SIZE, SIZE, SIZE, folder)
    each = Bytes(gpu, there, 900, 3)
    there.bring(each.held, 0)
    each.add(400, 5)
    there.copy_out(each.held, Tier.FLASH, 64)
    there.leave(each.held)
    there.fetch(each.held, 1024, wait=True)
    there.arrive(each.held)
    each.check(wrong)
    there.close()
    gpu.synchronize()
    return len(wrong)


def test_what_was_on_flash_is_the_same(tmp_path):
    assert through_flash(tmp_path) == 0


@pytest.mark.parametrize("lane", [Lane.TO_FLASH, Lane.FROM_FLASH])
def test_a_host_that_does_not_wait_for_copies_of_its_buffer_is_caught(lane, tmp_path, monkeypatch):
    class Hasty(CudaDevice):
        def _record(self, stream):
            event = super()._record(stream)
            if stream is self._streams.get(lane):
                event.synchronize = lambda: None
            return event

    assert through_flash(tmp_path, Hasty)


def limited(make, peaks, part, seed, steps, monkeypatch, **more):
    """Losses under a limit on a fake GPU; the program, its step, and the GPU's mode, in which alone it may be used."""
    gpu = FakeCuda(seed)
    monkeypatch.setattr(cuda_device, "PIECE", 4096)
    monkeypatch.setattr(devices, "device_of", lambda storages: CudaDevice(gpu.device, gpu))
    with OnGpu(gpu) as mode:
        program = Program(make)
        step = vkernels.memory.limit(program.step, int(peaks[make] * part), **more)
        losses = [step() for _ in range(steps)]
        losses = [loss.item() for loss in losses]
    return losses, program, step, mode


def assert_same_state(mode, program, other):
    with _disable_current_modes(), mode:
        theirs = {name: value.clone() for name, value in program.state().items()}
    mode.gpu.synchronize()
    with _disable_current_modes():
        state = other.state()
        assert theirs.keys() == state.keys()
        for name, value in theirs.items():
            assert torch.equal(value, state[name]), name


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("make", "part", "flash", "seed", "steps"),
    [
        (cnn, 0.6, False, 0, 7), (cnn, 0.4, True, 1, 7), (transformer, 0.6, False, 2, 6), (cnn, 0.4, False, 3, 7),
        *(pytest.param(make, part, seed % 3 == 2, seed, STEPS, marks=pytest.mark.thorough)
          for make in (cnn, transformer) for part in (0.6, 0.4) for seed in range(4, 12)),
    ],
)  # fmt: skip
def test_losses_and_weights_are_the_same_bits_on_a_gpu_that_does_everything_late(
    make, part, flash, seed, steps, peaks, tmp_path, monkeypatch
):
    plain = Program(make)
    expected = [plain.step().item() for _ in range(steps)]
    more = {"flash": tmp_path, "host_bytes": peaks[make] // 8} if flash else {}
    losses, program, step, mode = limited(make, peaks, part, seed, steps, monkeypatch, **more)
    report = step.report
    assert losses == expected, mode.gpu.style
    assert mode.asked > 10 * mode.at_once, "hardly anything was late"
    assert (report.planned, report.changed, report.strays) == (steps - 3, 0, 0)
    assert 0 < report.arena <= part * peaks[make]
    assert report.out_bytes >= peaks[make] * (1 - part) * (steps - 3)
    assert (report.flash > 0) == flash
    assert_same_state(mode, program, plain)
    with mode:
        step.close()
        assert_same_state(mode, program, plain)
        assert step().item() == plain.step().item()
    assert not mode.gpu.pinned_now


def test_what_is_written_between_calls_and_other_streams_in_a_step_are_in_order(peaks, monkeypatch):
    def shrink(program):
        with torch.no_grad():
            for value in program.model.parameters():
                value.mul_(0.99)

    plain, expected = Program(cnn), []
    for _ in range(7):
        expected.append(plain.step().item())
        shrink(plain)
        plain.x.add_(0.01)
    Hidden.gpu = gpu = FakeCuda(3)
    monkeypatch.setattr(devices, "device_of", lambda storages: CudaDevice(gpu.device, gpu))
    with OnGpu(gpu) as mode:
        program = Program(cnn)

        def on_two_streams():
            loss = program.step()
            switch(Hidden.gpu, 1)
            shrink(program)
            switch(Hidden.gpu, 0)
            return loss

        step = vkernels.memory.limit(on_two_streams, int(peaks[cnn] * 0.4))
        for n in range(7):
            assert step().item() == expected[n]
            program.x.add_(0.01)
    assert step.report.planned == 4
    assert_same_state(mode, program, plain)


class Hidden:
    """Keeps the fake GPU from the step's closure: its memory is no tensor of the program."""

    gpu = None


def switch(gpu, number):
    """Go on on another stream, after the current one."""
    gpu.programs[number].wait_event(recorded(gpu, gpu.current))
    gpu.current = gpu.programs[number]


def recorded(gpu, stream):
    event = gpu.event()
    event.record(stream)
    return event


@pytest.mark.slow
def test_flash_that_fails_ends_in_an_error_with_all_tensors_intact(peaks, tmp_path, monkeypatch):
    gpu, plain = FakeCuda(2), Program(cnn)
    monkeypatch.setattr(cuda_device, "PIECE", 4096)
    expected = [plain.step().item() for _ in range(10)]
    monkeypatch.setattr(devices, "device_of", lambda storages: CudaDevice(gpu.device, gpu))
    with OnGpu(gpu) as mode:
        program = Program(cnn)
        step = vkernels.memory.limit(program.step, int(peaks[cnn] * 0.4), flash=tmp_path, host_bytes=0)
        losses = [step().item() for _ in range(5)]
        with monkeypatch.context() as broken:
            broken.setattr(Flash, "write", _no_space)
            with pytest.raises(FileError, match="flash cannot be written: No space left on device"):
                step()
        assert losses + [step().item() for _ in range(4)] == expected[:5] + expected[6:]
    assert_same_state(mode, program, plain)


def _no_space(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_memory_that_cannot_be_had_is_said(monkeypatch):
    gpu = FakeCuda(0)

    def refuse(*_):
        raise OutOfMemoryError("no")

    monkeypatch.setattr(gpu, "pin", refuse)
    with pytest.raises(OutOfMemoryError):
        CudaDevice(gpu.device, gpu).host(100)
    monkeypatch.setattr(gpu, "allocate", refuse)
    with pytest.raises(OutOfMemoryError):
        CudaDevice(gpu.device, gpu).arena(100)


def storage_on(device):
    return SimpleNamespace(device=torch.device(device))


def test_a_gpu_that_is_not_here_two_gpus_and_what_is_none_are_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SetupError, match=r"memory on cuda:0 cannot be limited: torch .* finds no GPU here"):
        devices.device_of([storage_on("cpu"), storage_on("cuda:0")])
    with pytest.raises(SetupError, match="cuda:0 and on cuda:1"):
        devices.device_of([storage_on("cuda:1"), storage_on("cuda:0")])
    with pytest.raises(SetupError, match="meta"):
        devices.device_of([storage_on("meta")])
