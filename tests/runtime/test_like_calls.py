"""Calls like the latest one are told by torch's guards; all others are looked up by their key."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from jaxtyping import Float

import vkernels as vk
from vkernels.ir.errors import ArgumentError
from vkernels.runtime.dispatch import Launcher
from vkernels.runtime.dispatch_keys import KEYS
from vkernels.runtime.like_calls import Addresses, addresses_if_like


@vk.kernel
def shifted(x: Float[vk.Tensor, "M N"], by: vk.Scalar, sign: vk.Constant, out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    out[i, j] = x[i, j] + by if sign > 0 else x[i, j] - by


DESCRIBE = [KEYS[kind] for kind in ("tensor", "scalar", "constant", "tensor")]


def call(**other: Any) -> list[Any]:
    given = {"x": torch.ones(4, 8), "by": 0.5, "sign": 1, "out": torch.zeros(4, 8)}
    return list({**given, **other}.values())


def told(values: list[Any]) -> Addresses:
    extents = [(number, position, 4 * 4 * 8, 4) for number, position in enumerate((0, 3))]
    found = addresses_if_like(values, DESCRIBE, (0, 3), extents)
    assert found is not None
    return found


def test_calls_like_it_give_their_addresses() -> None:
    is_like, values = told(call()), call(by=7.5)
    assert is_like(values) == [values[0].data_ptr(), values[3].data_ptr()]


def shrunk() -> torch.Tensor:
    x = torch.ones(4, 8)
    x.untyped_storage().resize_(64)
    return x


@pytest.mark.parametrize("other", [
    {"x": torch.ones(4, 9)}, {"x": torch.ones(8, 4).t()}, {"x": torch.ones(4, 8, dtype=torch.float64)},
    {"x": torch.ones(4, 8, requires_grad=True)}, {"x": torch.nn.Parameter(torch.ones(4, 8))}, {"by": 1}, {"by": True},
    {"by": np.float32(1)}, {"sign": 2}, {"sign": 1.0}, {"x": np.ones((4, 8), np.float32)}, {"x": None}, {"out": 3.0},
    {"x": torch.ones(4, 8).to_sparse()}, {"x": torch.ones(4, 8, device="meta")}, {"x": shrunk()},
    {"x": torch.nested.nested_tensor([torch.ones(8)] * 4)}, {"x": torch._neg_view(torch.ones(4, 8))},
])  # fmt: skip
def test_other_calls_are_looked_up(other: dict[str, Any]) -> None:
    assert told(call())(call(**other)) is None


def test_arrays_have_no_guards() -> None:
    assert addresses_if_like(call(x=np.ones((4, 8), np.float32)), DESCRIBE, (0, 3), ()) is None


def test_results_are_right_whatever_came_before() -> None:
    launcher = Launcher(shifted)
    for shape in [(4, 8)] * 3 + [(5, 7), (4, 8)] * 4:
        for by, sign in ((0.5, 1), (0.25, 1), (0.25, -1), (3, 1)):
            x, out = torch.randn(shape), torch.full(shape, torch.nan)
            launcher(x, by, sign, out)
            torch.testing.assert_close(out, x + by * sign)


def test_memory_that_was_freed_since_is_refused() -> None:
    launcher, (x, by, sign, out) = Launcher(shifted), call()
    for _ in range(4):
        launcher(x, by, sign, out)
    x.untyped_storage().resize_(0)
    with pytest.raises(ArgumentError, match="memory"):
        launcher(x, by, sign, out)


def test_entries_that_were_dropped_are_not_used_again() -> None:
    launcher, values = Launcher(shifted), call()
    for _ in range(4):
        launcher(*values)
    (before,) = launcher.entries
    launcher.forget()
    launcher(*values)
    (after,) = launcher.entries
    assert after is not before
