"""Calls of low priority on a GPU go into the gaps of others, in ranges of programs if need be, with the same bits."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch

import vkernels as vk
from tests.compiler.test_code_providers import finished
from tests.library.reference import assert_close, fresh_seed, normal, poisoned
from tests.runtime.coordinator.test_processes import Peer
from vkernels.ir.plan import Home, Plan
from vkernels.library.rows import softmax_rows
from vkernels.runtime.coordinator import device_board, gap_filling, shared_board
from vkernels.runtime.coordinator.gap_filling import GapFilling, filling_stats
from vkernels.runtime.coordinator.launch_profile import SAMPLES, LaunchProfile
from vkernels.runtime.dispatch import Launcher
from vkernels.runtime.gpu import calls_by_priority
from vkernels.runtime.gpu.calls_by_priority import joined, units_of
from vkernels.runtime.gpu.packing import Start

from .fakes import FakeDriver, OnGpu, RunningDriver, use
from .test_calls import with_plan

GRID = Plan({"i": 1}, {"j": 32}, lanes="j", warps=1)
PERSISTENT = Plan({"i": 1}, {"j": 32}, lanes="j", warps=1, resident_programs=2)
SWAPPED = Plan({"i": 1}, {"j": 32}, {"e": Home.MEMORY}, lanes="j", warps=1, resident_programs=2)
SPLIT = Plan({"i": 1}, {"j": 32}, splits={"j": 4}, lanes="j", warps=1)


class Done:
    """A mark at a time of the host's clock."""

    def __init__(self, at: float) -> None:
        self.at = at

    def query(self) -> bool:
        return time.perf_counter() >= self.at

    def elapsed_time(self, end_event: Done) -> float:
        return 1e3 * (end_event.at - self.at)


class Timed(RunningDriver):
    """A device on which each launch takes `seconds`."""

    seconds, free, marks = 0.0, 0.0, 0

    def launch(self, *told: int) -> None:
        super().launch(*told)
        self.free = max(self.free, time.perf_counter()) + self.seconds

    def mark(self) -> Done:
        self.marks += 1
        return Done(max(self.free, time.perf_counter()))


@pytest.fixture(autouse=True)
def fillings(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[int, GapFilling]]:
    found: dict[int, GapFilling] = {}
    monkeypatch.setattr(gap_filling, "FILLINGS", found)
    monkeypatch.setattr(calls_by_priority, "_own", calls_by_priority._Own())
    monkeypatch.setattr(gap_filling, "in_use", True)
    yield found
    finished()


def one_by_one(filling: GapFilling) -> None:
    filling._units_for = lambda call, now: 1  # type: ignore[method-assign]


SLOW = pytest.mark.thorough
PLANS = [
    pytest.param(GRID, marks=SLOW, id="grid"), pytest.param(PERSISTENT, id="persistent"),
    pytest.param(SWAPPED, marks=SLOW, id="swapped"), pytest.param(SPLIT, marks=SLOW, id="split"),
]  # fmt: skip


@pytest.mark.parametrize("plan", PLANS)
def test_a_call_in_units_has_the_bits_of_a_whole_one(
    monkeypatch: pytest.MonkeyPatch, fillings: dict[int, GapFilling], plan: Plan
) -> None:
    x, out = normal((5, 40), torch.float32, fresh_seed()), poisoned((5, 40), torch.float32)
    tensors = OnGpu(x), OnGpu(out)
    driver = Timed(tensors)
    use(monkeypatch, driver)
    launcher = with_plan(softmax_rows, plan)
    launcher(*tensors)
    whole, launches = out.clone(), len(driver.launches)
    assert_close(whole, torch.softmax(x.double(), -1), 40)
    out.fill_(torch.nan)
    one_by_one(fillings.setdefault(0, GapFilling()))
    with vk.priority("low"):
        launcher(*tensors)
    assert torch.equal(out, whole)
    expected = 3 if plan.resident_programs else launches
    assert len(driver.launches) - launches == expected
    if plan is PERSISTENT:
        with_plan(softmax_rows, GRID)(*tensors)
        assert torch.equal(out, whole), "the form of a plan does not matter"
        del driver.launches[-1]
        assert [each.grid for each in driver.launches[launches:]] == [2, 2, 1]


