"""Calls of library functions on a GPU that are like earlier ones only start their launches, on new results.

Tensors of the CPU pass for those of a GPU: torch here has no others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import vkernels as vk
from tests.library.replayed_calls import calls_of, normal
from vkernels import library
from vkernels.compiler.default_session import default_session
from vkernels.library import captured_call, gpu_arrays, replay
from vkernels.library.captured_call import CapturedCall, Empty, Kind, NotRepeatableError, Step
from vkernels.runtime import arrays

from .fakes import STREAM, FakeDriver, use


@pytest.fixture(scope="module")
def only_driver() -> Iterator[FakeDriver]:
    """A driver that notes the launches of all tensors: kernels keep what they have loaded on it."""
    found, view = FakeDriver(), arrays._torch_view
    with pytest.MonkeyPatch.context() as patches, vk.patient():
        use(patches, found)
        patches.setattr(arrays, "_torch_view", lambda tensor, what: replace(view(tensor, what), device="cuda:0"))
        yield found
    default_session()._kernels.clear()
    replay._forget()


@pytest.fixture
def driver(only_driver: FakeDriver) -> FakeDriver:
    only_driver.launches.clear()
    return only_driver


def given(driver: FakeDriver) -> set[int]:
    """The words that the last launch was given."""
    return {int.from_bytes(slot, "little") for slot in driver.launches[-1].slots}


def test_a_like_call_only_starts_its_launches(driver: FakeDriver) -> None:
    softmax, ran = calls_of(library.softmax)
    results = []
    for seed in range(4):
        x = normal(5, 64, seed=seed)
        results.append(softmax(x))
        assert {x.data_ptr(), results[-1].data_ptr()} <= given(driver)
    assert len(ran) == 1
    assert len({result.data_ptr() for result in results}) == 4
    assert len({(each.function, each.grid, each.threads, each.stream) for each in driver.launches}) == 1
    assert driver.launches[-1].stream == STREAM


def test_other_addresses_have_code_of_their_own(driver: FakeDriver) -> None:
    softmax, ran = calls_of(library.softmax)
    whole = normal(5 * 64 + 1)
    for start in (0, 0, 1, 1):
        softmax(whole[start : start + 5 * 64].view(5, 64))
    assert len(ran) == 1
    functions = [launch.function for launch in driver.launches]
    assert functions[0] == functions[1] != functions[2] == functions[3]


def test_other_shapes_are_other_calls(driver: FakeDriver) -> None:
    softmax, ran = calls_of(library.softmax)
    for length in (64, 32, 64, 32):
        softmax(normal(5, length))
    assert len(ran) == 2


class OnGpu(SimpleNamespace):
    """What repeated calls ask of an array on a GPU."""

    def __init__(self, read: list[Any]):
        super().__init__(device=torch.device("cuda:0"), record_stream=read.append, data_ptr=lambda: 4096)


def captured(constants: tuple[Any, ...], others: tuple[Any, ...] = (), steps: tuple[Step, ...] = ()) -> CapturedCall:
    kind, given = Kind(1, (), (), ()), ((0, None),)
    empty, nothing = Empty(torch.empty_like), lambda written: None
    return CapturedCall(kind, given, (), others, 0, constants, steps, (None,), False, (), empty, nothing, True)


def test_arrays_that_are_kept_are_read_on_the_stream_and_belong_to_no_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []
    state = SimpleNamespace(captured=False)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: "this stream")
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: state.captured)
    repeat = captured((OnGpu(read),)).repeated()
    assert repeat((torch.ones(1),), ()) is None
    assert read == ["this stream"]
    state.captured = True
    with pytest.raises(NotRepeatableError):
        repeat((torch.ones(1),), ())
    looks = captured((), steps=(Step(None, None, (), holds=lambda values: True),))
    text = captured_call._Writer(looks)
    text._judge_stream(1)
    assert "if is_captured():" in text.lines, "what a call looks at belongs to no graph"


def test_temporaries_on_a_gpu_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call on another stream would use them while this one's launches still run."""
    small = (torch.empty(4),)
    assert captured_call._Writer(captured((), small))._is_small
    monkeypatch.setattr(gpu_arrays, "on_gpu", lambda arrays: True)
    assert not captured_call._Writer(captured((), small))._is_small
