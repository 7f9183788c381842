"""Training steps in less memory of a real GPU than they need: the same bits, and tensors that can be used as ever."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

import vkernels.memory
from vkernels.ir.errors import OutOfMemoryError
from vkernels.memory.cuda_device import CudaDevice
from vkernels.memory.record import record
from vkernels.memory.residency import Residency

from .moves import MOVES, move
from .programs import Program, assert_same, cnn, transformer

STEPS = 20
SIZE = 1 << 22


@pytest.fixture(autouse=True)
def same_algorithms():
    """The same kernels each time."""
    before = torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
    yield
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = before


def on_gpu(make):
    program = Program(make)
    program.model.cuda()
    program.x, program.y = program.x.cuda(), program.y.cuda()
    return program


@pytest.mark.parametrize("flash", [False, True])
@pytest.mark.parametrize(("make", "part"), [(cnn, 0.6), (cnn, 0.4), (transformer, 0.6), (transformer, 0.5)])
def test_losses_and_weights_are_the_same_bits_within_part_of_the_peak(make, part, flash, tmp_path: Path) -> None:
    plain, again = on_gpu(make), on_gpu(make)
    expected = [plain.step().item() for _ in range(STEPS)]
    if expected != [again.step().item() for _ in range(STEPS)]:
        pytest.skip("the program itself does not give the same bits twice here")
    peak = record(on_gpu(make).step).peak
    program = on_gpu(make)
    more = {"flash": tmp_path, "host_bytes": peak // 8} if flash else {}
    step = vkernels.memory.limit(program.step, int(peak * part), **more)
    kept = [step() for _ in range(STEPS)]
    assert [loss.item() for loss in kept] == expected
    report = step.report
    assert (report.planned, report.changed, report.strays) == (STEPS - 3, 0, 0)
    assert 0 < report.arena <= part * peak
    assert report.out_bytes >= peak * (1 - part) * (STEPS - 3)
    assert (report.flash > 0) == flash
    assert_same(program, plain)
    for name, value in program.state().items():
        assert torch.equal(value.cpu(), plain.state()[name].cpu()), f"{name} is not copied from where it is"
    for each in (program, plain):
        with torch.no_grad():
            for value in each.model.parameters():
                value.mul_(0.99)
                value.copy_(value.cpu())
    assert step().item() == plain.step().item()
    step.close()
    assert_same(program, plain)
    assert step().item() == plain.step().item()


def test_a_kernel_uses_the_hosts_pinned_memory_where_it_is() -> None:
    arena = CudaDevice(torch.device("cuda")).host(SIZE)
    arena.bytes.fill_(7)
    x = torch.empty(0, dtype=torch.uint8, device="cuda").set_(arena.view(512, 1000))
    x += 5
    torch.cuda.synchronize()
    assert (arena.bytes[512:1512] == 12).all()
    assert arena.bytes[511] == arena.bytes[1512] == 7
    assert (x.cpu() == 12).all()
    assert (x.clone() == 12).all()


@pytest.mark.parametrize("seed", range(10))
def test_bytes_are_kept_through_any_moves(seed: int, tmp_path: Path) -> None:
    draw, device = random.Random(seed), CudaDevice(torch.device("cuda"))
    there = Residency(device, SIZE, SIZE, SIZE, tmp_path)
    tensors, held, expected = {}, {}, {}
    streams = [torch.cuda.current_stream(), torch.cuda.Stream()]

    for number in range(300):
        with torch.cuda.stream(draw.choice(streams)):
            device.turn()
            if len(tensors) < 12:
                tensors[number] = torch.randint(256, (draw.randint(1, SIZE // 5),), dtype=torch.uint8, device="cuda")
                expected[number] = tensors[number].cpu()
                held[number] = there.meet(tensors[number].untyped_storage())
            n = draw.choice([*tensors])
            act = draw.choice([*MOVES, "write", "read", "free"])
            move(act, there, held[n], draw, alignment=512)
            if act == "write":
                there.will_change(held[n])
                begin = draw.randrange(len(tensors[n]))
                tensors[n][begin:].add_(number % 7 + 1)
                expected[n][begin:] += number % 7 + 1
            elif act == "read":
                there.make_readable(held[n])
                assert torch.equal(tensors[n].cpu(), expected[n]), f"seed {seed}, step {number}"
            elif act == "free" and draw.random() < 0.4:
                del tensors[n], held[n], expected[n]
    there.close()
    torch.cuda.synchronize()
    assert all(torch.equal(tensors[m].cpu(), expected[m]) for m in tensors), f"seed {seed}"
    assert there.failed is None


def test_an_arena_larger_than_the_gpu_is_refused() -> None:
    with pytest.raises(OutOfMemoryError, match="no memory for an arena"):
        CudaDevice(torch.device("cuda")).arena(1 << 50)
    assert (torch.ones(3, device="cuda") == 1).all()