def test_units_are_launches_and_ranges_of_programs() -> None:
    starts = [Start(1, 4, 128, 0, 0), Start(2, 3, 128, 0, 0, 8, (5, 6)), Start(3, 3, 128, 0, 0, 3, (7, 8))]
    units = units_of(starts)
    assert units == [(0, None), (1, range(3)), (1, range(3, 6)), (1, range(6, 8)), (2, None)]
    assert joined(units) == [(0, None), (1, range(8)), (2, None)]
    assert joined(units[2:]) == [(1, range(3, 8)), (2, None)]


def test_a_plan_is_divided_where_its_calls_are_longer_than_gaps(
    monkeypatch: pytest.MonkeyPatch, fillings: dict[int, GapFilling]
) -> None:
    """The persistent form of the same plan is compiled in the background; a whole call runs until it is there."""
    pair = OnGpu(torch.zeros(600, 40)), OnGpu(torch.zeros(600, 40))
    driver = TimedOnly()
    use(monkeypatch, driver)
    launcher = with_plan(softmax_rows, GRID)
    filling = fillings.setdefault(0, GapFilling())
    monkeypatch.setattr(filling, "wants_parts", lambda profile: True)
    one_by_one(filling)
    with vk.priority("low"):
        for _ in range(2):
            launcher(*pair)
            finished()
    assert [each.grid for each in driver.launches] == [600, 264, 264, 72]
    words = [{int.from_bytes(slot, "little") for slot in each.slots} for each in driver.launches[1:]]
    assert [{0, 264} <= words[0], {264, 528} <= words[1], {528, 600} <= words[2]] == [True] * 3


def test_deterministic_calls_keep_their_plan(monkeypatch: pytest.MonkeyPatch, fillings: dict[int, GapFilling]) -> None:
    pair = OnGpu(torch.zeros(600, 40)), OnGpu(torch.zeros(600, 40))
    driver = TimedOnly()
    use(monkeypatch, driver)
    launcher = Launcher(vk.kernel(plan=GRID, deterministic=True)(softmax_rows.function))
    filling = fillings.setdefault(0, GapFilling())
    monkeypatch.setattr(filling, "wants_parts", lambda profile: True)
    one_by_one(filling)
    with vk.priority("low"):
        for _ in range(2):
            launcher(*pair)
            finished()
    assert len({each.function for each in driver.launches}) == 1
    assert {each.grid for each in driver.launches} == {600}


class TimedOnly(FakeDriver):
    """The same, which runs nothing."""

    seconds, free, marks = 0.0, 0.0, 0

    def __init__(self) -> None:
        super().__init__()
        self.idle: list[bool] = []

    def launch(self, *told: int) -> None:
        super().launch(*told)
        now = time.perf_counter()
        self.idle.append(self.free <= now)
        self.free = max(self.free, now) + self.seconds

    mark = Timed.mark  # type: ignore[assignment]


def test_nothing_is_marked_while_nobody_has_low_priority_or_a_graph_is_captured(
    monkeypatch: pytest.MonkeyPatch, fillings: dict[int, GapFilling]
) -> None:
    pair = OnGpu(torch.zeros(8, 64)), OnGpu(torch.zeros(8, 64))
    driver = TimedOnly()
    use(monkeypatch, driver)
    launcher = with_plan(softmax_rows, PERSISTENT)
    for level in ("normal", "high"):
        with vk.priority(level):
            launcher(*pair)
    assert driver.marks == 0
    with vk.priority("low"):
        launcher(*pair)
        assert driver.marks == 2
        driver.captures, before = True, len(driver.launches)
        launcher(*pair)
    assert driver.marks == 2
    (captured,) = driver.launches[before:]
    assert captured.grid == 2
    assert filling_stats()["cuda:0"].fills == 1


