"""Real training steps in less memory than they need: the same bits, whatever happens to the program or to flash."""

from __future__ import annotations

import errno
import resource
import signal

import numpy as np
import pytest
import torch

import vkernels.memory
from vkernels.ir.errors import ArgumentError, FileError, MemoryPlanError, OutOfMemoryError, OverLimitWarning
from vkernels.memory.limit import LINKS
from vkernels.memory.record import record
from vkernels.memory.tiers import Flash
from vkernels.memory.trace_file import save

from .matrix_programs import Carried, Gan, InferenceOnly, Unet
from .meter import Meter
from .programs import Program, assert_same, cnn, transformer

pytestmark = pytest.mark.usefixtures("one_thread")
STEPS = 20


def limited(make, peaks, part=0.6, **more):
    """A program and its step under a limit."""
    program = Program(make)
    return program, vkernels.memory.limit(program.step, int(peaks[make] * part), watch=True, **more)


def in_memory(program, *memories):
    """Whether all that a program has learnt lies in some memories."""
    return [any(each.holds(value.data_ptr()) for each in memories) for value in program.state().values()]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("make", "part", "flash"),
    [
        (cnn, 0.6, False), (cnn, 0.4, False), (cnn, 0.4, True), (transformer, 0.6, False), (transformer, 0.4, False),
        pytest.param(cnn, 0.6, True, marks=pytest.mark.thorough), (transformer, 0.6, True),
        pytest.param(transformer, 0.4, True, marks=pytest.mark.thorough),
    ],
)  # fmt: skip
def test_losses_and_weights_are_the_same_bits_within_part_of_the_peak(make, part, flash, peaks, tmp_path):
    plain = Program(make)
    expected = [plain.step().item() for _ in range(STEPS)]
    more = {"flash": tmp_path, "host_bytes": peaks[make] // 8, "links": LINKS} if flash else {}
    program, step = limited(make, peaks, part, **more)
    losses = [step().item() for _ in range(STEPS)]
    report = step.report
    assert losses == expected
    assert_same(program, plain)
    assert (report.calls, report.planned, report.changed) == (STEPS, STEPS - 3, 0)
    assert 0 < report.arena <= part * peaks[make]
    assert report.strays == 0, "an operation used what was not on the device"
    assert report.escapes <= STEPS - 3, "more than the loss that is given back got memory of its own"
    moved = peaks[make] * (1 - part) * (STEPS - 3)
    assert report.out_bytes >= moved
    assert report.back_bytes >= moved
    assert (report.flash > 0) == flash
    assert report.host <= more.get("host_bytes", report.host)
    assert not list(tmp_path.iterdir())
    step.close()
    assert_same(program, plain)
    assert step().item() == plain.step().item()


def test_tensors_really_lie_in_the_arenas_and_after_close_in_memory_of_their_own(peaks):
    program, step = limited(cnn, peaks)
    for _ in range(5):
        step()
    there = step._follow.there
    assert all(in_memory(program, there.device, there.host))
    before = {name: value.clone() for name, value in program.state().items()}
    step.close()
    assert not any(in_memory(program, there.device, there.host))
    assert all(torch.equal(value, before[name]) for name, value in program.state().items())


def test_without_need_nothing_is_moved(peaks):
    program = Program(cnn)
    step = vkernels.memory.limit(program.step, int(1.3 * peaks[cnn]))
    plain = Program(cnn)
    assert [step().item() for _ in range(6)] == [plain.step().item() for _ in range(6)]
    assert step.report.planned == 3
    assert step.report.out_bytes == step.report.back_bytes == 0


def test_between_calls_the_program_may_read_write_and_keep_what_it_likes(peaks, tmp_path):
    plain = Program(cnn)
    program, step = limited(cnn, peaks, 0.4, flash=tmp_path, host_bytes=peaks[cnn] // 8)
    kept, expected = [], []
    for n in range(9):
        for each, call, losses in ((plain, plain.step, expected), (program, step, kept)):
            losses.append(call())
            with torch.no_grad():
                for value in each.state().values():
                    if value.is_floating_point():
                        value.mul_(0.99)
            each.x.add_(0.01 * n)
        assert_same(program, plain)
    assert [each.item() for each in kept] == [each.item() for each in expected]
    assert step.report.planned == 6


def test_new_batches_take_the_place_of_old_ones(peaks):
    plain = Program(cnn)
    program, step = limited(cnn, peaks, 0.5)
    draw = torch.Generator().manual_seed(5)
    for _ in range(8):
        x, y = torch.randn(8, 3, 32, 32, generator=draw), torch.randint(10, (8,), generator=draw)
        assert step(x, y).item() == plain.step(x.clone(), y.clone()).item()
    assert_same(program, plain)
    assert step.report.planned == 5
    assert step.report.changed == 0


def test_memory_that_numpy_shares_stays_where_it_is(peaks):
    shared = np.random.default_rng(3).normal(size=(8, 3, 32, 32)).astype(np.float32)
    plain = Program(cnn)
    program, step = limited(cnn, peaks)
    program.x = torch.from_numpy(shared)
    for _ in range(7):
        plain.x = torch.from_numpy(shared.copy())
        assert step().item() == plain.step().item()
        shared *= 0.9
    assert program.x.data_ptr() == shared.ctypes.data
    assert step.report.planned == 4


@pytest.mark.parametrize("change", ["another operation", "more operations", "fewer operations", "other sizes"])
def test_a_program_that_changes_once_runs_on_without_the_plan_and_then_with_it(change, peaks, tmp_path):
    programs = [Program(cnn), Program(cnn)]

    def step_of(program):
        def step(n):
            x, y = program.x, program.y
            if n == 6 and change == "another operation":
                x = x * 1.5
            if n == 6 and change == "other sizes":
                x, y = x[:4].clone(), y[:4].clone()
            if n == 6 and change == "fewer operations":
                return program.model(x).sum().detach()
            loss = program.step(x, y)
            return loss * 2 if n == 6 and change == "more operations" else loss

        return step

    plain, step = step_of(programs[0]), step_of(programs[1])
    step = vkernels.memory.limit(step, int(peaks[cnn] * 0.4), flash=tmp_path, host_bytes=peaks[cnn] // 8, watch=True)
    assert [step(n).item() for n in range(10)] == [plain(n).item() for n in range(10)]
    assert_same(*programs)
    assert (step.report.planned, step.report.changed) == (6, 1)
    assert "operation" in step.report.why


def test_what_is_resized_within_a_step_gets_memory_of_its_own(peaks):
    programs = [Program(cnn), Program(cnn)]

    def step_of(program):
        def step(n):
            loss = program.step()
            if n >= 5:
                program.x.resize_(8 + n, 3, 32, 32)[8:].zero_()
                program.x = program.x[:8].clone()
            return loss

        return step

    plain, step = step_of(programs[0]), vkernels.memory.limit(step_of(programs[1]), int(peaks[cnn] * 0.5), watch=True)
    assert [step(n).item() for n in range(9)] == [plain(n).item() for n in range(9)]
    assert_same(*programs)
    assert "resize_" in step.report.why


def test_a_program_that_changes_for_good_is_recorded_anew(peaks):
    programs = [Program(cnn), Program(cnn)]
    halves = [(each.x[:4].clone(), each.y[:4].clone()) for each in programs]

    def step(n):
        return programs[1].step(*(halves[1] if n >= 5 else ()))

    step = vkernels.memory.limit(step, int(peaks[cnn] * 0.5), watch=True)
    expected = [programs[0].step(*(halves[0] if n >= 5 else ())).item() for n in range(14)]
    assert [step(n).item() for n in range(14)] == expected
    assert_same(*programs)
    assert step.report.changed == 2
    assert step.report.planned == 2 + 5


def test_what_the_step_raises_goes_through_and_nothing_is_lost(peaks):
    plain = Program(cnn)
    program, step = limited(cnn, peaks, 0.4)
    for _ in range(4):
        assert step().item() == plain.step().item()
    for each, call in ((plain, plain.step), (program, step)):
        with pytest.raises(IndexError, match="out of bounds"):
            call(each.x, torch.full((8,), 99))
    assert_same(program, plain)
    assert [step().item() for _ in range(4)] == [plain.step().item() for _ in range(4)]
    assert step.report.changed == 1
    assert step.report.planned == 5


def test_a_limit_that_cannot_be_kept_is_said_once_and_the_bits_are_the_same(peaks):
    plain = Program(cnn)
    program, step = limited(cnn, peaks, 0.1)
    with pytest.warns(
        OverLimitWarning, match=r"convolution has to have \d+ bytes on cpu at once.* limit is \d+"
    ) as said:
        losses = [step().item() for _ in range(5)]
    assert len(said) == 1
    assert losses == [plain.step().item() for _ in range(5)]
    assert step.report.over > 5
    assert_same(program, plain)


def test_a_strict_limit_that_cannot_be_kept_is_an_error_before_the_operation_runs(peaks):
    plain = Program(cnn)
    program, step = limited(cnn, peaks, 0.1, strict=True)
    before = {name: value.clone() for name, value in program.state().items()}
    with pytest.raises(OutOfMemoryError, match=r"convolution has to have \d+ bytes"):
        step()
    assert all(torch.equal(before[name], value) for name, value in program.state().items())
    step.close()
    program.iteration = 0
    assert program.step().item() == plain.step().item()


def test_a_limit_that_is_too_low_for_the_trace_is_refused_before_the_first_call(peaks, tmp_path):
    program = Program(cnn)
    save(record(program.step), tmp_path / "step.json")
    with pytest.raises(MemoryPlanError, match="operation") as refused:
        vkernels.memory.limit(program.step, "10%", trace=tmp_path / "step.json")
    assert refused.value.least > 0.1 * peaks[cnn]
    step = vkernels.memory.limit(program.step, "60%", trace=tmp_path / "step.json", strict=True)
    for _ in range(5):
        step()
    assert step.report.arena <= 0.6 * step.report.peak


@pytest.mark.parametrize("make", [Gan, pytest.param(Unet, marks=pytest.mark.slow), Carried, InferenceOnly])
def test_the_least_that_a_trace_allows_is_enough_on_demand_and_a_byte_less_is_not(make, tmp_path):
    program = make()
    save(record(lambda: program.step(0)), tmp_path / "step.json")
    with pytest.raises(MemoryPlanError, match="are needed") as refused:
        vkernels.memory.limit(program.step, 1, trace=tmp_path / "step.json")
    least, program = refused.value.least, make()
    step = vkernels.memory.limit(program.step, least, trace=tmp_path / "step.json", strict=True)
    with Meter(program.state(), step.on_host) as meter:
        for i in range(3):
            step(i)
    assert meter.peak <= least
    program = make()
    step = vkernels.memory.limit(program.step, least - 1, strict=True)
    with pytest.raises(OutOfMemoryError, match=f"{least} bytes"):
        [*map(step, range(3))]


@pytest.mark.parametrize("sizes", [{"bytes": -1}, {"bytes": 1.5}, {"bytes": 10, "host_bytes": -1}, {"bytes": True},
    {"bytes": "4 GiBs"}, {"bytes": "60%"}, {"bytes": 8, "host_bytes": "1 pint"}])  # fmt: skip
def test_what_is_no_size_is_refused(sizes):
    with pytest.raises(ArgumentError, match="bytes"):
        vkernels.memory.limit(lambda: None, **sizes)


def test_a_flash_that_is_not_there_is_refused_before_the_step_runs(peaks, tmp_path):
    plain = Program(cnn)
    program, step = limited(cnn, peaks, 0.4, flash=tmp_path / "none", host_bytes=0)
    for _ in range(3):
        assert step().item() == plain.step().item()
    with pytest.raises(FileError, match="flash cannot be written there"):
        step()
    assert_same(program, plain)
    assert program.iteration == 3


def test_a_disk_without_room_is_refused_before_the_step_runs(peaks, tmp_path):
    plain = Program(cnn)
    program, step = limited(cnn, peaks, 0.4, flash=tmp_path, host_bytes=0)
    for _ in range(3):
        assert step().item() == plain.step().item()
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
        with pytest.raises(FileError, match=r"no room for \d+ bytes of flash"):
            step()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert_same(program, plain)
    assert program.iteration == 3
    assert [step().item() for _ in range(3)] == [plain.step().item() for _ in range(3)]
    assert step.report.planned == 3


def test_flash_that_fails_while_it_is_written_ends_in_an_error_with_all_tensors_intact(peaks, tmp_path, monkeypatch):
    plain = Program(cnn)
    program, step = limited(cnn, peaks, 0.4, flash=tmp_path, host_bytes=0)
    for _ in range(5):
        assert step().item() == plain.step().item()
    writes, write = [], Flash.write

    def failing(self, *numbers):
        writes.append(numbers)
        if len(writes) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(self, *numbers)

    monkeypatch.setattr(Flash, "write", failing)
    with pytest.raises(FileError, match="flash cannot be written: No space left on device"):
        step()
    plain.step()
    assert len(writes) >= 3
    assert_same(program, plain)
    monkeypatch.setattr(Flash, "write", write)
    assert [step().item() for _ in range(4)] == [plain.step().item() for _ in range(4)]
    assert_same(program, plain)
