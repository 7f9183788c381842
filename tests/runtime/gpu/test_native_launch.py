"""One native call writes a call's arguments and starts its launches; what the driver refuses goes through Python."""

from __future__ import annotations

import struct
import threading

import pytest
import torch
from jaxtyping import Float

import vkernels as vk
from tests.library.reference import assert_close, fresh_seed, normal, poisoned
from vkernels.ir.plan import Home, Plan
from vkernels.library.rows import softmax_rows
from vkernels.runtime.dispatch import Launcher
from vkernels.runtime.gpu.native_launch import split_code

from .fakes import FakeDriver, OnGpu, RunningDriver, use
from .test_calls import with_plan

SPLIT = Plan({"i": 1}, {"j": 32}, splits={"j": 4}, lanes="j", warps=1)
SWAP = Plan({"i": 1}, {"j": 32}, {"e": Home.MEMORY}, lanes="j", warps=1, resident_programs=2)


@vk.kernel
def scaled(x: Float[vk.Tensor, "M N"], by: vk.Scalar, out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    out[i, j] = x[i, j] * by


def noted(monkeypatch: pytest.MonkeyPatch, plan: Plan, is_native: bool, x: torch.Tensor) -> FakeDriver:
    """The driver that two calls were launched on."""
    out = poisoned(tuple(x.shape), x.dtype)
    tensors = OnGpu(x), OnGpu(out)
    driver = RunningDriver(tensors)
    if not is_native:
        driver.launch_address = None
    use(monkeypatch, driver)
    launcher = with_plan(softmax_rows, plan)
    for _ in range(2):
        launcher(*tensors)
    assert_close(out, torch.softmax(x.double(), -1), x.shape[1])
    return driver


@pytest.mark.slow
@pytest.mark.parametrize("plan", [SPLIT, SWAP], ids=["split", "swap"])
def test_the_driver_is_told_the_same_with_and_without_native_code(monkeypatch: pytest.MonkeyPatch, plan: Plan) -> None:
    x = normal((5, 300), torch.float32, fresh_seed())
    native, plain = (noted(monkeypatch, plan, is_native, x) for is_native in (True, False))
    for one, other in zip(native.launches, plain.launches, strict=True):
        assert (one.function, one.grid, one.threads, one.shared, one.stream) == (
            other.function, other.grid, other.threads, other.shared, other.stream,
        )  # fmt: skip
        assert len(one.slots) == len(other.slots)


@pytest.mark.parametrize("refused", [0, 1, 2])
def test_launches_from_the_refused_one_on_go_through_the_driver(monkeypatch: pytest.MonkeyPatch, refused: int) -> None:
    x = normal((5, 300), torch.float32, fresh_seed())
    out = poisoned((5, 300), torch.float32)
    tensors = OnGpu(x), OnGpu(out)
    driver = RunningDriver(tensors)
    driver.answers = [0] * refused + [201]
    use(monkeypatch, driver)
    with_plan(softmax_rows, SPLIT)(*tensors)
    assert len(driver.launches) == 3
    assert not driver.answers
    assert_close(out, torch.softmax(x.double(), -1), 300)


def test_a_code_names_its_launch() -> None:
    assert split_code(2 << 32 | 201) == (201, 2)


def test_scalars_of_each_call_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = OnGpu(torch.zeros(8, 16)), OnGpu(torch.zeros(8, 16))
    driver = FakeDriver()
    use(monkeypatch, driver)
    launcher = Launcher(scaled)
    for by in (1.5, 2, True, -0.25):
        launcher(x, by, out)
    expected = struct.pack("d", 1.5), struct.pack("q", 2), struct.pack("q", 1), struct.pack("d", -0.25)
    for told, value in zip(driver.launches, expected, strict=True):
        assert value in told.slots


def test_threads_launch_at_once_with_slots_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [(OnGpu(torch.zeros(8, 16)), OnGpu(torch.zeros(8, 16))) for _ in range(4)]
    driver = FakeDriver()
    use(monkeypatch, driver)
    launcher = Launcher(softmax_rows)
    launcher(*pairs[0])

    def call(pair: tuple[OnGpu, OnGpu]) -> None:
        for _ in range(20):
            launcher(*pair)

    threads = [threading.Thread(target=call, args=(pair,)) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = [each.slots for each in driver.launches[1:]]
    pointers = {tuple(int.from_bytes(slot, "little") for slot in slots if slot) for slots in told}
    seen = {tuple(a for a in found if a > 1 << 20) for found in pointers}
    assert len(told) == 80
    assert seen == {tuple(each.data_ptr() for each in pair) for pair in pairs}
