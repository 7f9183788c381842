"""What launches on a GPU must do, as functions of a GPU: one that is here, or one that is simulated.

`gpu` is a `Gpu` of benchmarks/gpu_stages/gpu.py; sizes are small where it is simulated. `LAUNCHES` has all of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from jaxtyping import Float, Shaped

import vkernels as vk
from tests.library.reference import assert_close, fresh_seed, normal, poisoned, strided
from tests.library.test_sparse import network, reference
from vkernels.ir.errors import ArgumentError, PlanError
from vkernels.ir.plan import Home, Plan
from vkernels.library import matmul, segment_sum, softmax
from vkernels.library.rows import softmax_rows
from vkernels.library.spdnn import spdnn
from vkernels.runtime.dispatch import Launcher

UNASKED = 48 << 10
"""Bytes of shared memory that a launch may have without asking for them."""

Check = Callable[[Any], None]
LAUNCHES: dict[str, Check] = {}


def launch(check: Check) -> Check:
    LAUNCHES[check.__name__.replace("_", " ")] = check
    return check


@vk.kernel
def add_one(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = x[i] + 1.0


@vk.kernel
def copy(x: Shaped[vk.Tensor, "M N"], out: Shaped[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    out[i, j] = x[i, j]


@vk.kernel
def with_scalars(
    x: Float[vk.Tensor, "N"], by: vk.Scalar, shift: int, keep: bool, last: float, out: Float[vk.Tensor, "N"]
):
    i = vk.tile("N")
    out[i] = vk.where(keep, by * x[i] + shift, x[i]) - last


@vk.kernel(plan=Plan({"i": 1}, {"j": 32}, lanes="j", warps=1))
def one_row_a_program(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    out[i, j] = 2.0 * x[i, j]


def with_plan(plan: Plan) -> Launcher:
    """Softmax of rows, by a plan."""
    return Launcher(vk.kernel(plan=plan)(softmax_rows.function))


def rows(gpu: Any, shape: tuple[int, int], dtype: torch.dtype = torch.float32) -> tuple[Any, Any, Any]:
    """Rows on the GPU, room for their softmax, and that in float64."""
    x = normal(shape, dtype, fresh_seed())
    return gpu.put(x), gpu.put(poisoned(shape, dtype)), torch.softmax(x.double(), -1)


@launch
def a_first_launch_is_right(gpu: Any) -> None:
    x = gpu.put(torch.zeros(1000))
    add_one(x, x)
    assert torch.equal(x.cpu(), torch.ones(1000))


@launch
def every_dtype_is_copied(gpu: Any) -> None:
    for dtype in (
        torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
        torch.uint8, torch.bool,
    ):  # fmt: skip
        x = (normal((5, 37), torch.float32, fresh_seed()) * 50).to(dtype)
        out = gpu.put(torch.zeros_like(x))
        copy(gpu.put(x), out)
        assert torch.equal(out.cpu(), x), dtype


@launch
def scalars_of_every_kind_arrive(gpu: Any) -> None:
    x = normal((300,), torch.float32, fresh_seed())
    out = gpu.put(poisoned((300,), torch.float32))
    for by in (2.5, 3, True):
        for shift in (-7, 1 << 20):
            for keep in (True, False):
                with_scalars(gpu.put(x), by, shift, keep, 0.25, out)
                wanted = (x.double() * float(by) + shift if keep else x.double()) - 0.25
                assert_close(out.cpu(), wanted, scale=4)


PLANS = {
    "swap space": Plan({"i": 1}, {"j": 64}, {"e": Home.MEMORY}, lanes="j", warps=4),
    "swap space for fewer programs than rows": Plan(
        {"i": 1}, {"j": 64}, {"e": Home.MEMORY}, lanes="j", warps=2, resident_programs=3
    ),
    "shared memory": Plan({"i": 1}, {"j": 64}, {"e": Home.SHARED}, lanes="j", warps=4),
    "recomputing": Plan({"i": 2}, {"j": 64}, {"e": Home.RECOMPUTE}, lanes="j", warps=4),
    "split rows": Plan({"i": 1}, {"j": 64}, splits={"j": 4}, lanes="j", warps=4),
    "programs that stay": Plan({"i": 1}, {"j": 64}, lanes="j", warps=4, resident_programs=3),
    "one warp": Plan({"i": 1}, {"j": 32}, {"e": Home.MEMORY}, lanes="j", warps=1),
}


def _by(name: str) -> Check:
    def check(gpu: Any) -> None:
        launcher = with_plan(PLANS[name])
        for shape in [(5, 300), (2, 64)] if gpu.is_simulated else [(1000, 3001), (3, 4096), (20_000, 500)]:
            x, out, exact = rows(gpu, shape)
            for _ in range(1 if gpu.is_simulated else 3):
                launcher(x, out)
            assert_close(out.cpu(), exact, shape[1])

    return check


LAUNCHES |= {f"{name} gives right results": _by(name) for name in PLANS}


@launch
def more_shared_memory_than_48_KiB_is_granted(gpu: Any) -> None:
    columns = 14_000  # of f32, each held once: 56 KB
    x, out, exact = rows(gpu, (2, columns))
    launcher = with_plan(Plan({"i": 1}, {"j": 1024}, {"e": Home.SHARED}, lanes="j", warps=8))
    assert max(each.shared for each in launcher.compile((x, out), {}).binaries) > UNASKED
    launcher(x, out)
    assert_close(out.cpu(), exact, columns)


@launch
def a_scratchpad_holds_what_it_is_given(gpu: Any) -> None:
    neurons, inputs, layers, images = (32, 4, 3, 6) if gpu.is_simulated else (1024, 32, 5, 70)
    seed = fresh_seed()
    column, weight = network(neurons, inputs, layers, torch.float32, seed)
    y = normal((neurons, images), torch.float32, seed).abs() * 4
    out, peak = (gpu.put(poisoned(shape, torch.float32)) for shape in ((neurons, images), (images,)))
    spdnn(gpu.put(y), gpu.put(column), gpu.put(weight), 0.05, out, peak)
    exact = reference(y, column, weight, 0.05)
    assert_close(out.cpu(), exact, inputs * layers, scale=4.0 * layers)
    assert_close(peak.cpu(), exact.amax(0), inputs * layers, scale=4.0 * layers)


@launch
def addresses_of_any_alignment_are_right(gpu: Any) -> None:
    shape = (4, 48) if gpu.is_simulated else (64, 96)
    size = shape[0] * shape[1]
    for dtype in (torch.float16, torch.float32):
        memory = normal((size + 8,), dtype, fresh_seed())
        there = gpu.put(memory)
        for start in range(5):
            x, exact = (each[start : start + size].view(shape) for each in (there, memory.double()))
            assert_close(softmax(x).cpu(), torch.softmax(exact, -1), shape[1])


@launch
def any_strides_are_right(gpu: Any) -> None:
    shape, seed = ((5, 20) if gpu.is_simulated else (70, 130)), fresh_seed()
    b = normal((shape[1], 9), torch.float32, seed + 1)
    for x in strided(shape, torch.float32, seed):
        extent = 1 + sum((length - 1) * stride for length, stride in zip(x.shape, x.stride(), strict=True))
        there = gpu.put(torch.zeros(extent)).as_strided(x.shape, x.stride())
        there.copy_(gpu.put(x))
        assert_close(softmax(there).cpu(), torch.softmax(x.double(), -1), shape[1])
        assert_close(matmul(there, gpu.put(b)).cpu(), x.double() @ b.double(), shape[1], scale=8)


@launch
def empty_tensors_are_right(gpu: Any) -> None:
    for shape in ((0, 8), (8, 0), (0, 0)):
        assert softmax(gpu.put(torch.zeros(shape))).shape == shape
    for m, n, k in ((0, 4, 4), (4, 0, 4), (3, 5, 0)):
        found = matmul(gpu.put(torch.ones(m, k)), gpu.put(torch.ones(k, n)))
        assert torch.equal(found.cpu(), torch.zeros(m, n))
    add_one(gpu.put(torch.zeros(0)), gpu.put(torch.zeros(0)))


@launch
def results_in_place_are_right(gpu: Any) -> None:
    x, _, exact = rows(gpu, (3, 500) if gpu.is_simulated else (100, 5000))
    softmax(x, out=x)
    assert_close(x.cpu(), exact, 5000)


@launch
def grids_of_many_programs_are_right(gpu: Any) -> None:
    programs = 70 if gpu.is_simulated else 1_000_000  # more than the 65535 of a grid's other dimensions
    x = torch.arange(programs, dtype=torch.float32)[:, None].expand(programs, 3).contiguous()
    out = gpu.put(torch.zeros_like(x))
    one_row_a_program(gpu.put(x), out)
    assert torch.equal(out.cpu(), 2 * x)


@launch
def more_than_two_billion_elements_are_right(gpu: Any) -> None:
    count, columns = 70_000, 32_768
    if gpu.is_simulated or torch.cuda.mem_get_info()[0] < 3 * 2 * count * columns:
        pytest.skip("needs 14 GB of free device memory")
    x = torch.zeros(count, columns, dtype=torch.float16, device="cuda")
    x[-8:] = normal((8, columns), torch.float16, fresh_seed()).to("cuda")
    out = softmax(x)
    assert_close(out[-8:], torch.softmax(x[-8:].double(), -1), columns)
    assert_close(out[:1], torch.softmax(x[:1].double(), -1), columns)


@launch
def work_goes_to_the_current_stream(gpu: Any) -> None:
    x = gpu.put(torch.zeros(300 if gpu.is_simulated else 1 << 20))
    add_one(x, x)  # compiled before the stream sleeps
    with gpu.stream():
        if not gpu.is_simulated:
            torch.cuda._sleep(100_000_000)
        for _ in range(10):
            add_one(x, x)
        if not gpu.is_simulated:
            assert not torch.cuda.current_stream().query()  # still asleep: nothing has waited
    assert torch.equal(x.cpu(), torch.full(x.shape, 11.0))


@launch
def working_memory_is_kept_apart_on_two_streams(gpu: Any) -> None:
    launcher = with_plan(PLANS["split rows"])
    pairs = [rows(gpu, (3, 300) if gpu.is_simulated else (50, 100_000)) for _ in range(2)]
    for x, out, _ in pairs:
        launcher(x, out)
        out.fill_(float("nan"))
    for _ in range(1 if gpu.is_simulated else 20):
        x, out, _ = pairs[0]
        launcher(x, out)
        with gpu.stream():
            launcher(*pairs[1][:2])
    gpu.synchronize()
    for x, out, exact in pairs:
        assert_close(out.cpu(), exact, x.shape[1])


def _in_threads(works: list[Callable[[], None]]) -> None:
    """Each in a thread of its own; raises what the first of them raised."""
    found: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            found.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if found:
        raise found[0]


@launch
def a_new_thread_can_launch(gpu: Any) -> None:
    x = gpu.put(torch.zeros(1000))

    def work() -> None:
        add_one(x, x)
        gpu.synchronize()

    _in_threads([work])
    assert torch.equal(x.cpu(), torch.ones(1000))


@launch
def threads_can_launch_at_once(gpu: Any) -> None:
    often = 3 if gpu.is_simulated else 200
    tensors = [gpu.put(torch.zeros(10_000 if not gpu.is_simulated else 100)) for _ in range(8)]
    _in_threads([lambda x=x: [add_one(x, x) for _ in range(often)] for x in tensors])  # type: ignore[misc]
    gpu.synchronize()
    assert all(torch.equal(x.cpu(), torch.full(x.shape, float(often))) for x in tensors)


def _captured(name: str) -> Check:
    def check(gpu: Any) -> None:
        shape = (3, 300) if gpu.is_simulated else (20, 3001)
        x, out, exact = rows(gpu, shape)
        launcher = with_plan(PLANS[name])
        launcher(x, out)
        replay = gpu.captured(lambda: launcher(x, out))
        for factor in (2.0, 0.5):
            x.mul_(factor)
            out.fill_(float("nan"))
            replay()
            gpu.synchronize()
            exact = torch.softmax(x.cpu().double(), -1)
            assert_close(out.cpu(), exact, shape[1])

    return check


LAUNCHES |= {f"a graph replays {name}": _captured(name) for name in ("split rows", "swap space", "shared memory")}


@launch
def a_first_call_in_a_graph_is_refused_and_the_graph_goes_on(gpu: Any) -> None:
    x, y = (gpu.put(torch.zeros(64)) for _ in range(2))
    add_one(x, x)
    other = Launcher(vk.kernel(add_one.function))

    def work() -> None:
        with pytest.raises(ArgumentError, match=r"a first call .* CUDA graph"):
            other(y, y)
        add_one(x, x)

    replay = gpu.captured(work)
    replay()
    gpu.synchronize()
    assert torch.equal(x.cpu(), torch.full((64,), 2.0))


@launch
def code_is_loaded_beside_another_threads_graph(gpu: Any) -> None:
    if gpu.is_simulated:
        pytest.skip("captures of a simulated GPU are not a thread's own")
    x, y = (gpu.put(torch.zeros(64)) for _ in range(2))
    add_one(x, x)
    other = Launcher(vk.kernel(plan=Plan({"i": 32}, warps=1))(add_one.function))

    def work() -> None:
        _in_threads([lambda: other(y, y)])
        add_one(x, x)

    replay = gpu.captured(work)
    replay()
    gpu.synchronize()
    assert torch.equal(x.cpu(), torch.full((64,), 2.0))
    assert torch.equal(y.cpu(), torch.ones(64))


@launch
def the_same_plan_gives_the_same_bits(gpu: Any) -> None:
    x, _, _ = rows(gpu, (3, 700) if gpu.is_simulated else (100, 30_000))
    assert torch.equal(softmax(x).cpu(), softmax(x).cpu())


@launch
def writes_are_told_to_autograd(gpu: Any) -> None:
    x = gpu.put(torch.zeros(100))
    before = x._version
    add_one(x, x)
    assert x._version > before


@launch
def mistakes_are_reported_and_the_next_call_is_right(gpu: Any) -> None:
    x = gpu.put(torch.zeros(9, 8))
    with pytest.raises(ArgumentError, match="`out`: expected a tensor on device cuda:0, as `x`, got cpu"):
        one_row_a_program(x, torch.zeros(9, 8))
    with pytest.raises(ArgumentError, match="expected the same memory as `x` or none of it"):
        one_row_a_program(x[:8], x[1:])
    with pytest.raises(ArgumentError):
        segment_sum(gpu.put(torch.ones(4, 3)), gpu.put(torch.tensor([0, 2, 7])))
    large = with_plan(Plan({"i": 1}, {"j": 1024}, {"e": Home.SHARED}, lanes="j", warps=4))
    tensors = [gpu.put(torch.zeros(2, 100_000)) for _ in range(2)]
    with pytest.raises(PlanError):  # 400 KB of shared memory
        large(*tensors)
    a_first_launch_is_right(gpu)


@launch
def the_device_is_one_of_the_table_or_like_one(gpu: Any) -> None:
    found = gpu.device()
    assert found["limits"]["warp"] in (32, 64)
    if gpu.is_simulated:
        return
    properties = torch.cuda.get_device_properties(0)
    assert found["multiprocessors"] == found["limits"]["multiprocessors"]
    if torch.version.hip is None:
        assert found["architecture"] == f"sm_{properties.major}{properties.minor}"
    else:
        assert found["architecture"] == properties.gcnArchName.split(":")[0]


@launch
def another_device_than_the_current_one_is_used(gpu: Any) -> None:
    if gpu.is_simulated or torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    x = torch.zeros(1000, device="cuda:1")
    add_one(x, x)
    assert torch.cuda.current_device() == 0
    assert torch.equal(x, torch.ones_like(x))