def test_low_calls_wait_for_gaps_of_high_ones_which_wait_for_nobody(
    monkeypatch: pytest.MonkeyPatch, fillings: dict[int, GapFilling]
) -> None:
    high, low = ((OnGpu(torch.zeros(rows, 64)), OnGpu(torch.zeros(rows, 64))) for rows in (8, 16))
    driver = TimedOnly()
    use(monkeypatch, driver)
    launcher = with_plan(softmax_rows, GRID)
    launcher(*high)
    launcher(*low)
    filling = fillings.setdefault(0, GapFilling())
    filling._low_seen = time.perf_counter()
    known: dict[int, LaunchProfile] = {}
    monkeypatch.setattr(
        calls_by_priority, "_profile_of",
        lambda bound, parts: known.setdefault(id(bound), LaunchProfile([1e-2] * SAMPLES, [4e-2] * SAMPLES)),
    )  # fmt: skip
    driver.seconds = 1e-2

    def work() -> None:
        with vk.priority("low"):
            launcher(*low)

    with vk.priority("high"):
        launcher(*high)
        thread = threading.Thread(target=work)
        thread.start()
        launcher(*high)
        thread.join(10)
    assert sorted(each.grid for each in driver.launches[2:]) == [8, 8, 16]
    began = dict(zip((each.grid for each in driver.launches[2:]), driver.idle[2:], strict=True))
    assert began[16], "not while calls of high priority are on the device"
    assert filling.stats().fills == 1


@pytest.mark.parametrize("ending", ["done", "killed"])
def test_low_calls_wait_for_calls_of_another_process(
    monkeypatch: pytest.MonkeyPatch, fillings: dict[int, GapFilling], tmp_path: Path, ending: str
) -> None:
    """The other process's call of high priority is being started, until it goes on or is killed."""
    monkeypatch.setattr(shared_board, "FOLDERS", (str(tmp_path),))
    monkeypatch.setattr(gap_filling, "LONGEST_WAIT", 600.0)
    high, low = ((OnGpu(torch.zeros(rows, 64)), OnGpu(torch.zeros(rows, 64))) for rows in (8, 16))
    driver = TimedOnly()
    use(monkeypatch, driver)
    launcher = with_plan(softmax_rows, GRID)
    for pair in (high, low):
        launcher(*pair)
    with vk.priority("low"):
        launcher(*low)  # so that other processes mark their calls
    filling = fillings[0]
    assert filling.stats().fills == 1

    def other(pipe: Connection) -> None:
        at_once = driver.launch

        def launch(*told: int) -> None:
            pipe.send("in a call")
            pipe.recv()
            at_once(*told)

        driver.launch, driver.marks = launch, 0  # type: ignore[method-assign]
        with vk.priority("high"):
            launcher(*high)
        pipe.send(driver.marks)
        pipe.poll(600)

    peer = Peer(other)
    assert peer.receive() == "in a call"

    def work() -> None:
        with vk.priority("low"):
            launcher(*low)

    before, thread = len(driver.launches), threading.Thread(target=work)
    thread.start()
    while not filling._queue:
        time.sleep(1e-3)
    for _ in range(20):
        assert not filling._take_units(filling._queue[0], time.perf_counter())
    assert len(driver.launches) == before
    if ending == "killed":
        peer.kill()
    else:
        peer.pipe.send("go on")
        assert peer.receive() == 2
    thread.join(60)
    assert len(driver.launches) == before + 1
    if ending == "done":
        peer.kill()
    for board in device_board._boards.values():
        board.close()
    device_board._boards.clear()


def test_an_error_of_a_launch_comes_out_and_others_go_on(
    monkeypatch: pytest.MonkeyPatch, fillings: dict[int, GapFilling]
) -> None:
    pair = OnGpu(torch.zeros(8, 64)), OnGpu(torch.zeros(8, 64))
    driver = TimedOnly()
    use(monkeypatch, driver)
    launcher = with_plan(softmax_rows, GRID)
    launcher(*pair)
    broken = vk.SetupError("the device is gone")
    for level in ("low", "high"):
        with vk.priority(level):
            with monkeypatch.context() as patches:
                patches.setattr(driver, "mark", lambda: (_ for _ in ()).throw(broken))
                with pytest.raises(vk.SetupError, match="is gone"):
                    launcher(*pair)
            launcher(*pair)
    assert fillings[0].stats().fills == 1
