"""Kernel calls as NVTX and ROCTX ranges, by libraries in place of the vendors'."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from jaxtyping import Float

import vkernels as vk
from vkernels.library import softmax
from vkernels.runtime import torch_profiler
from vkernels.runtime import vendor_ranges as ranges


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


@pytest.fixture(params=["nvtx", "roctx"])
def kind(request):
    return request.param


@pytest.fixture
def said(monkeypatch, kind):
    """What the library is told: names of ranges that begin, None for ends."""
    found: list[bytes | None] = []
    push = Pushed(found)
    library = SimpleNamespace(**{f"{kind}RangePushA": push, f"{kind}RangePop": lambda: found.append(None)})
    monkeypatch.setattr(ranges, "CDLL", lambda name: library)
    yield found
    assert push.argtypes == [ctypes.c_char_p]


def call():
    x, out = np.arange(7.0), np.full(7, np.nan)
    twice(x, out)
    assert (out == 2 * x).all()


def test_calls_are_ranges_within_only(said, kind):
    call()
    with vk.profiler_ranges(kind):
        call()
        call()
    call()
    assert said == [b"twice", None] * 2


def test_library_functions_are_ranges_also_where_they_ran_before(said, kind):
    x = np.zeros((2, 4), np.float32)
    for _ in range(3):
        softmax(x)
    with vk.profiler_ranges(kind):
        softmax(x)
    assert len(said) == 2
    assert said[0].startswith(b"softmax")


def test_a_call_that_fails_ends_its_range(said, kind):
    with vk.profiler_ranges(kind), pytest.raises(KeyError), torch_profiler.range_of("mine"):
        raise KeyError
    assert said == [b"mine", None]


def test_torchs_profiler_gets_its_ranges_too(said, kind):
    with vk.profiler_ranges(kind), torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        call()
    assert said == [b"twice", None]
    assert [event.count for event in profile.key_averages() if event.key == "twice"] == [1]


def absent(name):
    raise OSError(name)


@pytest.mark.parametrize(
    ("kind", "needs"),
    [("nvtx", "torch with CUDA, or CUDA's library: there is no libnvToolsExt"),
     ("roctx", "ROCm's library: there is no librocprofiler-sdk-roctx")],
)  # fmt: skip
def test_without_the_library_it_is_said(monkeypatch, kind, needs):
    monkeypatch.setattr(ranges, "CDLL", absent)
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(vk.SetupError, match=f"{kind.upper()} ranges need {needs}"), vk.profiler_ranges(kind):
        pass


def test_without_torch_it_is_said_too(monkeypatch):
    monkeypatch.setattr(ranges, "CDLL", absent)
    monkeypatch.setattr(ranges, "TORCH", "no_such_module_here")
    with pytest.raises(vk.SetupError, match="NVTX ranges need"), vk.profiler_ranges("nvtx"):
        pass


def test_torch_for_cuda_has_nvtx_in_it(monkeypatch):
    said: list[str | None] = []
    monkeypatch.setattr(ranges, "CDLL", absent)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda.nvtx, "range_push", said.append)
    monkeypatch.setattr(torch.cuda.nvtx, "range_pop", lambda: said.append(None))
    with vk.profiler_ranges("nvtx"):
        call()
    assert said == ["twice", None]


def test_other_kinds_are_refused():
    with pytest.raises(vk.OptionError, match="expected nvtx or roctx, got 'vtune'"), vk.profiler_ranges("vtune"):
        pass
