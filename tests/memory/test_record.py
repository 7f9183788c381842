"""Recording: real training steps, views, writes in place, and what is freed when."""

from __future__ import annotations

import pytest
import torch

from vkernels.ir.errors import ArgumentError, TraceError
from vkernels.memory.op_tracer import OpTracer
from vkernels.memory.pool import place_trace
from vkernels.memory.record import record, recorded_of
from vkernels.memory.trace import MemoryTrace
from vkernels.memory.trace_file import load, save

from .drawn import assert_apart

FLOAT = 4


def names(trace: MemoryTrace) -> list[str]:
    return [op.name for op in trace.operations]


def test_a_chain_of_operations_is_recorded_in_order_with_sizes_and_lifetimes():
    weight = torch.ones(100)

    def step():
        a = weight * 2
        b = a + 1
        del a
        c = b.sum()
        del b
        return c * 3

    trace = record(step, "chain")
    assert names(trace) == ["mul", "add", "sum", "mul"]
    assert [(each.size, each.is_global) for each in trace.tensors] == [
        (100 * FLOAT, True), (100 * FLOAT, False), (100 * FLOAT, False), (FLOAT, False), (FLOAT, False),
    ]  # fmt: skip
    assert [(op.reads, op.writes) for op in trace.operations] == [
        ((0,), (1,)),
        ((1,), (2,)),
        ((2,), (3,)),
        ((3,), (4,)),
    ]
    assert [(each.start, each.end) for each in trace.lifetimes()] == [(0, 4), (0, 2), (1, 3), (2, 4), (3, 4)]
    assert all(op.seconds > 0 for op in trace.operations)


def test_views_take_no_room_and_copies_do():
    x = torch.ones(8, 8)

    def step():
        view = x.t()[1:].reshape(-1, 8)[:, 2].detach()
        copied = x.t().contiguous()
        return view + copied[0, 1:]

    trace = record(step)
    assert names(trace) == ["clone", "add"]
    assert set(trace.operations[1].reads) == {0, 1}


def test_a_view_keeps_its_storage_alive():
    def step():
        a = torch.ones(64)
        part = a[:2]
        del a
        b = part * 2
        c = b * 2
        del part
        return c * 2

    trace = record(step)
    assert trace.lifetimes()[0].size == 64 * FLOAT
    assert trace.lifetimes()[0].end == 3


def test_writes_in_place_write_the_same_tensor_and_read_it_unless_all_is_written_over():
    x = torch.zeros(16)

    def step():
        x.add_(1)
        x[3:].fill_(2)
        x.fill_(3)
        torch.mul(x, 2, out=x)

    trace = record(step)
    assert names(trace) == ["add_", "fill_", "fill_", "mul"]
    assert [(op.reads, op.writes) for op in trace.operations] == [((0,), (0,)), ((0,), (0,)), ((), (0,)), ((0,), (0,))]


def test_lists_of_tensors_are_read_and_written():
    xs = [torch.ones(4) for _ in range(3)]
    trace = record(lambda: torch._foreach_add_(xs, torch.cat(xs)[:4].chunk(1) * 3))
    assert names(trace) == ["cat", "_foreach_add_"]
    assert trace.operations[0].reads == trace.operations[1].writes == (0, 1, 2)


def test_memory_that_is_freed_in_the_next_iteration_lives_until_then():
    kept: list[torch.Tensor] = []
    x = torch.ones(4)

    def step():
        y = x * 2
        if kept:
            y = y + kept.pop()
        kept.append(y * 1)

    trace = record(step, warm_up=2)
    assert names(trace) == ["mul", "add", "mul"]
    kept_tensor = trace.operations[2].writes[0]
    assert kept_tensor in trace.operations[1].reads
    lifetime = trace.lifetimes()[kept_tensor]
    assert (lifetime.start, lifetime.end) == (2, 5)


def test_a_tensor_that_outlives_the_one_that_replaces_it_takes_room_twice():
    kept: list[torch.Tensor] = [torch.ones(4)]

    def step():
        new = torch.ones(4)
        kept.append(new * 2)
        del kept[0]
        return new * 3

    trace = record(step)
    held = [each for each in trace.tensors if each.name.endswith("held over")]
    assert len(held) == 1
    assert trace.live()[1] == 3 * 4 * FLOAT


def test_what_comes_anew_each_iteration_without_an_operation_is_an_input():
    trace = record(lambda: torch.frombuffer(bytearray(64), dtype=torch.float32) * 2 * 2)
    assert [each.is_global for each in trace.tensors] == [False, False, False]
    assert trace.tensors[0].size == 64


