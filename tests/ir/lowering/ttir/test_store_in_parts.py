"""Dots' results of very many elements a thread are stored in parts, where each element is an access of its own."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from jaxtyping import Float

import vkernels as vk
from tests.ir.transforms.masked_kernels import module_of
from vkernels.compiler.compile_gpu import lower_for
from vkernels.ir.dialect import tt
from vkernels.ir.facts import UNKNOWN, Facts
from vkernels.ir.lowering.ttir.store_in_parts import MANY, MOST, THIN
from vkernels.ir.plan import Plan

from .lowering import assert_same, lowered

THREADS = 16


@vk.kernel
def filtered(
    weight: Float[vk.Tensor, "O C"], image: Float[vk.Tensor, "B C X"], bias: Float[vk.Tensor, "O"],
    more: Float[vk.Tensor, "B O X"], out: Float[vk.Tensor, "B O X"], steps: int, added: vk.Constant = False,
) -> None:  # fmt: skip
    b, o, x = vk.tile("B"), vk.tile("O"), vk.tile("X")
    c = vk.whole("C")
    total = vk.zeros((b, o, x), vk.float32)
    for _step in vk.range(0, steps):
        total = vk.dot(weight[o, c], image[b, c, x], total)
    result = vk.maximum(total + bias[o], 0.0) * 0.5
    if added:
        result = result + more[b, o, x]
    out[b, o, x] = result


PLAN = Plan({"b": 4, "o": 16, "x": 16}, {"c": 16}, lanes="x")


def stores_of(threads: int, aligned: bool = False, added: bool = False) -> list[tt.StoreOp]:
    """The stores of the kernel lowered, which writes what the kernel as written does."""
    seed = int(np.random.SeedSequence().entropy % (1 << 32))  # type: ignore[operator]
    print("seed", seed)
    rng = np.random.default_rng(seed)
    sizes = {"O": 32, "C": 16, "B": 4, "X": 32 if aligned else 27}
    shapes = {"weight": "OC", "image": "BCX", "bias": "O", "more": "BOX", "out": "BOX"}
    arguments = {
        name: rng.normal(size=[sizes[axis] for axis in axes]).astype(np.float32) for name, axes in shapes.items()
    }
    arguments["out"][...] = np.nan
    module = module_of(filtered, added=added)
    facts = Facts({"C": 16}, strides={"out": (UNKNOWN, UNKNOWN, 1)}, aligned=("out",) * aligned)
    ttir = lowered(module, PLAN, facts, threads=threads)
    assert_same(module, ttir, {**arguments, "steps": 2}, sizes, tolerance=1e-5)
    (launch,) = ttir.launches
    found = [op for op in launch.module.walk() if isinstance(op, tt.StoreOp)]
    assert not any(THIN in each.attributes for each in found)
    return found


def sizes_of(stores: list[tt.StoreOp]) -> set[tuple[int, ...]]:
    return {tt.shape(each.value.type) for each in stores}


def test_the_columns_of_a_dots_result_are_stored_in_parts() -> None:
    """Columns are images and their pixels: images are cut first, and then pixels, if there are still too many."""
    assert MANY * THREADS == 4 * 16 * 16
    whole, parts = stores_of(0), stores_of(THREADS)
    assert sizes_of(whole) == {(4, 16, 16)}
    assert sizes_of(parts) == {(2, 16, 16)}
    assert len(parts) == MANY // MOST * len(whole)
    assert sizes_of(stores_of(8)) == {(1, 16, 16)}
    assert sizes_of(stores_of(2)) == {(1, 16, 4)}


@pytest.mark.parametrize("threads", [2 * THREADS, 0])
def test_few_elements_a_thread_are_stored_at_once(threads: int) -> None:
    assert sizes_of(stores_of(threads)) == {(4, 16, 16)}


def test_an_aligned_tensor_is_stored_at_once() -> None:
    """Its accesses are wide, so that its pointers are few."""
    assert sizes_of(stores_of(THREADS, aligned=True)) == {(4, 16, 16)}


def test_what_is_loaded_for_each_element_is_loaded_before_the_first_part_is_stored() -> None:
    stores = stores_of(THREADS, added=True)
    assert sizes_of(stores) == {(2, 16, 16)}
    for block in {each.parent for each in stores}:
        assert block is not None
        kinds = [type(op) for op in block.ops if isinstance(op, tt.LoadOp | tt.StoreOp)]
        assert kinds == sorted(kinds, key=lambda kind: kind is tt.StoreOp)


@pytest.mark.parametrize(("warp", "is_amd"), [(32, False), (32, True), (64, True)])
def test_results_are_stored_whole_on_gpus_whose_warps_share_their_columns(warp: int, is_amd: bool) -> None:
    """AMD's: there the parts of 256 × 256 results went through 128 KiB of local memory, of 64."""
    plan = Plan({"b": 8, "o": 64, "x": warp}, {"c": 16}, lanes="x", warps=4)
    facts = Facts({"C": 16}, strides={"out": (UNKNOWN, UNKNOWN, 1)})
    (launch,) = lower_for(module_of(filtered, added=False), plan, facts, warp=warp, is_amd=is_amd).lowered.launches
    (elements,) = {prod(size) for size in sizes_of([op for op in launch.module.walk() if isinstance(op, tt.StoreOp)])}
    a_thread = elements / (plan.warps * warp)
    assert a_thread == 2 * MANY if is_amd else a_thread <= MOST
