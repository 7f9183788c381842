"""Atomic sums of f16 and bf16 take words of two elements, and change nothing but the elements that are named."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from vkernels.ir.facts import Facts
from vkernels.ir.interpret import interpret
from vkernels.ir.interpret.ttir import interpret_ttir
from vkernels.ir.lowering.ttir import LoweredTtir, print_ttir
from vkernels.ir.plan import Plan
from vkernels.ir.text import parse_module

from .lowering import copied, lowered

PLAIN = r'"tt.atomic_rmw"\(%[\w.]+, %[\w.]+(?:, %[\w.]+)?\) .*tensor<(?:\d+x)*16x(?:f16|bf16)>$'
PAIRS = r'"tt.atomic_rmw".*tensor<(?:\d+x)*2x(?:f16|bf16)>$'
NAN = 0x7D55
"""A NaN of f16, and an ordinary number of bf16."""


AT = "(tensor<?xi32, #vk.axes<i>>)"


def scattered(element: str) -> str:
    return f"""
vk.kernel @scattered(%index: !vk.tensor<[I], i32>, %w: !vk.tensor<[I], {element}>, %out: !vk.tensor<[B], {element}>) {{
  %I = vk.size I
  vk.tile i < %I
  %at = vk.load %index[i] : !vk.tensor<[I], i32> -> tensor<?xi32, #vk.axes<i>>
  %v = vk.load %w[i] : !vk.tensor<[I], {element}> -> tensor<?x{element}, #vk.axes<i>>
  vk.scatter %v atomic add in %out[%at] : !vk.tensor<[B], {element}>, {AT} <- tensor<?x{element}, #vk.axes<i>>
}}
"""


def in_rows(element: str, more: str = "") -> str:
    tile = f"tensor<?x?x{element}, #vk.axes<i, j>>"
    return f"""
vk.kernel @rows(%index: !vk.tensor<[I], i32>, %w: !vk.tensor<[I, J], {element}>, %out: !vk.tensor<[B, J], {element}>) {{
  %I = vk.size I
  vk.tile i < %I
  %J = vk.size J
  vk.tile j < %J
  %at = vk.load %index[i] : !vk.tensor<[I], i32> -> tensor<?xi32, #vk.axes<i>>
  %v = vk.load %w[i, j] : !vk.tensor<[I, J], {element}> -> {tile}
  vk.scatter %v atomic add in %out[%at, j] : !vk.tensor<[B, J], {element}>, {AT} <- {tile}
{more}}}
"""


def numbers_of(element: str, shape: tuple[int, ...], numbers: np.random.Generator) -> np.ndarray:
    """Small whole numbers, whose sums are exact."""
    values = numbers.integers(-3, 4, shape)
    if element == "f16":
        return values.astype(np.float16)
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def within(array: np.ndarray, start: int, row: int) -> tuple[np.ndarray, np.ndarray]:
    """A copy that begins `start` elements into a larger array of rows of `row` elements; that array's bits too."""
    rows = array.reshape(-1, array.shape[-1])
    around = np.full(start + len(rows) * row + 1, NAN, np.uint16)
    view = around.view(array.dtype)[start:][: len(rows) * row].reshape(len(rows), row)[:, : rows.shape[1]]
    view[...] = rows
    return (view if array.ndim > 1 else view[0]), around


def check(text: str, ttir: LoweredTtir, arguments: dict[str, Any], sizes: dict[str, int], start: int, row: int) -> None:
    expected = copied(arguments)
    interpret(parse_module(text), expected)
    view, around = within(arguments["out"], start, row)
    before = around.copy()
    interpret_ttir(ttir, {**arguments, "out": view}, sizes, order=1)
    np.testing.assert_array_equal(np.ascontiguousarray(view).view(np.uint16), expected["out"].view(np.uint16))
    marks = np.zeros(around.shape, np.uint16)
    within_marks = np.lib.stride_tricks.as_strided(marks[start:], view.shape, view.strides)
    within_marks[...] = 1
    outside = marks == 0
    np.testing.assert_array_equal(around[outside], before[outside])


