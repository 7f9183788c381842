"""Scaled dots on GPUs: as tensor cores have them or of bf16, right on chunks, tails and layouts; left where they do
not fit."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
import torch
from jaxtyping import Float, Shaped

import vkernels as vk
from tests.language.test_scaled_dots import FORMATS, assert_products, scaled
from tests.library.reference import fresh_seed, poisoned
from vkernels.compiler.compile_gpu import lower_for
from vkernels.ir.facts import Facts
from vkernels.ir.interpret.ttir import interpret_ttir
from vkernels.ir.lowering.ttir import print_ttir
from vkernels.ir.plan import Plan
from vkernels.ir.tensor_formats import SCALED_FORMATS, TensorFormats
from vkernels.runtime.bind_arguments import bind, in_order
from vkernels.runtime.interpret import memory_of

NATIVE, AS_BF16, NEITHER = TensorFormats(SCALED_FORMATS), TensorFormats(), TensorFormats(bfloat16=False, float8=False)


def run(kernel: vk.Kernel, args: Sequence[object], formats: TensorFormats, plan: Plan, **constants: int) -> str:
    """Run a kernel's TTIR on these tensors; its text."""
    values = in_order(kernel, args, constants)
    arguments = bind(kernel, values)
    sizes = dict(arguments.sizes)
    lowered = lower_for(kernel.build(arguments.signature), plan, Facts(sizes=sizes), formats=formats).lowered
    pairs = zip(kernel.parameters, values, strict=True)
    interpret_ttir(lowered, {p.name: memory_of(value) for p, value in pairs if p.kind == "tensor"}, sizes)
    return "".join(print_ttir(launch.module) for launch in lowered.launches)


@pytest.mark.sample(4)
@pytest.mark.parametrize("formats", [NATIVE, AS_BF16, NEITHER], ids=["native", "bf16", "neither"])
@pytest.mark.parametrize("name", FORMATS)
def test_every_format_in_chunks_and_tails(name: str, formats: TensorFormats) -> None:
    form, random = FORMATS[name], torch.Generator().manual_seed(fresh_seed())
    chunk = 64 if form.element else 32
    length = 2 * chunk + 3
    (a, a_scale), (b, b_scale) = form.random(20, length, random), form.random(33, length, random)
    out = poisoned((20, 33), torch.float32)
    plan = Plan(tiles={"i": 16, "j": 32}, chunks={"k": chunk}, warps=4)
    text = run(scaled, (a, a_scale, b, b_scale, out), formats, plan, block=form.positions)
    assert_products(out, form.decoded(a, a_scale), form.decoded(b, b_scale))
    assert ('"tt.dot_scaled"' in text) == (formats is NATIVE)
    dots = re.findall(r'"tt.dot"\(.*: \((tensor<.*>), tensor<.*>, ', text)
    if formats is AS_BF16:
        assert dots
        assert all("bf16" in dot for dot in dots)


@pytest.mark.parametrize(("chunk", "dtype"), [(16, "f32"), (32, "bf16")])
def test_chunks_of_one_block_are_bf16_and_shorter_ones_are_left(chunk: int, dtype: str) -> None:
    form, random = FORMATS["mxfp8 e4m3"], torch.Generator().manual_seed(fresh_seed())
    (a, a_scale), (b, b_scale) = form.random(16, 64, random), form.random(16, 64, random)
    out = poisoned((16, 16), torch.float32)
    plan = Plan(tiles={"i": 16, "j": 16}, chunks={"k": chunk})
    text = run(scaled, (a, a_scale, b, b_scale, out), NATIVE, plan, block=32)
    assert "tt.dot_scaled" not in text
    assert re.search(rf'"tt.dot"\(.*: \(tensor<16x{chunk}x{dtype}>', text)
    assert_products(out, form.decoded(a, a_scale), form.decoded(b, b_scale))


@vk.kernel
def masked(
    a: Shaped[vk.Tensor, "B M K"],
    a_scale: Shaped[vk.Tensor, "B G M"],
    b: Shaped[vk.Tensor, "B K N"],
    b_scale: Shaped[vk.Tensor, "G N"],
    out: Float[vk.Tensor, "B M N"],
    masks: vk.Constant = False,
):
    n, i, j, k = vk.tile("B"), vk.tile("M"), vk.tile("N"), vk.whole("K")
    left = vk.where(k > i, a[n, i, k], 0.0) if masks else a[n, i, k]
    out[n, i, j] = vk.dot(left, b[n, k, j], a_scale=a_scale[n, k // 32, i], b_scale=b_scale[k // 32, j])


@pytest.mark.parametrize("masks", [False, True])
@pytest.mark.parametrize("formats", [NATIVE, AS_BF16], ids=["native", "bf16"])
def test_batches_other_layouts_and_masks(formats: TensorFormats, masks: bool) -> None:
    form, random = FORMATS["mxfp8 e5m2"], torch.Generator().manual_seed(fresh_seed())
    (a, a_scale), (b, b_scale) = form.random(32, 70, random), form.random(40, 70, random)
    out = poisoned((2, 16, 40), torch.float32)
    factors = (a.view(2, 16, 70), a_scale.view(2, 16, 3).mT, b.T.expand(2, 70, 40), b_scale.T, out)
    plan = Plan(tiles={"n": 1, "i": 16, "j": 32}, chunks={"k": 64})
    text = run(masked, factors, formats, plan, masks=masks)
    left = form.decoded(a, a_scale).view(2, 16, 70)
    if masks:
        left = torch.where(torch.arange(70) > torch.arange(16)[:, None], left, 0)
    for batch in range(2):
        assert_products(out[batch], left[batch], form.decoded(b, b_scale))
    assert ("tt.dot_scaled" in text) == (formats is NATIVE and not masks)
