"""Which calls are like one that was recorded, and so repeat it."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch.utils._python_dispatch import TorchDispatchMode

import vkernels as vk
from vkernels import library
from vkernels.library.arrays import empty_like
from vkernels.runtime import torch_guards

from .replayed_calls import calls_of, normal


def test_zeros_of_both_signs_are_kept_apart():
    @vk.kernel
    def scale(x: Float[vk.Tensor, "N"], factor: vk.Scalar, out: Float[vk.Tensor, "N"]):
        i = vk.tile("N")
        out[i] = factor * x[i]

    def scaled(x, factor):
        out = empty_like(x, tuple(x.shape))
        scale(x, factor, out)
        return out

    function, _ = calls_of(scaled)
    x = normal(8).abs()
    for factor in (0.0, -0.0, 0.0, -0.0):
        assert torch.equal(torch.signbit(function(x, factor)), torch.signbit(factor * x))


def test_calls_in_other_modes_of_torch_are_kept_apart():
    softmax, ran = calls_of(library.softmax)
    x = normal(4, 8)
    for _ in range(2):
        assert not softmax(x).is_inference()
        with torch.inference_mode():
            assert softmax(x).is_inference()
        with torch.autocast("cpu"):
            torch.testing.assert_close(softmax(x), torch.softmax(x, -1))
    assert len(ran) <= 3


def test_a_mode_that_sees_operations_sees_results_of_a_repeated_call():
    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
            names.append(str(operation))
            return operation(*args, **(kwargs or {}))

    names: list[str] = []
    x = normal(4, 8)
    for _ in range(3):
        library.softmax(x)
        assert not names
    for _ in range(3):
        names.clear()
        with Seen():
            library.softmax(x)
        assert any("empty" in name for name in names)


def test_subclasses_and_views_go_the_long_way():
    class Own(torch.Tensor):
        pass

    softmax, ran = calls_of(library.softmax)
    x = normal(4, 8)
    softmax(x)
    before = len(ran)
    softmax(x.as_subclass(Own))
    assert len(ran) == before + 1
    torch.testing.assert_close(softmax(torch._neg_view(x).resolve_neg()), torch.softmax(-x, -1))


def test_what_torch_does_not_tell_apart_is_told_by_keys(monkeypatch):
    monkeypatch.setattr(torch_guards, "guards", lambda: None)
    softmax, ran = calls_of(library.softmax)
    for shape in ((4, 8), (5, 8), (4, 8), (5, 8)):
        x = normal(*shape)
        torch.testing.assert_close(softmax(x), torch.softmax(x, -1))
    assert len(ran) == 2
