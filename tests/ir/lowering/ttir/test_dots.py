"""Dots of any axes: Triton's own where it is large enough, else products added up."""

from __future__ import annotations

import re
from math import prod

import numpy as np
import pytest
from jaxtyping import Float

import vkernels.language as vk
from vkernels.ir.facts import Facts
from vkernels.ir.interpret.ttir import interpret_ttir
from vkernels.ir.lowering.ttir import lower_to_ttir, print_ttir
from vkernels.ir.pipeline import gpu_pipeline, run_passes
from vkernels.ir.plan import Plan
from vkernels.ir.text import parse_module

from .lowering import assert_same, mapped_in, mapped_text

DTYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "i8": np.int8, "i32": np.int32}
SUMS = {"f16": "f32", "f32": "f32", "f64": "f64", "i8": "i32", "i32": "i32"}


def tile(axes: str, sizes: dict[str, int], element: str) -> str:
    return f"tensor<{'x'.join(str(sizes[a]) for a in axes)}x{element}, #vk.axes<{', '.join(axes)}>>"


def dot(left: str, right: str, total: str, sizes: dict[str, int], element: str) -> str:
    wide = SUMS[element]
    kinds = {"x": (left, element), "y": (right, element), "out": (total, wide)}
    tensors = {n: f"[{', '.join(str(sizes[a]) for a in axes)}], {e}" for n, (axes, e) in kinds.items()}
    lines, operands = [], {}
    for name, (axes, held) in kinds.items():
        lines.append(
            f"%{name}0 = vk.load %{name}[{', '.join(axes)}] : !vk.tensor<{tensors[name]}> -> {tile(axes, sizes, held)}"
        )
        operands[name] = f"%{name}0"
        if held != wide:
            name_of_cast = "extf" if wide == "f32" else "extsi"
            types = f"{tile(axes, sizes, held)} to {tile(axes, sizes, wide)}"
            lines.append(f"%{name}1 = arith.{name_of_cast} %{name}0 : {types}")
            operands[name] = f"%{name}1"
    types = ", ".join(tile(axes, sizes, wide) for axes in (left, right, total))
    lines.append(f"%r = vk.dot {operands['x']}, {operands['y']}, {operands['out']} along k precision ieee : {types}")
    lines.append("vk.barrier")
    stored = tile(total, sizes, wide)
    lines.append(f"vk.store %r in %out[{', '.join(total)}] : !vk.tensor<{tensors['out']}> <- {stored}")
    return mapped_text("\n".join(lines), tensors)


