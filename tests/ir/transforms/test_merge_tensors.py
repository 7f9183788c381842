"""Results may only take the place of what no program, nor a later step of the same one, still reads."""

from __future__ import annotations

import pytest

from vkernels.ir.text import parse_module
from vkernels.ir.transforms.merge_tensors import works_in_place

X = "!vk.tensor<[M, N], f32>"
TILE = "tensor<?x?xf32, #vk.axes<i, j>>"
LOAD = f"vk.load %x[i, j] : {X} -> {TILE}"
STORE = f"vk.store %v in %out[i, j] : {X} <- {TILE}"
AGAIN = f"%w = {LOAD}\n vk.store %w in %more[i, j] : {X} <- {TILE}"
NEXT = f"vk.load %x[i, %c1 + j] : {X} -> {TILE}"
APART = LOAD.replace("%x[i, j]", "%x[2 * i, j]"), STORE.replace("%out[i, j]", "%out[%c1 + 2 * i, j]")
LOOP = '%zero = arith.constant 0 : i64\n vk.range %k as "k" = %zero to %m carrying () {\n%s\n vk.yield\n}'


def kernel(body: str, more_axes: str = "") -> object:
    text = f"""
    vk.kernel @some(%x: {X}, %out: {X}, %more: {X}, %other: !vk.tensor<[B], f32>) {{
      %c1 = arith.constant 1 : i64
      %m = vk.size M
      %n = vk.size N
      %b = vk.size B
      vk.tile i < %m
      vk.whole j < %n
      {more_axes}
      {body}
    }}"""
    (found,) = parse_module(text).ops
    return found


@pytest.mark.parametrize(
    ("body", "axes", "works"),
    [
        (f"%v = {LOAD}\n{STORE}", "", True),
        (f"%v = {LOAD}\n{STORE}", "vk.tile b < %b", False),
        (f"%v = {LOAD}\n{STORE}\n{AGAIN}", "", False),
        (f"%v = {LOAD}\n{AGAIN}\n{STORE}", "", True),
        (LOOP.replace("%s", f"%v = {LOAD}\n{STORE}"), "", False),
        (f"%v = {NEXT}\n{STORE}", "", True),
        (f"%w = {LOAD}\n{STORE.replace('%v', '%w')}\n%v = {NEXT}", "", False),
        (f"%v = {NEXT.replace('[i, %c1 + j]', '[%c1 + i, j]')}\n{STORE}", "", False),
        (LOOP.replace("%s", f"%v = {APART[0]}\n{APART[1]}"), "", True),
    ],
    ids=[
        "once",
        "by several programs",
        "read after",
        "read before",
        "in a loop",
        "elsewhere along a whole axis",
        "elsewhere and after",
        "elsewhere along a tile axis",
        "never the same element, in a loop",
    ],
)
def test_a_result_takes_the_place_of_what_is_not_read_any_more(body, axes, works):
    assert works_in_place(kernel(body, axes), "out", "x") is works
    assert works_in_place(kernel(body, axes), "x", "out") is works
