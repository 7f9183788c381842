"""While a GPU's work is captured in a graph, calls run what was ready before; what would load code is refused."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch

import vkernels as vk
from tests.compiler.test_code_providers import finished
from tests.library.reference import assert_close, fresh_seed, normal, poisoned
from vkernels.compiler.plans import Plans
from vkernels.compiler.session import CompilerSession
from vkernels.ir.plan import Home, Plan
from vkernels.library.rows import softmax_rows
from vkernels.runtime.dispatch import Launcher

from .fakes import FakeDriver, OnGpu, RunningDriver, use

SWAPPED = Plan({"i": 1}, {"j": 32}, {"e": Home.MEMORY}, lanes="j", warps=1)


def softmax(plan: Plan | None = None) -> Launcher:
    return Launcher(vk.kernel(plan=plan)(softmax_rows.function) if plan else vk.kernel(softmax_rows.function))


def tensors(rows: int = 7, columns: int = 100) -> tuple[torch.Tensor, torch.Tensor]:
    return normal((rows, columns), torch.float32, fresh_seed()), poisoned((rows, columns), torch.float32)


def test_a_call_like_one_before_is_captured_and_right(monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = tensors()
    pair = OnGpu(x), OnGpu(out)
    driver = RunningDriver(pair)
    use(monkeypatch, driver)
    launcher = softmax(SWAPPED)
    launcher(*pair)
    out.fill_(torch.nan)
    driver.captures = True
    launcher(*pair)
    assert_close(out, torch.softmax(x.double(), -1), 100)
    assert len(driver.loaded) == 1
    assert [launched.stream for launched in driver.launches] == [driver.stream(0)] * 2


def test_a_first_call_is_refused_and_leaves_the_graph_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = tensors()
    driver = FakeDriver()
    use(monkeypatch, driver)
    launcher = softmax(SWAPPED)
    driver.captures = True
    for _ in range(2):
        with pytest.raises(vk.ArgumentError, match=r"softmax_rows: a first call .* CUDA graph .* before"):
            launcher(OnGpu(x), OnGpu(out))
    assert [driver.loaded, driver.launches, driver.allocations] == [[], [], []]
    driver.captures = False
    launcher(OnGpu(x), OnGpu(out))
    assert driver.launches


def test_a_first_call_of_other_shapes_or_alignments_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, memory = FakeDriver(), torch.zeros(8 * 64 + 1)
    use(monkeypatch, driver)
    launcher, out = softmax(Plan({"i": 4}, {"j": 8}, lanes="j", warps=2)), OnGpu(torch.zeros(8, 64))
    aligned, other = (OnGpu(memory[start : start + 512].view(8, 64)) for start in (0, 1))
    launcher(aligned, out)
    driver.captures = True
    launcher(aligned, out)
    with pytest.raises(vk.ArgumentError, match="shapes, dtypes and alignments"):
        launcher(other, out)
    with pytest.raises(vk.ArgumentError, match="shapes, dtypes and alignments"):
        launcher(OnGpu(torch.zeros(4, 64)), OnGpu(torch.zeros(4, 64)))
    assert len(driver.launches) == 2


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch, session: CompilerSession) -> Iterator[threading.Event]:
    """Choosing waits for this; first calls wait for nothing."""
    gate, found = threading.Event(), Plans.first_fit
    monkeypatch.setattr(session, "patience", 0.0)
    monkeypatch.setattr(Plans, "first_fit", lambda self, *of: (gate.wait(60), found(self, *of))[1])
    yield gate
    gate.set()
    finished()


def test_a_better_plan_is_taken_over_after_the_capture(monkeypatch: pytest.MonkeyPatch, late: threading.Event) -> None:
    x, out = tensors(64, 1000)
    pair = OnGpu(x), OnGpu(out)
    driver = FakeDriver()
    use(monkeypatch, driver)
    launcher, plans = softmax(), []
    with vk.on_launch(lambda event: plans.append(event.plan)):
        launcher(*pair)
        driver.captures = True
        with pytest.warns(vk.SlowPlanWarning, match="softmax_rows: the graph .* plain plan.* `vk.patient"):
            launcher(*pair)
        late.set()
        finished()
        launcher(*pair)
        loaded = len(driver.loaded)
        driver.captures = False
        launcher(*pair)
    plain, *captured, better = plans
    assert captured == [plain] * 2
    assert better != plain
    assert len(driver.loaded) > loaded


@pytest.mark.parametrize("ready", ["before the capture", "during the call before it"])
def test_a_graph_says_if_it_keeps_a_plain_plan_and_patience_prevents_it(
    monkeypatch: pytest.MonkeyPatch, late: threading.Event, ready: str
) -> None:
    pair = tuple(OnGpu(each) for each in tensors(64, 1000))
    driver = FakeDriver()
    use(monkeypatch, driver)
    launcher, plans = softmax(), []
    with vk.on_launch(lambda event: plans.append(event.plan)):
        launcher(*pair)
        if ready == "before the capture":
            threading.Timer(0.2, late.set).start()
            with vk.patient():
                launcher(*pair)
            driver.captures = True
            launcher(*pair)
            assert plans[0] != plans[1] == plans[2]
        else:
            late.set()
            finished()
            driver.captures = True
            with pytest.warns(vk.SlowPlanWarning, match="plain plan"):
                launcher(*pair)
            launcher(*pair)  # said once
            assert plans[0] == plans[1] == plans[2]


class Full(FakeDriver):
    def allocate(self, device, size):  # type: ignore[no-untyped-def]
        if self.captures:
            raise vk.OutOfMemoryError(f"no {size} bytes")
        return super().allocate(device, size)


def test_no_memory_for_the_graph_is_an_error_and_no_other_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = tuple(OnGpu(each) for each in tensors())
    driver = Full()
    use(monkeypatch, driver)
    chosen = vk.kernel(plan=vk.Pin(homes={"e": "memory"}, chunks={"j": 32}))(softmax_rows.function)
    launcher = Launcher(chosen)
    launcher(*pair)
    assert driver.allocations
    driver.captures = True
    loaded = len(driver.loaded)
    with pytest.raises(vk.OutOfMemoryError, match=r"no \d+ bytes"):
        launcher(*pair)
    assert len(driver.loaded) == loaded
