"""Kernel calls as ROCTX ranges, by a library in place of ROCm's."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from jaxtyping import Float

import vkernels as vk
from vkernels.library import softmax
from vkernels.runtime import roctx, torch_profiler


@vk.kernel
def twice(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = 2 * x[i]


class Pushed:
    """Takes attributes, as a function of ctypes does."""

    def __init__(self, said: list):
        self.said = said

    def __call__(self, name: bytes) -> int:
        self.said.append(name)
        return 0


@pytest.fixture
def said(monkeypatch):
    """What the library is told: names of ranges that begin, None for ends."""
    found: list[bytes | None] = []
    library = SimpleNamespace(roctxRangePushA=Pushed(found), roctxRangePop=lambda: found.append(None))
    monkeypatch.setattr(roctx, "CDLL", lambda name: library)
    yield found
    assert library.roctxRangePushA.argtypes == [ctypes.c_char_p]


def call():
    x, out = np.arange(7.0), np.full(7, np.nan)
    twice(x, out)
    assert (out == 2 * x).all()


def test_calls_are_ranges_within_only(said):
    call()
    with roctx.roctx_ranges():
        call()
        call()
    call()
    assert said == [b"twice", None] * 2


def test_library_functions_are_ranges_also_where_they_ran_before(said):
    x = np.zeros((2, 4), np.float32)
    for _ in range(3):
        softmax(x)
    with roctx.roctx_ranges():
        softmax(x)
    assert len(said) == 2
    assert said[0].startswith(b"softmax")


def test_a_call_that_fails_ends_its_range(said):
    with roctx.roctx_ranges(), pytest.raises(KeyError), torch_profiler.range_of("mine"):
        raise KeyError
    assert said == [b"mine", None]


def test_torchs_profiler_gets_its_ranges_too(said):
    with roctx.roctx_ranges(), torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        call()
    assert said == [b"twice", None]
    assert [event.count for event in profile.key_averages() if event.key == "twice"] == [1]


def test_without_the_library_it_is_said(monkeypatch):
    def absent(name):
        raise OSError(name)

    monkeypatch.setattr(roctx, "CDLL", absent)
    with pytest.raises(vk.SetupError, match="there is no librocprofiler-sdk-roctx"), roctx.roctx_ranges():
        pass
