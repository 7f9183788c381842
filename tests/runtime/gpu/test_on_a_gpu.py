"""Launches keep to torch's streams, devices, graphs and memory, and wait for nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch
from jaxtyping import Float

import vkernels as vk
from tests.library.reference import assert_close, fresh_seed, normal, poisoned
from vkernels.ir.errors import ArgumentError
from vkernels.ir.plan import Home, Plan
from vkernels.library import softmax
from vkernels.library.rows import softmax_rows
from vkernels.runtime.dispatch import Launcher

ON = "cuda"


@vk.kernel
def add_one(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = x[i] + 1.0


def test_work_goes_to_the_current_stream() -> None:
    stream, x = torch.cuda.Stream(), torch.zeros(1 << 20, device=ON)
    add_one(x, x)  # compiled before the stream sleeps
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        for _ in range(10):
            add_one(x, x)
    assert not stream.query()  # still asleep: nothing has waited
    stream.synchronize()
    assert torch.equal(x, torch.full_like(x, 11))


def with_plan(plan: Plan) -> Launcher:
    return Launcher(vk.kernel(plan=plan)(softmax_rows.function))


PLANS: dict[str, Callable[[], Launcher]] = {
    "swap space": lambda: with_plan(Plan({"i": 1}, {"j": 256}, {"e": Home.MEMORY}, lanes="j", warps=4)),
    "shared": lambda: with_plan(Plan({"i": 1}, {"j": 256}, {"e": Home.SHARED}, lanes="j", warps=4)),
    "recompute": lambda: with_plan(Plan({"i": 2}, {"j": 256}, {"e": Home.RECOMPUTE}, lanes="j", warps=4)),
    "split": lambda: with_plan(Plan({"i": 1}, {"j": 256}, splits={"j": 4}, lanes="j", warps=4)),
    "persistent": lambda: with_plan(Plan({"i": 1}, {"j": 256}, lanes="j", warps=4, resident_programs=7)),
    "one warp": lambda: with_plan(Plan({"i": 1}, {"j": 32}, {"e": Home.MEMORY}, lanes="j", warps=1)),
}


@pytest.mark.parametrize("shape", [(1000, 3001), (3, 4096), (20_000, 500)])
@pytest.mark.parametrize("plan", PLANS)
def test_every_home_is_right(plan: str, shape: tuple[int, int]) -> None:
    x, out = normal(shape, torch.float32, fresh_seed()).to(ON), poisoned(shape, torch.float32).to(ON)
    launcher = PLANS[plan]()
    for _ in range(3):
        launcher(x, out)
    assert_close(out, torch.softmax(x.double(), -1), shape[1])


@pytest.mark.parametrize("start", range(4))
def test_addresses_that_are_not_aligned_are_right(start: int) -> None:
    memory = normal((64 * 96 + 8,), torch.float16, fresh_seed()).to(ON)
    x = memory[start : start + 64 * 96].view(64, 96)
    assert_close(softmax(x), torch.softmax(x.double(), -1), 96)


def test_in_place_is_right() -> None:
    x = normal((100, 5000), torch.float32, fresh_seed()).to(ON)
    exact = torch.softmax(x.double(), -1)
    softmax(x, out=x)
    assert_close(x, exact, 5000)


def test_a_new_thread_can_launch() -> None:
    x, found = torch.zeros(1000, device=ON), []

    def work() -> None:
        try:
            add_one(x, x)
            torch.cuda.synchronize()
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not found
    assert torch.equal(x, torch.ones_like(x))


def test_threads_can_launch_at_once() -> None:
    tensors = [torch.zeros(10_000, device=ON) for _ in range(8)]
    threads = [threading.Thread(target=lambda x=x: [add_one(x, x) for _ in range(200)]) for x in tensors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    assert all(torch.equal(x, torch.full_like(x, 200)) for x in tensors)


@pytest.mark.parametrize("plan", ["split", "swap space"])
def test_a_graph_captures_launches_and_their_memory(plan: str) -> None:
    shape = (20, 3001)
    x, out = normal(shape, torch.float32, fresh_seed()).to(ON), poisoned(shape, torch.float32).to(ON)
    launcher = PLANS[plan]()
    launcher(x, out)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launcher(x, out)
    x.mul_(2)
    out.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    assert_close(out, torch.softmax(x.double(), -1), shape[1])


def test_the_same_plan_gives_the_same_bits() -> None:
    x = normal((100, 30_000), torch.float32, fresh_seed()).to(ON)
    assert torch.equal(softmax(x), softmax(x))


def test_writes_are_told_to_autograd() -> None:
    x = torch.zeros(100, device=ON)
    before = x._version
    add_one(x, x)
    assert x._version > before


def test_tensors_of_the_cpu_are_refused_beside_those_of_a_gpu() -> None:
    with pytest.raises(ArgumentError, match="`out`: expected a tensor on device cuda:0, as `x`, got cpu"):
        add_one(torch.zeros(8, device="cuda:0"), torch.zeros(8))


def test_another_device_than_the_current_one() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    x = torch.zeros(1000, device="cuda:1")
    add_one(x, x)
    assert torch.cuda.current_device() == 0
    assert torch.equal(x, torch.ones_like(x))


def test_the_device_is_one_of_the_table_or_like_one() -> None:
    from vkernels.runtime.gpu.device import gpu_device

    device = gpu_device("cuda:0")
    properties = torch.cuda.get_device_properties(0)
    assert device.target.multiprocessors == properties.multi_processor_count
    assert device.limits.warp in (32, 64)
    if torch.version.hip is None:
        assert device.architecture == f"sm_{properties.major}{properties.minor}"
    else:
        assert device.architecture == properties.gcnArchName.split(":")[0]
