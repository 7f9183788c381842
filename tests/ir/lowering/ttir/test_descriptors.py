"""Boxes moved by descriptors are what threads would have moved, at every edge of a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.library.reference import fresh_seed
from vkernels.ir.facts import Facts
from vkernels.ir.interpret import interpret
from vkernels.ir.interpret.ttir import interpret_ttir
from vkernels.ir.lowering.ttir import LoweredTtir, print_ttir
from vkernels.ir.plan import Plan
from vkernels.ir.text import parse_module

from .lowering import copied, kernel, lowered

ROWS = {"a": (-1, 1), "b": (-1, 1), "out": (-1, 1), "bias": (1,)}
ALIGNED = Facts(strides=ROWS, aligned=tuple(ROWS), distinct=True)
PLAN = Plan({"i": 32, "j": 16}, {"k": 32}, order=("i", "j"), descriptors=("a", "b", "out"))


def assert_same(module: ModuleOp, ttir: LoweredTtir, arguments: dict[str, Any], sizes: dict[str, int]) -> None:
    """A kernel as written, run on copies, and its TTIR write the same."""
    interpret(module, expected := copied(arguments))
    interpret_ttir(ttir, arguments, sizes, order=1)
    for name, value in expected.items():
        np.testing.assert_array_equal(arguments[name], value, name)


def aligned(shape: tuple[int, ...], dtype: Any, padded: int = 16) -> np.ndarray:
    """An array at an aligned address whose rows begin `padded` elements apart or a multiple of it, full of NaN."""
    rows = (*shape[:-1], -(-max(1, shape[-1]) // padded) * padded)
    block = np.full(int(np.prod(rows)) * np.dtype(dtype).itemsize + 64, 0xFF, np.uint8)
    start = -block.ctypes.data % 64
    whole = block[start : block.size - 64 + start].view(dtype).reshape(rows)
    return whole[..., : shape[-1]]


def filled(shape: tuple[int, ...], dtype: Any, numbers: np.random.Generator) -> np.ndarray:
    made = aligned(shape, dtype)
    made[...] = numbers.integers(-3, 4, shape)
    return made


def operands(m: int, n: int, k: int, seed: int) -> dict[str, Any]:
    numbers = np.random.default_rng(seed)
    return {
        "a": filled((m, k), np.float16, numbers), "b": filled((k, n), np.float16, numbers),
        "bias": filled((n,), np.float32, numbers), "out": aligned((m, n), np.float32),
    }  # fmt: skip


@pytest.mark.sample(6)
@pytest.mark.parametrize(("plan", "resident"), [
    (PLAN, 0), (PLAN, 2), (Plan(PLAN.tiles, PLAN.chunks, splits={"k": 3}, order=PLAN.order, descriptors=("a", "b")), 0),
])  # fmt: skip
@pytest.mark.parametrize(("m", "n", "k"), [(70, 45, 83), (64, 32, 64), (1, 1, 1), (33, 17, 0)])
def test_a_product_is_exact_at_every_edge(m: int, n: int, k: int, plan: Plan, resident: int) -> None:
    seed = fresh_seed()
    module = kernel("matmul")
    ttir = lowered(module, plan, ALIGNED, resident)
    text = print_ttir(ttir.launches[0].module)
    assert text.count('"tt.make_tensor_descriptor"') == len(plan.descriptors)
    assert '"tt.descriptor_load"' in text
    assert_same(module, ttir, operands(m, n, k, seed), {"M": m, "N": n, "K": k})


def test_an_axis_that_is_held_at_once_may_be_empty() -> None:
    """A descriptor has no dimension without positions: nothing of what lies there is read."""
    facts = Facts(strides=ROWS, aligned=tuple(ROWS), distinct=True, capacities={"K": 32})
    module = kernel("matmul")
    ttir = lowered(module, Plan({"i": 16, "j": 16}, {"k": 32}, order=("i", "j"), descriptors=("a", "b")), facts)
    for k in (0, 1, 32):
        assert_same(module, ttir, operands(20, 40, k, fresh_seed()), {"M": 20, "N": 40, "K": k})


TURNED = """
vk.kernel @turned(%x: !vk.tensor<[B, N, M], f32>, %out: !vk.tensor<[B, M, N], f32>) {
  %B = vk.size B
  vk.tile b < %B
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.tile j < %N
  %a = vk.load %x[b, j, i] : !vk.tensor<[B, N, M], f32> -> tensor<?x?x?xf32, #vk.axes<b, i, j>>
  vk.store %a in %out[b, i, j] : !vk.tensor<[B, M, N], f32> <- tensor<?x?x?xf32, #vk.axes<b, i, j>>
}
"""


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("turned", [False, True])
def test_axes_may_be_in_another_order_than_dimensions(batch: int, turned: bool) -> None:
    """Of both tensors, some dimension other than the last may be the one without gaps."""
    seed = fresh_seed()
    numbers = np.random.default_rng(seed)
    x, out = filled((3, 21, 37), np.float32, numbers), aligned((3, 37, 21), np.float32)
    strides = {"x": (-1, -1, 1), "out": (-1, -1, 1)}
    if turned:
        x, out = (
            filled((3, 37, 21), np.float32, numbers).swapaxes(1, 2),
            aligned((3, 21, 37), np.float32).swapaxes(1, 2),
        )
        strides = {"x": (-1, 1, -1), "out": (-1, 1, -1)}
    module = parse_module(TURNED, "turned")
    facts = Facts(strides=strides, aligned=("x", "out"), distinct=True)
    plan = Plan({"b": batch, "i": 16, "j": 8}, order=("b", "i", "j"), descriptors=("x", "out"))
    assert_same(module, lowered(module, plan, facts), {"x": x, "out": out}, {"B": 3, "M": 37, "N": 21})


STENCIL = """
vk.kernel @stencil(%x: !vk.tensor<[M, N], i32>, %w: !vk.tensor<[L, N], i32>, %out: !vk.tensor<[K, N], i32>) {
  %K = vk.size K
  vk.tile i < %K
  %N = vk.size N
  vk.tile j < %N
  %back = arith.constant -3 : i64
  %last = arith.constant 2 : i64
  %a = vk.load %x[%back + i, j] guarding [0] : !vk.tensor<[M, N], i32> -> tensor<?x?xi32, #vk.axes<i, j>>
  %b = vk.load %w[%last, j] : !vk.tensor<[L, N], i32> -> tensor<?xi32, #vk.axes<j>>
  %bb = vk.broadcast %b : tensor<?xi32, #vk.axes<j>> -> tensor<?x?xi32, #vk.axes<i, j>>
  %c = arith.addi %a, %bb : tensor<?x?xi32, #vk.axes<i, j>>
  vk.store %c in %out[i, j] : !vk.tensor<[K, N], i32> <- tensor<?x?xi32, #vk.axes<i, j>>
}
"""


@pytest.mark.parametrize("rows", [1, 9, 40])
def test_boxes_that_begin_before_a_tensor_or_end_behind_it_are_0_there(rows: int) -> None:
    """`x` has other rows than the axis has positions; of `w` each program reads one row."""
    seed = fresh_seed()
    numbers = np.random.default_rng(seed)
    arguments = {
        "x": filled((rows, 24), np.int32, numbers), "w": filled((3, 24), np.int32, numbers),
        "out": aligned((24, 24), np.int32),
    }  # fmt: skip
    names = tuple(arguments)
    facts = Facts(multiples={"K": 8, "N": 8}, strides=dict.fromkeys(names, (-1, 1)), aligned=names, distinct=True)
    module = parse_module(STENCIL, "stencil")
    ttir = lowered(module, Plan({"i": 8, "j": 8}, order=("i", "j"), descriptors=names), facts)
    assert print_ttir(ttir.launches[0].module).count('"tt.descriptor_load"') == 2
    assert_same(module, ttir, arguments, {"M": rows, "N": 24, "K": 24, "L": 3})