LARGE = {"b": 2, "h": 2, "i": 16, "j": 32, "k": 32}
SMALL = {"b": 2, "h": 2, "i": 4, "j": 8, "k": 16}
CASES = [
    ("ik", "kj", "ij", LARGE, "f16", "f16"),
    ("ki", "jk", "ji", LARGE, "f16", "f16"),
    ("ik", "kj", "ij", LARGE, "f32", "f32"),
    ("ik", "kj", "ij", LARGE, "i8", "i8"),
    ("bik", "bkj", "bij", LARGE, "f16", "f16"),
    ("ikb", "jbk", "ibj", LARGE, "f32", "f32"),
    ("hik", "kj", "jhi", LARGE, "f16", "f16"),
    ("ik", "kj", "ij", LARGE, "f64", None),
    ("ik", "kj", "ij", LARGE, "i32", None),
    ("ik", "kj", "ij", SMALL, "f16", None),
    ("ki", "kb", "bi", SMALL, "f32", None),
    ("k", "kj", "j", LARGE, "f32", None),
    ("bk", "bk", "b", LARGE, "f32", None),
    ("hik", "bkj", "ijbh", {**LARGE, "i": 8}, "f32", "f32"),
    ("ik", "kj", "ij", {**LARGE, "i": 64, "j": 128}, "f64", None),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right", "total", "sizes", "element", "operands"), CASES)
def test_a_dot_of_any_axes(
    left: str, right: str, total: str, sizes: dict[str, int], element: str, operands: str | None
) -> None:
    module = parse_module(dot(left, right, total, sizes, element))
    lowered = lower_to_ttir(mapped_in(module))
    text = print_ttir(lowered.launches[0].module)
    dots = [line for line in text.splitlines() if '"tt.dot"' in line]
    assert len(dots) == (operands is not None)
    if operands is not None:
        assert f"x{operands}>, " in dots[0].rpartition(": (")[2]
    numbers = np.random.default_rng(0)
    arguments = {
        name: numbers.integers(-5, 6, [sizes[a] for a in axes]).astype(DTYPES[kind])
        for name, axes, kind in (("x", left, element), ("y", right, element), ("out", total, SUMS[element]))
    }
    assert_same(module, lowered, arguments, {})


def test_products_that_are_too_many_at_once_are_added_in_slices() -> None:
    sizes = {"i": 64, "j": 64, "k": 32}
    text = print_ttir(lower_to_ttir(mapped_in(parse_module(dot("ik", "kj", "ij", sizes, "f64")))).launches[0].module)
    assert '"scf.for"' in text
    tiles = [line.rpartition("tensor<")[2] for line in text.splitlines() if '"arith.mulf"' in line]
    assert len(tiles) == 1
    assert prod(int(size) for size in tiles[0].split("xf64")[0].split("x")) <= 1 << 13


KEYS, QUERIES, WIDTH = 64, 128, 16


def attention(scores: str, queries: int) -> str:
    """Scores of keys j and queries i, multiplied in this order; the dots' shapes in the TTIR for it."""

    def kernel(
        q: Float[vk.Tensor, "M D"], k: Float[vk.Tensor, "N D"], v: Float[vk.Tensor, "N E"], out: Float[vk.Tensor, "E M"]
    ):
        i, j, d, e = vk.tile("M"), vk.whole("N"), vk.whole("D"), vk.whole("E")
        score = vk.dot(k[j, d], q[i, d]) if scores == "ji" else vk.dot(q[i, d], k[j, d])
        p = vk.exp(score - vk.max(score, axis=j)).to(v.dtype)
        out[e, i] = vk.dot(v[j, e], p)

    made = vk.kernel(kernel)
    module = made.build(made.signature(q="float16", k="float16", v="float16", out="float16"))
    plan = Plan(tiles={"i": queries}, chunks={"j": KEYS, "d": WIDTH, "e": WIDTH}, online=("j",))
    sizes = {"M": 256, "N": 256, "D": WIDTH, "E": WIDTH}
    (mapped,) = run_passes(gpu_pipeline(plan, Facts(sizes=sizes)), module).ops
    rng = np.random.default_rng(0)
    arguments = {name: rng.standard_normal((256, WIDTH)).astype(np.float16) for name in "qkv"}
    arguments["out"] = np.full((WIDTH, 256), np.nan, np.float16)
    lowered = lower_to_ttir(mapped)
    interpret_ttir(lowered, arguments, sizes)
    q, k, v = (arguments[name].astype(np.float64) for name in "qkv")
    p = np.exp(k @ q.T - (k @ q.T).max(0))
    np.testing.assert_allclose(arguments["out"], v.T @ p, rtol=0.01, atol=0.05)
    text = print_ttir(lowered.launches[0].module)
    return " ".join(re.findall(r'"tt.dot".*-> tensor<(\d+x\d+)', text))


@pytest.mark.parametrize("scores", ["ji", "ij"])
def test_what_is_reduced_next_lies_along_columns(scores):
    assert set(attention(scores, QUERIES).split()) == {f"{QUERIES}x{KEYS}", f"{QUERIES}x{WIDTH}"}


def test_few_columns_do_not_become_rows():
    assert set(attention("ji", 16).split()) == {f"{KEYS}x16", "16x16"}
