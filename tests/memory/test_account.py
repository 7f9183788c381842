"""Tasks of one device share its bytes and its link by one account, and decide again when others come or go."""

import threading
from contextlib import suppress
from math import inf

import pytest
import torch

import vkernels.memory
from vkernels.ir.errors import ArgumentError, MemoryPlanError, OutOfMemoryError, OverLimitWarning
from vkernels.memory.account import MemoryAccount
from vkernels.memory.placement.task import PlacedTask, with_link
from vkernels.memory.record import record

from .placement.drawn import MIB
from .placement.test_choose import DISCRETE, INTEGRATED, streamed
from .programs import Program, assert_same, cnn

SIZE = 8 * MIB
AGAIN = streamed(SIZE, again=4)
"""A buffer that is read again and again: copied, where it fits."""


@pytest.fixture
def one_thread():
    """The same order of additions in every run."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_small_wishes_are_met_and_others_get_equal_parts():
    account = MemoryAccount(100)
    small, large, any_size = account.enter("small", 10), account.enter("large", 60), account.enter("any")
    assert [each.share.bytes for each in (small, large, any_size)] == [10, 45, 45]
    any_size.leave()
    assert [each.share.bytes for each in (small, large)] == [10, 60]
    assert account.tenants == (small, large)
    assert MemoryAccount().enter("alone").share.bytes == inf


def test_nobody_holds_what_others_hold():
    account = MemoryAccount(100)
    first, second = account.enter("first"), account.enter("second")
    first.hold(80)
    assert (second.share.bytes, second.free) == (50, 20)
    with pytest.raises(OutOfMemoryError, match="second: 50 bytes of 100, of which others hold first 80"):
        second.hold(50)
    first.hold(40)
    second.hold(50)
    first.leave()
    first.leave()
    assert second.free == 100


def test_what_others_leave_of_the_link_is_at_least_an_equal_part():
    account = MemoryAccount()
    tasks = [account.enter(str(number)) for number in range(3)]
    assert tasks[0].share.link == 1
    version = account.version
    tasks[1].use_link(0.31)
    assert account.version > version
    assert tasks[0].share.link == pytest.approx(0.7)
    version = account.version
    tasks[1].use_link(0.29)
    assert account.version == version
    tasks[2].use_link(7.0)
    assert tasks[0].share.link == pytest.approx(1 / 3)
    assert tasks[2].share.link == pytest.approx(0.7)


@pytest.mark.parametrize("size", [0, -1, True, "8"])
def test_an_account_has_a_positive_size(size):
    with pytest.raises(ArgumentError, match="positive"):
        MemoryAccount(size)


def test_tasks_of_several_threads_never_hold_more_than_there_is():
    account, too_many = MemoryAccount(1000), []

    def work(number):
        for size in range(200):
            tenant = account.enter(str(number))
            with suppress(OutOfMemoryError):
                tenant.hold(size)
            if sum(each.bytes for each in account.tenants) > 1000:
                too_many.append(number)
            tenant.leave()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert too_many == []
    assert account.tenants == ()


def test_placements_are_chosen_again_as_neighbours_come_and_go():
    """A buffer that is copied alone is accessed in place while another task has the bytes."""
    account = MemoryAccount(1.5 * SIZE)
    first = PlacedTask(AGAIN, DISCRETE, account, "first")
    alone = first.decision
    assert (alone.of("x").placement, alone.footprint, account.tenants[0].bytes) == ("copy", SIZE, SIZE)
    assert first.decision is alone
    second = account.enter("second")
    second.use_link(0.5)
    beside = first.decision
    assert (beside.of("x").placement, beside.footprint, account.tenants[0].bytes) == ("zero-copy", 0, 0)
    assert beside.seconds > alone.seconds
    second.hold(int(account.size))
    second.leave()
    assert first.decision is alone
    first.leave()
    assert account.tenants == ()


def test_a_task_whose_bytes_others_hold_waits_for_them():
    account = MemoryAccount(SIZE)
    other = account.enter("other", 0)
    other.hold(SIZE)
    task = PlacedTask(AGAIN, DISCRETE, account, "task")
    with pytest.raises(OutOfMemoryError, match="other"):
        _ = task.decision
    other.hold(0)
    assert task.decision.footprint == SIZE
    with pytest.raises(MemoryPlanError):
        PlacedTask(AGAIN, INTEGRATED, account, "too large", limit=SIZE // 2)


def test_a_link_in_part_slows_what_goes_over_it_alone():
    half = with_link(DISCRETE, 0.5)
    assert (half.to_device, half.mapped.read) == (DISCRETE.to_device / 2, DISCRETE.mapped.read / 2)
    assert (half.device, half.host) == (DISCRETE.device, DISCRETE.host)
    assert half.managed.prefetch == DISCRETE.managed.prefetch / 2
    assert half.managed.fault_seconds == DISCRETE.managed.fault_seconds
    assert with_link(INTEGRATED, 0.5) is INTEGRATED


@pytest.mark.compile
def test_a_step_is_planned_again_when_a_neighbour_comes_and_when_it_goes(one_thread):
    """On the CPU, in real arenas, with the same bits."""
    peak = record(Program(cnn).step).peak
    account, plain, program = MemoryAccount(peak), Program(cnn), Program(cnn)
    step = vkernels.memory.limit(program.step, int(0.9 * peak), account=account)
    losses, arenas = [], []

    def run(calls):
        for _ in range(calls):
            losses.append(step().item())
        arenas.append(step.report.arena)
        assert account.tenants[0].bytes == arenas[-1]

    run(5)
    neighbour = account.enter("neighbour")
    neighbour.use_link(0.5)
    run(5)
    neighbour.hold(int(0.4 * peak))
    neighbour.leave()
    run(5)
    assert arenas[0] == arenas[2] > 0.55 * peak > 0.5 * peak >= arenas[1]
    assert losses == [plain.step().item() for _ in range(15)]
    step.close()
    assert account.tenants == ()
    assert_same(program, plain)


def test_a_plan_that_does_not_fit_holds_nothing(one_thread):
    account, program = MemoryAccount(1 << 30), Program(cnn)
    neighbour = account.enter("neighbour", 0)
    neighbour.hold((1 << 30) - 1024)
    step = vkernels.memory.limit(program.step, 1 << 30, account=account)
    with pytest.warns(OverLimitWarning):
        step()
    for _ in range(3):
        step()
    assert step.report.planned == 0
    assert "at least" in step.report.why
    assert neighbour.free == 1 << 30
    step.close()
