"""Convolution and its gradients equal torch in float64, for every dtype, size, stride, padding, dilation and group."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

import vkernels as vk
from vkernels.library import arrays
from vkernels.library.convolution import conv2d, conv2d_backward

from .reference import DTYPES, assert_close, fresh_seed, normal, poisoned

CASES = {
    "three by three": ((2, 5, 17, 19), (7, 5, 3, 3), {"padding": 1}),
    "strides": ((2, 4, 17, 20), (6, 4, 3, 2), {"stride": (2, 3), "padding": (1, 0)}),
    "dilation and groups": ((1, 6, 18, 16), (4, 3, 3, 3), {"dilation": (2, 1), "padding": 2, "groups": 2}),
    "depthwise": ((2, 6, 9, 33), (6, 1, 3, 3), {"padding": 1, "groups": 6}),
    "one by one": ((3, 8, 7, 5), (4, 8, 1, 1), {}),
    "patches": ((1, 3, 32, 32), (16, 3, 8, 8), {"stride": 8}),
    "one place": ((1, 1, 1, 1), (1, 1, 1, 1), {}),
    "no images": ((0, 2, 5, 5), (3, 2, 3, 3), {}),
    "wide padding": ((1, 2, 4, 4), (2, 2, 2, 2), {"padding": 3}),
}


def check(case: str, dtype: torch.dtype, seed: int) -> None:
    image_shape, weight_shape, options = CASES[case]
    image, weight = normal(image_shape, dtype, seed), normal(weight_shape, dtype, seed + 1)
    bias = normal(weight_shape[:1], dtype, seed + 2)
    exact = [each.double().clone().requires_grad_() for each in (image, weight, bias)]
    expected = functional.conv2d(*exact, **options)
    terms = int(np.prod(weight_shape[1:])) + 1
    out = poisoned(expected.shape, dtype)
    assert conv2d(image, weight, bias, **options, out=out) is out
    assert_close(out, expected.detach(), terms=terms, scale=8.0)
    grad = normal(expected.shape, dtype, seed + 3)
    expected.backward(grad.double())
    for found, each in zip(conv2d_backward(grad, image, weight, **options), exact, strict=True):
        assert_close(found, each.grad, terms=max(terms, grad.numel()), scale=8.0)


@pytest.mark.sample(1)
@pytest.mark.parametrize("case", CASES)
def test_convolution_is_right_forward_and_backward(case):
    check(case, torch.float32, fresh_seed())


@pytest.mark.slow
@pytest.mark.sample(2)
@pytest.mark.parametrize("case", ["strides", "dilation and groups"])
@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype != torch.float32])
def test_convolution_is_right_in_every_dtype(case, dtype):
    check(case, dtype, fresh_seed())


@pytest.mark.sample(2)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("has_unit", [True, False])
def test_convolution_of_bf16_is_right_with_and_without_a_dot_unit(case, has_unit, monkeypatch):
    monkeypatch.setattr(arrays, "_has_bf16_unit", lambda: has_unit)
    check(case, torch.bfloat16, fresh_seed())


def test_activations_and_any_strides():
    seed = fresh_seed()
    image = normal((2, 9, 11, 4), torch.float32, seed).permute(0, 3, 1, 2)
    weight = normal((3, 3, 4, 5), torch.float32, seed + 1).permute(3, 2, 0, 1)
    expected = functional.conv2d(image.double(), weight.double(), padding=1).relu()
    out = poisoned((2, 9, 11, 5), torch.float32).permute(0, 3, 1, 2)
    assert_close(conv2d(image, weight, padding=1, activation="relu", out=out), expected, terms=36, scale=8.0)


def test_numpy_in_numpy_out():
    choose = np.random.default_rng(fresh_seed())
    image, weight = choose.normal(size=(1, 2, 6, 7)), choose.normal(size=(3, 2, 3, 3))
    expected = functional.conv2d(torch.from_numpy(image), torch.from_numpy(weight), stride=2)
    found = conv2d(image, weight, stride=2)
    assert isinstance(found, np.ndarray)
    assert_close(torch.from_numpy(found), expected, terms=18, scale=8.0)
    assert all(isinstance(each, np.ndarray) for each in conv2d_backward(found, image, weight, stride=2))


def test_wrong_arguments_are_named():
    image, weight = torch.zeros(1, 4, 5, 5), torch.zeros(2, 4, 3, 3)
    for message, call in {
        "stride is 0, expected an integer of at least 1": lambda: conv2d(image, weight, stride=0),
        "padding is tuple .1, -1.": lambda: conv2d(image, weight, padding=(1, -1)),
        "dilation is tuple .1, 2, 3.": lambda: conv2d(image, weight, dilation=(1, 2, 3)),
        "expected 8 channels": lambda: conv2d(image, weight, groups=2),
        "groups that divide": lambda: conv2d(image, weight, groups=3),
        "4 dimensions": lambda: conv2d(image[0], weight),
        "as large as the weights": lambda: conv2d(image, torch.zeros(2, 4, 6, 6)),
        "bias has dtype int32": lambda: conv2d(image, weight, torch.zeros(2, dtype=torch.int32)),
        "activation is 'relo'": lambda: conv2d(image, weight, activation="relo"),
        "grad has shape": lambda: conv2d_backward(image, image, weight),
    }.items():
        with pytest.raises(vk.ArgumentError, match=message):
            call()
