"""Gradients that two devices exchange over the link: worked out by hand, and beside transfers of swapped tensors."""

from __future__ import annotations

import pytest

from vkernels.memory.exchanges import Exchange, after_backward, gradient_exchanges
from vkernels.memory.links import MemoryMachine
from vkernels.memory.schedule import SwapSchedule
from vkernels.memory.simulate import simulate
from vkernels.memory.trace import MemoryTrace, Operation, TracedTensor

from .steps import absent

LINK = MemoryMachine(device_bytes=50, host_bytes=100, to_host=10, from_host=10, to_flash=5, from_flash=5)


def trained(*seconds):
    """Two layers: backward writes b.grad, then a.grad; the optimiser reads b.grad, then a.grad."""
    tensors = TracedTensor("a.grad", 10), TracedTensor("b.grad", 10), TracedTensor("x", 20)
    uses = ((), (2,)), ((), (1,)), ((2,), (0,)), ((1,), ()), ((0, 2), ())
    operations = (Operation(f"op{n}", time, *use) for n, (time, use) in enumerate(zip(seconds, uses, strict=True)))
    return MemoryTrace("trained", tensors, tuple(operations))


def test_exchanges_are_from_the_last_write_to_the_next_read():
    trace = trained(1, 1, 1, 1, 1)
    found = gradient_exchanges(trace, ".grad")
    assert found == (Exchange(1, 1, 3), Exchange(0, 2, 4))
    assert after_backward(found) == (Exchange(1, 2, 3), Exchange(0, 2, 4))
    assert gradient_exchanges(trace, "none") == ()


@pytest.mark.parametrize(("backward", "during", "after"), [(1, (0, 0, 0, 1, 0), (0, 0, 0, 2, 0)),
                                                           (3, (0, 0, 0, 0, 1), (0, 0, 0, 2, 0))])  # fmt: skip
def test_operations_wait_for_what_they_read(backward, during, after):
    """A gradient takes 1 s out and 1 s back, the next one's way out beside it: it is there after 2 s, the other 3."""
    trace = trained(1, 1, backward, 1, 1)
    found = gradient_exchanges(trace, ".grad")
    runs = [simulate(trace, SwapSchedule(), LINK, exchanges=each) for each in (found, after_backward(found))]
    assert [run.stalls for run in runs] == [during, after]
    assert simulate(trace, SwapSchedule(), LINK).seconds == 4 + backward


def test_swapped_tensors_share_the_link():
    """x is copied from 1 to 3 s, so that b.grad, ready at 2, goes from 3 to 4 and is back at 5 instead of 4."""
    trace = trained(1, 1, 1, 1, 1)
    schedule = SwapSchedule((absent(2, 2, 4, copy=0),))
    alone = simulate(trace, schedule, LINK)
    both = simulate(trace, schedule, LINK, timeline=True, exchanges=gradient_exchanges(trace, ".grad"))
    assert alone.stalls[3] == 0
    assert both.stalls[3] == 2
    assert {each.absence for each in both.timeline.transfers} == {0}
    assert both.seconds > alone.seconds