def test_a_program_that_does_not_repeat_is_refused():
    counter = iter(range(10))

    def step():
        x = torch.ones(4)
        return x + 1 if next(counter) % 2 else x * 2

    with pytest.raises(TraceError, match=r"operation 1 was (mul, then add|add, then mul)"):
        record(step)
    with pytest.raises(TraceError, match="other sizes"):
        record(lambda: torch.ones(next(counter)))
    with pytest.raises(TraceError, match="no operation"):
        record(lambda: None)


def test_tensors_without_a_storage_are_refused_by_name():
    sparse = torch.eye(3).to_sparse()
    with pytest.raises(TraceError, match=r"mul.*storage"):
        record(lambda: sparse * 2)


def test_a_warm_up_under_nothing_is_refused():
    with pytest.raises(ArgumentError, match="warm_up"):
        record(lambda: None, warm_up=-1)


def test_what_the_program_raises_goes_through():
    def step():
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        record(step)


class Block(torch.nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.norm, self.mix = torch.nn.LayerNorm(width), torch.nn.MultiheadAttention(width, 2, batch_first=True)
        self.grow, self.shrink = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        x = x + self.mix(h, h, h, need_weights=False)[0]
        return x + self.shrink(torch.nn.functional.gelu(self.grow(x)))


def transformer() -> torch.nn.Module:
    return torch.nn.Sequential(Block(16), Block(16), torch.nn.Linear(16, 5))


def convolutional() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 5)
    )


MODELS = {"transformer": (transformer, (2, 7, 16)), "cnn": (convolutional, (3, 1, 8, 8))}
OPTIMISERS = {
    "adam": lambda p: torch.optim.Adam(p, foreach=True),
    "momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
}


@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize("model", MODELS)
def test_a_training_step_is_recorded_planned_and_unchanged_by_it(tmp_path, model, optimiser):
    make, shape = MODELS[model]

    def trained(watched: bool) -> tuple[list[torch.Tensor], MemoryTrace | None]:
        torch.manual_seed(1)
        net, x = make(), torch.randn(shape)
        opt = OPTIMISERS[optimiser](net.parameters())

        def step():
            opt.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            opt.step()

        if not watched:
            for _ in range(3):
                step()
        return [*net.state_dict().values()], record(step, model) if watched else None

    plain, _ = trained(watched=False)
    state, trace = trained(watched=True)
    assert all(torch.equal(one, other) for one, other in zip(plain, state, strict=True))
    assert trace is not None
    parameters = sum(p.numel() * p.element_size() for p in make().parameters())
    states = {"adam": 2, "momentum": 1}[optimiser]
    known = sum(each.size for each in trace.tensors if each.is_global)
    assert known >= (1 + states) * parameters
    gradients = [
        t for t, life in zip(trace.tensors, trace.lifetimes(), strict=True) if life.end >= len(trace.operations)
    ]
    assert sum(t.size for t in gradients if not t.is_global) >= parameters
    assert trace.peak > known + parameters
    save(trace, tmp_path / "t.json")
    assert load(tmp_path / "t.json") == trace
    placed = place_trace(trace)
    assert_apart(list(trace.blocks()), len(trace.operations), placed.offsets)
    assert placed.footprint <= 1.01 * trace.peak


def test_batch_statistics_are_written():
    net = torch.nn.BatchNorm1d(4)
    trace = record(lambda: net(torch.ones(3, 4)))
    norm = next(op for op in trace.operations if "batch_norm" in op.name)
    held = [n for n in norm.writes if trace.tensors[n].is_global]
    assert [trace.tensors[n].size for n in held] == [4 * FLOAT, 4 * FLOAT]
    assert set(held) <= set(norm.reads)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_a_step_on_cuda_is_recorded_with_the_time_of_its_kernels():
    x = torch.randn(1024, 1024, device="cuda", requires_grad=True)

    def step():
        x.grad = None
        (x @ x).relu().sum().backward()

    trace = record(step)
    assert "mm" in names(trace)
    assert all(op.seconds > 0 for op in trace.operations if op.name == "mm")


def test_a_tensor_that_is_elsewhere_takes_no_room_on_a_device():
    here, there = torch.ones(1000), torch.empty(2000, device="meta")

    def step():
        return (here + 1).sum(), there + 1

    with OpTracer() as watch:
        for _ in range(2):
            step()
            watch.end_iteration()
    recorded = recorded_of(watch.watched, "step")
    sizes = {kind: [each.size for each in recorded.trace_on(kind).tensors] for kind in ("cpu", "meta", "cuda")}
    assert sizes["cpu"] == [1000 * FLOAT, 1000 * FLOAT, FLOAT, 1, 1]
    assert sizes["meta"] == [1, 1, 1, 2000 * FLOAT, 2000 * FLOAT]
    assert sizes["cuda"] == [1] * 5
    assert [each.size for each in recorded.trace.tensors] == [1000 * FLOAT, 1000 * FLOAT, FLOAT, *[2000 * FLOAT] * 2]
