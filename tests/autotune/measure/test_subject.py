"""What is compared: every copy, in place where the kernel works in place, and inputs that nobody may write."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vkernels.autotune.measure.measures import Candidate, Effort, FailureReason
from vkernels.autotune.measure.subject import MeasuredTask, WrongAnswerError, classified
from vkernels.inspect.task import Task
from vkernels.ir.plan import Plan

from .test_bench import HERE, SCALED

SMALL = Task(SCALED.kernel, {"N": 1000}, SCALED.dtypes)
PLAN = Plan(tiles={"i": 64}, lanes="i", order=("i",), warps=1)


@pytest.fixture(scope="module")
def subject() -> MeasuredTask:
    return MeasuredTask(SMALL, 0, "cpu", Effort(sets=3))


def test_each_copy_has_the_same_numbers_in_memory_of_its_own(subject: MeasuredTask):
    assert len(subject.sets) == 3
    for values in subject.sets[1:]:
        for name in ("x", "index"):
            assert np.array_equal(values[name], subject.sets[0][name])
            assert not np.shares_memory(values[name], subject.sets[0][name])
            assert values[name].ctypes.data % 64 == 0


def test_the_reference_is_in_higher_precision_and_right(subject: MeasuredTask):
    (expected,) = subject.expected
    values = subject.sets[0]
    assert expected.exact is not None
    assert np.array_equal(expected.exact, 2 * values["x"].astype(np.float64)[values["index"]])


def test_right_calls_pass_on_every_copy_and_what_was_there_before_is_no_answer(subject: MeasuredTask):
    calls = subject.compiled(Candidate(PLAN))
    for number, call in enumerate(calls):
        subject.check(call, number)
    with pytest.raises(WrongAnswerError, match="1000 of 1000"):
        subject.check(lambda: None)  # outputs held the right answer, and were poisoned


def test_a_candidate_that_its_compiler_refuses_is_a_failure_and_the_next_is_compiled(
    subject: MeasuredTask, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*arguments: object) -> None:
        raise RuntimeError("no such layout")

    with monkeypatch.context() as patched, classified(FailureReason.CRASH) as report:
        patched.setattr("vkernels.compiler.compile_cpu.compile_kernel", refuse)
        subject.compiled(Candidate(replace(PLAN, tiles={"i": 32})))
    assert report.failure.reason is FailureReason.COMPILE_ERROR
    assert report.failure.text.endswith("the plan that its author gives has no code: no such layout")
    assert subject.compiled(Candidate(replace(PLAN, tiles={"i": 128})))


def test_a_call_that_writes_to_an_input_is_wrong_though_its_outputs_are_right():
    subject = MeasuredTask(SMALL, 0, "cpu", Effort(sets=1))
    (call,) = subject.compiled(Candidate(PLAN))

    def careless() -> None:
        call()
        subject.sets[0]["x"][7] += 1

    with pytest.raises(WrongAnswerError, match="x is an input"):
        subject.check(careless)


def test_tensors_that_are_read_and_written_start_anew():
    task = Task(f"{HERE}:added", {"N": 500}, {"x": "float32", "total": "float32"})
    subject = MeasuredTask(task, 0, "cpu", Effort(sets=2))
    first = subject.sets[0]["total"].copy()
    calls = subject.compiled(Candidate(PLAN))
    for _ in range(3):
        subject.check(calls[0])
        for _ in range(100):
            calls[0]()
    subject.restore()
    assert np.array_equal(subject.sets[0]["total"], first)
    assert np.array_equal(subject.sets[1]["total"], first)


def test_a_reference_is_computed_by_the_plans_of_an_earlier_one_where_they_are_given(subject: MeasuredTask):
    again = MeasuredTask(SMALL, 0, "cpu", Effort(sets=1), subject.plans)
    assert again.plans == subject.plans
    assert len(subject.plans) == 2
    assert np.array_equal(again.expected[0].peer, subject.expected[0].peer)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_dtypes_that_numpy_has_and_lacks_are_compared_in_float64(dtype: str):
    pytest.importorskip("torch")
    task = Task("vkernels.library.rows:softmax_rows", {"M": 8, "N": 40}, {"x": dtype, "out": dtype})
    subject = MeasuredTask(task, 0, "cpu", Effort(sets=2))
    (expected,) = subject.expected
    assert expected.exact is not None
    assert np.allclose(expected.exact.sum(-1), 1, atol=1e-12)
    subject.check(subject.compiled(Candidate(Plan(tiles={"i": 1}, chunks={"j": 8}, warps=1)))[1], 1)
