"""Results of any dtype and layout can be read as words, and reading changes nothing."""

from __future__ import annotations

import numpy as np
import pytest

from vkernels.autotune.arguments import copied
from vkernels.autotune.measure.measures import Candidate, Effort, Setting
from vkernels.autotune.measure.readers import reader_of, words_of
from vkernels.autotune.measure.subject import MeasuredTask
from vkernels.inspect.task import Task
from vkernels.ir.plan import Plan

from .test_bench import SCALED

ARRAYS = [
    np.arange(15, dtype=np.float32).reshape(3, 5),
    np.arange(15, dtype=np.float16).reshape(3, 5),
    np.asfortranarray(np.arange(24.0).reshape(4, 6)),
    np.arange(24, dtype=np.int64).reshape(2, 3, 4).transpose(1, 2, 0),
    np.ones(7, np.bool_),
    np.zeros(()),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda each: f"{each.dtype}{each.shape}")
def test_the_words_of_an_array_are_its_memory(array: np.ndarray):
    words = words_of(array)
    assert words.nbytes == array.nbytes
    assert np.shares_memory(words, array)
    assert words.dtype == (np.int32 if array.nbytes % 4 == 0 else np.int8)


def test_arrays_with_gaps_or_without_elements_are_left_out():
    assert words_of(np.zeros((4, 8))[:, ::2]) is None
    assert words_of(np.zeros((0, 3))) is None
    reader_of({"out": np.zeros((0, 3))}, ["out"], "cpu")()


def test_dtypes_that_only_torch_has_are_words_too():
    torch = pytest.importorskip("torch")
    value = torch.randn(4, 6).to(torch.bfloat16).T
    words = words_of(value)
    assert words.dtype == torch.int32
    assert words.data_ptr() == value.data_ptr()
    assert words.numel() == 12


def test_a_reader_reads_what_a_candidate_wrote_and_changes_nothing():
    """Results are right with a reader after each call, and each copy of the arguments has a reader of its own."""
    subject = MeasuredTask(Task(SCALED.kernel, {"N": 1000}, SCALED.dtypes), 0, "cpu", Effort(sets=2))
    calls = subject.compiled(Candidate(Plan(tiles={"i": 64}, lanes="i", order=("i",), warps=1)))
    assert subject.calls_in(Setting.COLD, calls) == subject.calls_in(Setting.WARM, calls) == list(calls)
    for setting in (Setting.READ, Setting.CHAIN):
        together = subject.calls_in(setting, calls)
        assert len(together) == len(calls)
        for number, call in enumerate(together):
            subject.check(call, number)
    values = {"out": np.arange(30, dtype=np.float32).reshape(5, 6).T}
    before = copied(values["out"])
    reader_of(values, ["out"], "cpu")()
    assert np.array_equal(values["out"], before)
