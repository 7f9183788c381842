"""Dtypes that a kernel computes with: `vk.promote`, `vk.compute_dtype`, and zeros of the dtype of something."""

import numpy as np
import pytest
import torch
from jaxtyping import Shaped

import vkernels as vk
from vkernels.language.dtypes import DTYPES

from .signatures import plain_signature


@vk.kernel
def added(x: Shaped[vk.Tensor, "N"], y: Shaped[vk.Tensor, "N"], out: Shaped[vk.Tensor, "N"], expected: vk.Constant):
    i = vk.tile("N")
    assert vk.compute_dtype(x, y) == expected
    assert vk.compute_dtype(x[i], y[i]) == expected
    assert vk.compute_dtype(vk.promote(x.dtype, y.dtype)) == expected
    total = vk.zeros((i,), vk.compute_dtype(x, y))
    total += x[i].to(expected)
    total += y[i].to(expected)
    out[i] = total


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        ("float16", "float16", "float32"),
        ("bfloat16", "float16", "float32"),
        ("float8_e5m2", "float8_e5m2", "float32"),
        ("float32", "bfloat16", "float32"),
        ("float64", "float16", "float64"),
        ("int8", "uint8", "int16"),
        ("int32", "float16", "float32"),
        ("int64", "int32", "int64"),
    ],
)
def test_the_dtype_of_arithmetic(x, y, expected):
    added.build(added.signature(x=x, y=y, out=expected, expected=DTYPES[expected])).verify()


@vk.kernel
def kept(x: Shaped[vk.Tensor, "M N"], out: Shaped[vk.Tensor, "M N"]):
    i, j = vk.tile("M"), vk.whole("N")
    memory = vk.scratch((i, j), vk.float64)
    for source, dtype in ((x, x.dtype), (x[i, j], x.dtype), (memory, vk.float64), (j, vk.int64), (vk.int8, vk.int8)):
        assert vk.zeros((i, j), like=source).dtype == dtype
    assert vk.zeros((i, j)).dtype == vk.float32
    total = vk.zeros((i, j), like=x)
    total += x[i, j]
    out[i, j] = total


@pytest.mark.parametrize("dtype", [torch.float64, torch.int16, torch.bfloat16])
def test_zeros_like(dtype):
    x = torch.arange(-6, 6).reshape(3, 4).to(dtype)
    for run in (kept, kept.interpret):
        out = torch.full_like(x, 77)
        run(x, out)
        assert torch.equal(out, x)


@vk.kernel
def of_bytes_and_floats(x: Shaped[vk.Tensor, "N"], out: Shaped[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = x[i] + vk.zeros((i,), vk.compute_dtype(vk.float8_e5m2, vk.float32))


def test_dtypes_without_a_common_one():
    with pytest.raises(vk.TypeMismatchError, match="do not promote") as caught:
        of_bytes_and_floats.build(plain_signature(of_bytes_and_floats))
    assert "vk.compute_dtype(vk.float8_e5m2, vk.float32)" in str(caught.value)


@vk.kernel
def joined(x: Shaped[vk.Tensor, "N"], out: Shaped[vk.Tensor, "N"]):
    i = vk.tile("N")
    all_ = ()
    for power in range(3):
        all_ = all_ + (x[i] ** power,)  # noqa: RUF005
    out[i] = all_[0] + all_[1] + all_[2]


def test_tuples_grow_by_joining():
    x, out = np.arange(5.0), np.full(5, np.nan)
    joined(x, out)
    np.testing.assert_array_equal(out, 1 + x + x * x)