def text_of(ttir: LoweredTtir) -> str:
    (launch,) = ttir.launches
    return print_ttir(launch.module)


@pytest.mark.sample(4)
@pytest.mark.parametrize("element", ["f16", "bf16"])
@pytest.mark.parametrize("bins", [1, 7, 8])
@pytest.mark.parametrize(("start", "aligned", "large"), [(0, True, False), (0, False, True), (1, False, False)])
def test_scattered_elements(element: str, bins: int, start: int, aligned: bool, large: bool) -> None:
    seed = int(np.random.default_rng().integers(1 << 30))
    numbers = np.random.default_rng(seed)
    arguments = {
        "index": numbers.integers(0, bins, 41).astype(np.int32),
        "w": numbers_of(element, (41,), numbers), "out": numbers_of(element, (bins,), numbers),
    }  # fmt: skip
    facts = Facts(
        strides={"index": (1,), "w": (1,), "out": (1,)}, aligned=("out",) if aligned else (), distinct=True,
        large=("out",) if large else (),
    )  # fmt: skip
    ttir = lowered(parse_module(scattered(element)), Plan({"i": 16}), facts)
    assert re.search(PAIRS, text_of(ttir), re.MULTILINE)
    print("seed", seed)
    check(scattered(element), ttir, arguments, {"I": 41, "B": bins}, start, bins)


@pytest.mark.sample(4)
@pytest.mark.parametrize("element", ["f16", "bf16"])
@pytest.mark.parametrize("length", [1, 15, 16, 33])
@pytest.mark.parametrize(("start", "gap"), [(0, 0), (1, 0), (0, 3), (1, 2)])
def test_rows_at_any_address_and_distance(element: str, length: int, start: int, gap: int) -> None:
    seed = int(np.random.default_rng().integers(1 << 30))
    numbers = np.random.default_rng(seed)
    arguments = {
        "index": numbers.integers(0, 3, 9).astype(np.int32),
        "w": numbers_of(element, (9, length), numbers), "out": numbers_of(element, (3, length), numbers),
    }  # fmt: skip
    facts = Facts(strides={"index": (1,), "w": (-1, 1), "out": (-1, 1)}, distinct=True)
    ttir = lowered(parse_module(in_rows(element)), Plan({"i": 4, "j": 16}, lanes="j"), facts)
    print("seed", seed)
    check(in_rows(element), ttir, arguments, {"I": 9, "J": length, "B": 3}, start, length + gap)


EVEN = Facts({"J": 64}, strides={"w": (-1, 1), "out": (-1, 1)}, aligned=("w", "out"), distinct=True)


def sums_in(text: str, facts: Facts = EVEN) -> tuple[int, int]:
    """Sums of elements, and of both halves of words."""
    made = text_of(lowered(parse_module(text), Plan({"i": 4, "j": 16}, lanes="j"), facts))
    return len(re.findall(PLAIN, made, re.MULTILINE)), len(re.findall(PAIRS, made, re.MULTILINE))


def test_neighbours_are_left_to_triton() -> None:
    plain, pairs = sums_in(in_rows("f16"), Facts({"I": 8, **EVEN.sizes}, strides=EVEN.strides, aligned=EVEN.aligned))
    assert (plain, pairs) == (1, 0)


def test_what_is_read_too_is_added_element_by_element() -> None:
    """Nothing else may touch the other half of a word meanwhile."""
    facts = Facts({"I": 4}, strides=EVEN.strides, distinct=True)
    assert sums_in(in_rows("f16"), facts)[1] > 0
    more = f"""  %o = vk.gather %out[%at, j] : !vk.tensor<[B, J], f16>, {AT} -> tensor<?x?xf16, #vk.axes<i, j>>
  vk.store %o in %w[i, j] : !vk.tensor<[I, J], f16> <- tensor<?x?xf16, #vk.axes<i, j>>
"""
    plain, pairs = sums_in(in_rows("f16", more), facts)
    assert plain > 0
    assert pairs == 0
