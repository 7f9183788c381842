"""Twenty programs at 70, 50 and 30 % of their peak: the same bits, and the limit kept from the first operation on."""

from __future__ import annotations

import functools

import pytest
import torch

import vkernels.memory
from vkernels.ir.errors import OutOfMemoryError

from .matrix_programs import (
    PROGRAMS,
    BatchChanges,
    Carried,
    CarriedGru,
    Gpt,
    GptAccumulation,
    GptAll,
    GptAutocast,
    InferenceOnly,
    MixtureOfExperts,
)  # fmt: skip
from .meter import Meter

pytestmark = pytest.mark.usefixtures("one_thread")
STEPS = 7
PARTS = (70, 50, 30)
REFUSED = {
    ("InferenceOnly", 30), ("Carried", 30), ("Cnn", 30), ("Unet", 30), ("PerSample", 70), ("PerSample", 50),
    ("PerSample", 30),
}  # fmt: skip
"""Cells in which one operation needs more than the limit at once, as with `save_on_cpu` or `checkpoint` too."""


def ran(make, steps, limited=None):
    """Run a program, metered: its losses and what it learnt, its peak, and what `limited` made of the step."""
    program = make()
    step = program.step if limited is None else limited(program.step)
    meter = Meter(program.state(), *(() if limited is None else (step.on_host,)))
    with meter:
        losses = [step(i).item() for i in range(steps)]
    return losses, [value.clone() for value in program.state()], meter.peak


@functools.cache
def without_limit(make, steps):
    return ran(make, steps)


def check(make, part, steps, strict=True):
    losses, state, peak = without_limit(make, steps)
    bytes = peak * part // 100
    found, learnt, most = ran(make, steps, lambda step: vkernels.memory.limit(step, bytes, strict=strict))
    assert found == losses
    assert all(torch.equal(one, other) for one, other in zip(learnt, state, strict=True))
    assert most <= bytes


@pytest.mark.parametrize("make", [Gpt, InferenceOnly, MixtureOfExperts])
def test_the_first_call_keeps_the_limit(make):
    check(make, 70, 1)


@pytest.mark.thorough
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("make", PROGRAMS)
def test_the_limit_is_kept_from_the_first_operation_on_with_the_same_bits(make, part):
    if (make.__name__, part) in REFUSED:
        with pytest.raises(OutOfMemoryError, match=r"has to have \d+ bytes on cpu at once"):
            check(make, part, 2)
    else:
        check(make, part, STEPS)


@pytest.mark.thorough
@pytest.mark.parametrize(("make", "part"), [(make, part) for make in PROGRAMS for part in PARTS
                                            if (make.__name__, part) not in REFUSED])  # fmt: skip
def test_calls_that_are_not_watched_keep_it_too(make, part):
    check(make, part, 30 if make is GptAccumulation else 14, strict=False)


@pytest.mark.sample(2)
@pytest.mark.parametrize("part", [70, pytest.param(50, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    ("make", "period", "planned"),
    [
        (Carried, 1, 9), (CarriedGru, 1, 9), (GptAutocast, 1, 9), (GptAll, 2, 6), (GptAccumulation, 3, 3),
        pytest.param(BatchChanges, 3, 11, marks=pytest.mark.thorough),
    ],
)  # fmt: skip
def test_carried_state_half_precision_and_calls_in_turns_are_planned(make, period, planned, part):
    steps, reports = 24 if make is BatchChanges else 12, []

    def limited(step):
        reports.append(vkernels.memory.limit(step, peak * part // 100, strict=True))
        return reports[0]

    losses, state, peak = without_limit(make, steps)
    found, learnt, most = ran(make, steps, limited)
    report = reports[0].report
    assert found == losses
    assert all(torch.equal(one, other) for one, other in zip(learnt, state, strict=True))
    assert (report.period, report.planned, report.strays) == (period, planned, 0), report.why
    assert most <= peak * part // 100
