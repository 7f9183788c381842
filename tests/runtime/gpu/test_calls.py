"""Calls with tensors on a GPU reach its driver as they should: run by a driver that interprets TTIR, or noted."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from jaxtyping import Float

import vkernels as vk
from tests.library.reference import assert_close, fresh_seed, normal, poisoned
from vkernels.ir.errors import ArgumentError, PlanError, SetupError
from vkernels.ir.plan import Home, Plan
from vkernels.library.dense import matmul_bias
from vkernels.library.rows import layer_norm_rows, softmax_rows
from vkernels.library.spdnn import spdnn
from vkernels.runtime.dispatch import Launcher
from vkernels.runtime.gpu import device
from vkernels.targets import target_named

from ..test_aliasing import kept
from .fakes import STREAM, FakeDriver, OnGpu, RunningDriver, use

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


def with_plan(kernel: vk.Kernel, plan: Plan) -> Launcher:
    """A launcher of its own, with another plan."""
    copy = vk.kernel(plan=plan)(kernel.function)
    return Launcher(copy)


@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (3, 100), (5, 33), (2, 9000)])
def test_softmax_is_right(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int], dtype: torch.dtype) -> None:
    x, out = normal(shape, dtype, fresh_seed()), poisoned(shape, dtype)
    tensors = OnGpu(x), OnGpu(out)
    use(monkeypatch, RunningDriver(tensors))
    Launcher(softmax_rows)(*tensors)
    assert_close(out, torch.softmax(x.double(), -1), shape[1])


def test_values_kept_in_swap_space_are_right_with_fewer_residents_than_programs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shape = (7, 100)
    x, out = normal(shape, torch.float32, fresh_seed()), poisoned(shape, torch.float32)
    tensors = OnGpu(x), OnGpu(out)
    driver = RunningDriver(tensors)
    use(monkeypatch, driver)
    plan = Plan({"i": 1}, {"j": 32}, {"e": Home.MEMORY}, lanes="j", warps=1, resident_programs=2)
    with_plan(softmax_rows, plan)(*tensors)
    assert_close(out, torch.softmax(x.double(), -1), shape[1])
    (launched,) = driver.launches
    assert launched.grid == 2
    (own,) = driver.allocations
    assert own.bytes.size == 2 * 128 * 4  # f32, chunks of 32 over 100 columns, for two residents
    assert own.data_ptr().to_bytes(8, "little") in launched.slots


def test_a_split_axis_is_combined_through_the_calls_own_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = (2, 1000)
    x, out = normal(shape, torch.float32, fresh_seed()), poisoned(shape, torch.float32)
    tensors = OnGpu(x), OnGpu(out)
    driver = RunningDriver(tensors)
    use(monkeypatch, driver)
    with_plan(softmax_rows, Plan({"i": 1}, {"j": 64}, splits={"j": 4}, lanes="j", warps=1))(*tensors)
    assert_close(out, torch.softmax(x.double(), -1), shape[1])
    assert len(driver.launches) > 1
    assert len(driver.allocations) == 1


def test_scalars_reach_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    seed, shape = fresh_seed(), (4, 70)
    x, out = normal(shape, torch.float32, seed), poisoned(shape, torch.float32)
    weight, bias = (normal(shape[1:], torch.float32, seed + n) for n in (1, 2))
    tensors = [OnGpu(t) for t in (x, weight, bias, out)]
    use(monkeypatch, RunningDriver(tensors))
    launcher = Launcher(layer_norm_rows)
    for eps in (1e-5, 0.75):
        launcher(*tensors[:3], eps, tensors[3])
        exact = torch.nn.functional.layer_norm(x.double(), shape[1:], weight.double(), bias.double(), eps)
        assert_close(out, exact, shape[1], scale=4)


def test_matmul_of_strided_operands_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    seed, (m, n, k) = fresh_seed(), (33, 20, 50)
    a = normal((k, m), torch.float32, seed).t()
    b = normal((2 * k, 2 * n), torch.float32, seed + 1)[::2, ::2]
    bias, out = normal((n,), torch.float32, seed + 2), poisoned((m, n), torch.float32)
    tensors = [OnGpu(t) for t in (a, b, bias, out)]
    use(monkeypatch, RunningDriver(tensors))
    Launcher(matmul_bias)(*tensors, "relu")
    assert_close(out, torch.relu(a.double() @ b.double() + bias.double()), k, scale=8)


def test_each_program_has_memory_for_its_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver checks where they are. Of a call whose rows are no multiples of 16 bytes, threads load and store."""
    seed, (m, k, n) = fresh_seed(), (70, 48, 32)
    for columns, described in ((n, 2), (n - 1, 1)):
        a, b = normal((m, k), torch.float16, seed), normal((k, columns), torch.float16, seed + 1)
        bias, out = normal((columns,), torch.float16, seed + 2), poisoned((m, columns), torch.float16)
        tensors = [OnGpu(t) for t in (a, b, bias, out)]
        driver = RunningDriver(tensors)
        use(monkeypatch, driver)
        plan = Plan({"i": 32, "j": 16}, {"k": 16}, order=("i", "j"), descriptors=("a", "b"))
        with_plan(matmul_bias, plan)(*tensors, "relu")
        assert_close(out, torch.relu(a.double() @ b.double() + bias.double()), k, scale=8)
        (launched,), (own,) = driver.launches, driver.allocations
        assert own.bytes.size == launched.grid * 128 * described


