"""Storages that move: whatever is asked for in whatever order, every view keeps its bytes."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from vkernels.ir.errors import OutOfMemoryError
from vkernels.memory.cpu_device import Arena, CpuDevice
from vkernels.memory.links import Tier
from vkernels.memory.residency import Residency
from vkernels.memory.tiers import Flash

from .moves import MOVES, move

SIZE = 4096


@pytest.mark.parametrize("seed", range(30))
def test_bytes_are_kept_through_any_moves_in_any_order(seed, tmp_path):
    draw = random.Random(seed)
    there = Residency(CpuDevice(), SIZE, SIZE, SIZE, tmp_path)
    tensors, held, expected = {}, {}, {}

    for number in range(400):
        if len(tensors) < 12:
            tensors[number] = torch.randint(256, (draw.randint(1, 900),), dtype=torch.uint8)
            expected[number] = tensors[number].clone()
            held[number] = there.meet(tensors[number].untyped_storage())
        n, view = draw.choice([*tensors]), None
        act = draw.choice([*MOVES, "write", "read", "free", "settle"])
        move(act, there, held[n], draw)
        if act == "bring":
            assert there.device.holds(tensors[n].data_ptr())
        elif act == "write":
            there.will_change(held[n])
            view = tensors[n][draw.randrange(len(tensors[n])) :]
            view.add_(number % 7 + 1)
            expected[n][-len(view) :] += number % 7 + 1
        elif act == "read":
            there.make_readable(held[n])
            assert torch.equal(tensors[n], expected[n]), f"seed {seed}, step {number}"
        elif act == "free" and draw.random() < 0.4:
            del tensors[n], held[n], expected[n]
        elif act == "settle":
            there.settle()
            assert all(torch.equal(tensors[m], expected[m]) for m in tensors), f"seed {seed}, step {number}"
    there.close()
    assert all(torch.equal(tensors[m], expected[m]) for m in tensors), f"seed {seed}"
    assert not any(each.holds(tensors[m].data_ptr()) for m in tensors for each in (there.device, there.host))
    assert there.failed is None


def test_views_move_with_their_storage(tmp_path):
    there = Residency(CpuDevice(), SIZE, SIZE, 0, tmp_path)
    x = torch.arange(100.0)
    view = x[50:].view(5, 10).t()
    before = view.clone()
    there.bring(there.meet(x.untyped_storage()), 128)
    assert view.data_ptr() - there.device.address == 128 + 50 * 4
    assert torch.equal(view, before)
    x.mul_(2)
    assert torch.equal(view, before * 2)


def test_what_numpy_shares_and_what_is_resized_is_left_alone(tmp_path):
    there = Residency(CpuDevice(), SIZE, SIZE, 0, tmp_path)
    shared = np.ones(8)
    tensor = torch.from_numpy(shared)
    there.bring(there.meet(tensor.untyped_storage()), 0)
    assert tensor.data_ptr() == shared.ctypes.data
    resized = torch.ones(8)
    held = there.meet(resized.untyped_storage())
    there.bring(held, 0)
    there.release(held)
    resized.resize_(500).fill_(3)
    there.copy_out(held, Tier.HOST, 0)
    there.leave(held)
    other = torch.zeros(64)
    there.bring(there.meet(other.untyped_storage()), 0)
    there.settle()
    assert not there.device.holds(resized.data_ptr())
    assert (resized == 3).all()


def test_arenas_outlive_what_made_them_as_long_as_a_tensor_lies_there(tmp_path):
    there = Residency(CpuDevice(), SIZE, SIZE, 0, tmp_path)
    x = torch.arange(64.0)
    there.bring(there.meet(x.untyped_storage()), 64)
    there.settle()
    del there
    assert torch.equal(x + torch.zeros(64), torch.arange(64.0))


def test_flash_gives_back_what_was_written_and_leaves_no_file(tmp_path):
    flash, random_bytes = Flash(tmp_path, SIZE), torch.randint(256, (1000,), dtype=torch.uint8)
    flash.write(200, random_bytes.data_ptr(), 1000)
    back = torch.zeros(1000, dtype=torch.uint8)
    flash.read(200, back.data_ptr(), 1000)
    assert torch.equal(back, random_bytes)
    with pytest.raises(OSError, match="shorter"):
        flash.read(SIZE - 10, back.data_ptr(), 1000)
    assert not list(tmp_path.iterdir())


def test_an_arena_larger_than_memory_is_refused():
    with pytest.raises(OutOfMemoryError, match="no memory for an arena"):
        Arena(1 << 62)
