"""Eviction on demand: sizes known before operations run, the order of eviction, the host's heap, and late GPUs."""

from __future__ import annotations

import gc
import random
from itertools import pairwise

import pytest
import torch

from vkernels.memory.byte_sizes import parse_share, parse_size
from vkernels.memory.cpu_device import CpuDevice
from vkernels.memory.cuda_device import CudaDevice
from vkernels.memory.demand_executor import DemandExecutor
from vkernels.memory.host_heap import SLAB, HostHeap
from vkernels.memory.op_storages import OpCall, kind_of
from vkernels.memory.program_storages import program_storages
from vkernels.memory.result_sizes import ResultSizes

from .fake_cuda import FakeCuda, OnGpu
from .meter import Meter

KIB = 1 << 10


def demand(limit, host=float("inf")):
    device = CpuDevice()
    return DemandExecutor(device, limit, HostHeap(device, host), strict=True)


def predicted(func, *args, **kwargs):
    return ResultSizes().predict(func, OpCall(func, args, kwargs), args, kwargs)


def test_sizes_of_results_are_known_before_an_operation_runs():
    x, aten = torch.zeros(8, 16), torch.ops.aten
    assert predicted(aten.mm.default, x, x.T) == 8 * 8 * 4
    assert predicted(aten.add_.Tensor, x, x) == 0
    assert predicted(aten.zeros.default, [5, 5], dtype=torch.float64) == 200
    assert predicted(aten.max.dim, x, 1) == 8 * (4 + 8)
    assert predicted(aten._unsafe_view.default, x, [128]) == 0
    assert predicted(aten.index.Tensor, x, [x > 0]) == x.nbytes
    assert predicted(aten.masked_select.default, x, x[0] > 0) == x.nbytes
    assert predicted(aten.nonzero.default, x) == 128 * 2 * 8
    assert predicted(aten.resize_.default, x, [100]) >= 400


def test_only_operations_without_kernels_are_decomposed():
    aten = torch.ops.aten
    assert kind_of(aten.linear.default).decomposes
    assert not kind_of(aten.silu_backward.default).decomposes


def test_predicting_draws_no_random_numbers():
    state = torch.get_rng_state()
    assert predicted(torch.ops.aten.native_dropout.default, torch.ones(10), 0.5, True) == 40 + 10
    assert predicted(torch.ops.aten.randn.default, [10]) == 40
    assert torch.equal(torch.get_rng_state(), state)


def test_what_is_used_again_last_leaves_first_once_that_is_known():
    parts = [torch.full((KIB,), float(n)) for n in range(4)]
    under = demand(3 * 4 * KIB + 64)

    def iteration():
        under.begin()
        with under:
            for n in (0, 1, 2, 3, 2, 1, 0):
                parts[n].add_(1)
        under.end()

    for _ in range(3):
        iteration()
    before = under.counts.back_bytes
    iteration()
    assert under.counts.back_bytes - before == 2 * 4 * KIB
    assert [part[0].item() for part in parts] == [8.0, 9.0, 10.0, 7.0]


def test_a_tensor_that_is_not_written_is_copied_once_a_call():
    parts = [torch.full((KIB,), float(n)) for n in range(3)]
    under = demand(2 * 4 * KIB + 64)
    with under:
        total = sum(parts[n % 3].sum().item() for n in range(9))
    assert total == 3 * KIB * (0 + 1 + 2)
    assert under.counts.out_bytes == 3 * 4 * KIB


def test_blocks_are_free_again_when_nothing_uses_them():
    heap = HostHeap(CpuDevice(), 3 * KIB)
    blocks = [heap.take(KIB) for _ in range(3)]
    assert heap.take(1) is None
    view = blocks[1].view()
    del blocks[1]
    assert heap.take(KIB) is None, "a storage is still in it"
    del view
    assert heap.take(KIB).address == blocks[0].address + KIB
    assert heap.bytes == 3 * KIB < SLAB


