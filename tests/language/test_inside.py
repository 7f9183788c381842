"""`vk.load(…, inside=True)`: the author's promise that no index is out of range."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Float, Int

import vkernels as vk
from vkernels.ir.dialect import GatherOp, LoadOp
from vkernels.ir.errors import Error, TypeMismatchError


@vk.kernel
def windows(
    x: Float[vk.Tensor, "N"], start: Int[vk.Tensor, "P"], out: Float[vk.Tensor, "P"], promised: vk.Constant = True
):
    p, a = vk.tile("P"), vk.whole(8)
    out[p] = vk.sum(vk.load(x[start[p] + a], inside=promised), axis=a)


@vk.kernel(checked=True)
def checked_windows(x: Float[vk.Tensor, "N"], start: Int[vk.Tensor, "P"], out: Float[vk.Tensor, "P"]):
    p, a = vk.tile("P"), vk.whole(8)
    out[p] = vk.sum(vk.load(x[start[p] + a], inside=True), axis=a)


@vk.kernel
def maybe(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = vk.load(x[i], inside=x[i] > 0)


@pytest.mark.parametrize("promised", [False, True], ids=["guarded", "promised"])
def test_promised_indices_are_not_compared(promised: bool) -> None:
    signature = windows.signature(x="float32", start="int64", out="float32", promised=promised)
    kernel = windows.build(signature)
    loads = [op for op in kernel.walk() if isinstance(op, LoadOp | GatherOp) and op.base.name_hint == "x"]
    assert [bool(each.guarded_dimensions) for each in loads] == [not promised]


def test_promised_elements_are_loaded() -> None:
    seed = int(np.random.SeedSequence().entropy % (1 << 32))  # type: ignore[operator]
    print("seed", seed)
    rng = np.random.default_rng(seed)
    x, start = rng.normal(size=40).astype(np.float32), rng.integers(0, 33, 5)
    out = np.full(5, np.nan, np.float32)
    windows(x, start, out)
    expected = [x[first : first + 8].astype(np.float64).sum() for first in start]
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)


def test_checked_kernels_report_a_broken_promise() -> None:
    x, out = np.ones(40, np.float32), np.full(2, np.nan, np.float32)
    with pytest.raises(Error, match="40"):
        checked_windows(x, np.array([3, 33]), out)


def test_a_promise_is_made_when_the_kernel_is_written() -> None:
    with pytest.raises(TypeMismatchError, match="True or False"):
        maybe(np.ones(4, np.float32), np.ones(4, np.float32))
