"""Stores pass a CPU's caches where they may: in large results, and not in what the kernel updates in place."""

from __future__ import annotations

import pytest

from vkernels.ir.limits import Limits
from vkernels.ir.planning.choose_plan import choose_plan
from vkernels.ir.planning.decisions.streams import streamable
from vkernels.ir.planning.space import read_space
from vkernels.ir.text import parse_module

from .kernels import kernel_of

ADD = """
vk.kernel @add(%x: !vk.tensor<[N], f32>, %out: !vk.tensor<[N], f32>) {
  %N = vk.size N
  vk.tile i < %N
  %a = vk.load %x[i] : !vk.tensor<[N], f32> -> tensor<?xf32, #vk.axes<i>>
  %b = vk.load %READ[i] : !vk.tensor<[N], f32> -> tensor<?xf32, #vk.axes<i>>
  %sum = arith.addf %a, %b : tensor<?xf32, #vk.axes<i>>
  vk.store %sum in %out[i] : !vk.tensor<[N], f32> <- tensor<?xf32, #vk.axes<i>>
}"""
LARGE = {"N": 1 << 26}


@pytest.mark.parametrize("cores", [1, 2, 16])
@pytest.mark.parametrize(("read", "names"), [("x", ("out",)), ("out", ())])
def test_what_a_kernel_reads_is_not_streamed(read: str, names: tuple[str, ...], cores: int) -> None:
    limits = Limits(registers=16, register_bytes=32, shared=1 << 19, multiprocessors=cores, cache=1 << 25)
    kernel = kernel_of(parse_module(ADD.replace("READ", read)))
    assert streamable(read_space(kernel, LARGE, limits)) == names
    assert set(choose_plan(kernel, LARGE, limits).plan.streams) <= set(names)


def test_results_that_stay_in_the_second_cache_are_not_streamed() -> None:
    limits = Limits(registers=32, register_bytes=64, shared=1 << 21, multiprocessors=1, cache=1 << 25)
    kernel = kernel_of(parse_module(ADD.replace("READ", "x")))
    assert streamable(read_space(kernel, {"N": 1 << 18}, limits)) == ()
    assert streamable(read_space(kernel, {"N": (1 << 18) + 1}, limits)) == ("out",)