@pytest.mark.parametrize("seed", range(3))
def test_free_blocks_are_given_again_and_joined_where_others_need_them(seed):
    draw, heap, blocks = random.Random(seed), HostHeap(CpuDevice(), 8 * KIB), []
    for _ in range(300):
        block = heap.take(draw.choice((100, KIB, 2 * KIB)))
        if block is None:
            del blocks[draw.randrange(len(blocks))]
        else:
            blocks.append(block)
        spans = sorted((each.address, each.size) for each in blocks)
        assert all(one + size <= other for (one, size), (other, _) in pairwise(spans))
        assert sum(size for _, size in spans) <= heap.bytes == 8 * KIB
    del blocks[:], block
    assert heap.take(8 * KIB) is not None


def test_without_room_on_the_host_nothing_is_lost():
    parts = [torch.full((KIB,), float(n)) for n in range(3)]
    under = demand(2 * 4 * KIB + 64, host=4 * KIB)
    under.strict = False
    with under:
        total = sum(parts[n % 3].sum().item() for n in range(9))
    assert total == 3 * KIB * (0 + 1 + 2)
    assert under.heap.bytes <= 4 * KIB


def test_tensors_of_a_step_are_found_before_it_runs():
    model, others = torch.nn.Linear(3, 4), {"batch": [torch.zeros(5)]}
    model.weight.grad = torch.zeros(4, 3)

    def step(x):
        return model(x) + others["batch"][0].sum()

    found = {storage._cdata for storage in program_storages(step, (torch.zeros(2),))}
    for tensor in (model.weight, model.bias, model.weight.grad, others["batch"][0]):
        assert tensor.untyped_storage()._cdata in found
    assert len(found) == 5


@pytest.mark.slow
@pytest.mark.sample(2)
@pytest.mark.parametrize("seed", range(6))
def test_any_program_keeps_the_limit_with_the_same_values(seed):
    draw, under = random.Random(seed), demand(40 * KIB)
    meter = Meter((), under.heap.holds)
    expected, tensors = [], []
    with meter, under:
        for number in range(300):
            act = draw.random()
            if len(tensors) < 3 or (act < 0.3 and len(tensors) < 30):
                size = draw.randint(1, 2 * KIB)
                tensors.append(torch.full((size,), number, dtype=torch.float32))
                expected.append(number)
            elif act < 0.4:
                n = draw.randrange(len(tensors))
                del tensors[n], expected[n]
            elif act < 0.7:
                n = draw.randrange(len(tensors))
                tensors[n][: draw.randint(0, 9)].add_(0)
                tensors[n].add_(1)
                expected[n] += 1
            else:
                n = draw.randrange(len(tensors))
                assert tensors[n].view(-1).max().item() == tensors[n].min().item() == expected[n], seed
    assert meter.peak <= 40 * KIB
    assert under.counts.out_bytes > 0
    under.close()
    gc.collect()
    assert not any(under.heap.holds(each.data_ptr()) for each in tensors)
    assert [each[0].item() for each in tensors] == expected


@pytest.mark.parametrize("seed", range(4))
def test_a_gpu_that_does_everything_late_has_the_same_values(seed):
    gpu = FakeCuda(seed)
    device = CudaDevice(gpu.device, gpu)
    under = DemandExecutor(device, 12 * KIB, HostHeap(device, 1 << 20), strict=True)
    with OnGpu(gpu), under:
        parts = [torch.full((KIB // 2,), float(n)) for n in range(10)]
        for n in range(60):
            parts[n * 7 % 10].add_(parts[n * 3 % 10], alpha=0.5)
    gpu.synchronize()
    expected = [torch.full((KIB // 2,), float(n)) for n in range(10)]
    for n in range(60):
        expected[n * 7 % 10].add_(expected[n * 3 % 10], alpha=0.5)
    assert all(map(torch.equal, parts, expected))
    assert under.counts.out_bytes > 0


def test_sizes_are_parsed():
    assert [parse_size(text) for text in ("4GiB", "2.5 kB", "12", "4 GiBs", "-1")] == [4 << 30, 2500, 12, None, None]
    assert [parse_share(text) for text in ("60%", "0%", "101%", "x%")] == [0.6, None, None, None]