def test_a_scratchpad_is_asked_for_and_right(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(fresh_seed())
    neurons, images, layers, each = 32, 6, 3, 4
    y = torch.from_numpy(generator.random((neurons, images), np.float32))
    column = torch.from_numpy(generator.integers(0, neurons, (layers, neurons, each)))
    weight = torch.from_numpy(generator.standard_normal((layers, neurons, each)).astype(np.float32))
    out, peak = poisoned((neurons, images), torch.float32), poisoned((images,), torch.float32)
    expected = y.double()
    for c, w in zip(column, weight.double(), strict=True):
        expected = ((w[..., None] * expected[c]).sum(1) - 0.1).clamp(0, 32)
    tensors = [OnGpu(t) for t in (y, column, weight, out, peak)]
    driver = RunningDriver(tensors)
    use(monkeypatch, driver)
    Launcher(spdnn)(*tensors[:3], -0.1, *tensors[3:])
    assert_close(out, expected, layers * each, scale=8)
    assert_close(peak, expected.max(0).values, layers * each, scale=8)
    assert driver.launches[0].shared >= 4 * neurons


@vk.kernel(plan=Plan({"i": 4}, {"j": 8}, lanes="j", warps=2))
def scaled(x: Float[vk.Tensor, "M N"], by: vk.Scalar, out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    out[i, j] = by * x[i, j]


def note(monkeypatch: pytest.MonkeyPatch, x: torch.Tensor, out: torch.Tensor, driver: FakeDriver) -> None:
    """Call `scaled` with 2.5, and only note it."""
    use(monkeypatch, driver)
    Launcher(scaled)(OnGpu(x), 2.5, OnGpu(out))


def test_arguments_are_packed_in_the_parameters_order(monkeypatch: pytest.MonkeyPatch) -> None:
    x, out, driver = torch.zeros(100, 37)[:, 3:], torch.zeros(100, 34), FakeDriver()
    note(monkeypatch, x, out, driver)
    (launched,) = driver.launches
    assert (launched.grid, launched.threads, launched.shared, launched.stream) == (25, 64, 0, STREAM)
    names = [p.name for p in Launcher(scaled).compile((OnGpu(x), 2.5, OnGpu(out)), {}).lowered.launches[0].parameters]
    assert names == ["x", "x", "by", "out", "out", "M", "N"]
    x_slot, x_stride, by, out_slot, out_stride, m, n, scratch, profile = launched.slots
    assert (x_slot, out_slot) == (struct.pack("<q", x.data_ptr()), struct.pack("<q", out.data_ptr()))
    assert (x_stride[:4], out_stride[:4]) == (struct.pack("<i", 37), struct.pack("<i", 34))
    assert (by, m, n) == (struct.pack("<d", 2.5), struct.pack("<q", 100), struct.pack("<q", 34))
    assert scratch == profile == bytes(8)


def test_code_follows_the_alignment_of_each_address(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, memory = FakeDriver(), torch.zeros(8 * 64 + 1)
    use(monkeypatch, driver)
    launcher, out = Launcher(scaled), OnGpu(torch.zeros(8, 64))
    for start in (0, 1, 0, 1):
        launcher(OnGpu(memory[start : start + 512].view(8, 64)), 1.0, out)
    first, second = (code.decode() for code, _, _ in driver.loaded)
    assert first.count("tt.divisibility") > second.count("tt.divisibility") > 0
    assert [launched.function for launched in driver.launches] == [1, 2, 1, 2]


def test_an_empty_call_launches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeDriver()
    note(monkeypatch, torch.zeros(0, 8), torch.zeros(0, 8), driver)
    assert not driver.launches


@dataclass(frozen=True)
class Ghost:
    """Storage of so many bytes that are nowhere."""

    bytes: int

    def nbytes(self) -> int:
        return self.bytes

    def __len__(self) -> int:
        return self.bytes


def test_a_grid_beyond_what_gpus_start_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, driver = 4 * (1 << 31), FakeDriver()
    x = torch.zeros(1, 8).expand(rows, 8)
    # The output is nowhere: nothing may run.
    ghost = torch.Tensor._make_wrapper_subclass(OnGpu, (rows, 8), strides=(8, 1), dtype=x.dtype, device="cuda:0")
    ghost.memory = SimpleNamespace(
        data_ptr=lambda: 1 << 40, untyped_storage=lambda: Ghost(rows * 32), storage_offset=lambda: 0
    )
    use(monkeypatch, driver)
    with pytest.raises(PlanError, match=r"2147483648 programs, more than the 2147483647 that a GPU counts"):
        Launcher(scaled)(OnGpu(x), 1.0, ghost)
    assert not driver.launches


def test_a_call_is_launched_on_its_tensors_device(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeDriver()
    use(monkeypatch, driver)
    launcher = Launcher(scaled)
    launcher(OnGpu(torch.zeros(8, 8), "cuda:1"), 1.0, OnGpu(torch.zeros(8, 8), "cuda:1"))
    assert set(driver.entered) == {1}
    entered = len(driver.entered)
    launcher(OnGpu(torch.zeros(8, 8)), 1.0, OnGpu(torch.zeros(8, 8)))
    assert len(driver.loaded) == 2  # functions belong to a device
    assert set(driver.entered[entered:]) <= {0}
    assert len(driver.launches) == 2


def test_tensors_on_different_devices_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeDriver())
    x, out = torch.zeros(8, 8), torch.zeros(8, 8)
    with pytest.raises(ArgumentError, match="`out`: expected a tensor on device cuda:0, as `x`, got cpu"):
        scaled(OnGpu(x), 1.0, out)
    with pytest.raises(ArgumentError, match="`out`: expected a tensor on device cpu, as `x`, got cuda:1"):
        scaled(x, 1.0, OnGpu(out, "cuda:1"))


def test_tensors_that_overlap_in_part_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, memory = FakeDriver(), torch.zeros(9, 8)
    use(monkeypatch, driver)
    with pytest.raises(ArgumentError, match="expected the same memory as `x` or none of it"):
        scaled(OnGpu(memory[:8]), 1.0, OnGpu(memory[1:]))
    scaled(OnGpu(memory), 1.0, OnGpu(memory))
    assert len(driver.launches) == 1


def test_only_the_cpu_interprets() -> None:
    tensor = OnGpu(torch.zeros(8, 8))
    with pytest.raises(ArgumentError, match="only the CPU interprets kernels; got tensors on cuda:0"):
        scaled.interpret(tensor, 1.0, tensor)


def test_a_program_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PlanError, match="does not fit on a multiprocessor"):
        note(monkeypatch, torch.zeros(8, 8), torch.zeros(8, 8), FakeDriver(blocks=0))


def test_an_architecture_that_triton_lacks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeDriver()
    monkeypatch.setattr(driver, "target", lambda number: replace(target_named("t4"), architecture="sm_52"))
    monkeypatch.setattr(device, "gpu_driver", lambda: driver)
    device.gpu_device.cache_clear()
    try:
        with pytest.raises(SetupError, match="does not compile for sm_52"):
            scaled(OnGpu(torch.zeros(8, 8)), 1.0, OnGpu(torch.zeros(8, 8)))
    finally:
        device.gpu_device.cache_clear()


def test_launches_are_told_with_their_stream_and_what_the_device_is(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = (7, 100)
    x, out = normal(shape, torch.float32, fresh_seed()), poisoned(shape, torch.float32)
    tensors = OnGpu(x), OnGpu(out)
    used = use(monkeypatch, RunningDriver(tensors))
    plan = Plan({"i": 1}, {"j": 32}, {"e": Home.MEMORY}, lanes="j", warps=1, resident_programs=2)
    launcher, seen = with_plan(softmax_rows, plan), []
    with vk.on_launch(seen.append):
        launcher(*tensors)
        launcher(*tensors)
    assert [event.cache_hit for event in seen] == [False, True]
    event = seen[1]
    assert (event.kernel, event.device, event.stream, event.launches) == ("softmax_rows", "cuda:0", STREAM, 1)
    assert event.slice == used.target.key
    assert (event.plan, event.rung, event.swap_bytes) == (plan, "memory", 2 * 128 * 4)


@pytest.mark.parametrize("again", [False, True])
def test_one_tensor_for_two_parameters(monkeypatch: pytest.MonkeyPatch, again: bool) -> None:
    """A value that was loaded before a store to the same tensor is what it was; `again`: in a call that is remembered
    from one with a tensor of its own for each."""
    x, y = (normal((5, 300), torch.float32, fresh_seed() + n) for n in range(2))
    other, out = poisoned((5, 300), torch.float32), poisoned((5, 300), torch.float32)
    want = x + y.amax(1, keepdim=True)
    on_gpu = [OnGpu(each) for each in (x, y, other, out)]
    use(monkeypatch, RunningDriver(on_gpu))
    launcher = Launcher(kept)
    one, two, three, four = on_gpu
    if again:
        launcher(one, two, three, four)
    launcher(one, two, one, four)
    assert torch.equal(out, want)
    assert torch.equal(x, y)
    with pytest.raises(ArgumentError, match="`first` is the same tensor as `second`, and the kernel writes both"):
        launcher(one, two, three, three)
