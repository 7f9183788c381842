"""Facts are few, so that one compiled kernel serves many shapes, and enough for what the plan does."""

import numpy as np
import pytest

from vkernels.compiler.specialise import facts_for, kernel_in, known_strides, written_tensors
from vkernels.ir.facts import UNKNOWN, Facts
from vkernels.ir.plan import Plan
from vkernels.ir.text import parse_module
from vkernels.runtime.arrays import view_of

KERNEL = kernel_in(
    parse_module("""
vk.kernel @add(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  %N = vk.size N
  vk.tile i < %M
  vk.whole j < %N
  %row = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %row in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}""")
)


def facts(m, n, exact=False, **plan):
    views = {name: view_of(np.zeros((m, n), np.float32), name) for name in ("x", "out")}
    return facts_for(KERNEL, Plan(**plan), {"M": m, "N": n}, views, exact)


def test_written_tensors_are_found():
    assert written_tensors(KERNEL) == ("out",)


@pytest.mark.parametrize(
    ("m", "n", "sizes", "multiples"),
    [
        (100, 1000, {}, {"M": 4}),
        (101, 1024, {}, {"N": 64}),
        (7, 1001, {}, {}),
        (8, 64, {"N": 64}, {"M": 4}),
        (3, 10, {"N": 10}, {}),
        (4, 0, {}, {"M": 4, "N": 64}),
    ],
)
def test_only_what_saves_a_tail_or_a_loop_is_assumed(m, n, sizes, multiples):
    found = facts(m, n, tiles={"i": 4}, chunks={"j": 64})
    assert (found.sizes, found.multiples) == (sizes, multiples)
    assert found.strides == {"x": (UNKNOWN, 1), "out": (UNKNOWN, 1)}


def test_shapes_of_one_kind_share_their_facts():
    plan = {"tiles": {"i": 4}, "chunks": {"j": 64}}
    assert facts(100, 1000, **plan) == facts(16, 77, **plan) != facts(100, 1024, **plan)


def test_a_split_axis_is_a_multiple_of_all_programs_chunks_or_of_one():
    plan = {"tiles": {"i": 1}, "chunks": {"j": 64}, "splits": {"j": 2}}
    assert facts(1, 1 << 16, **plan).multiples == {"N": 128}
    assert facts(1, 64 * 9, **plan).multiples == {"N": 64}
    assert facts(1, 64, **plan).sizes == {}


def test_sizes_that_memory_needs_are_exact():
    assert facts(5, 1000, exact=True, tiles={"i": 1}, chunks={"j": 64}).sizes == {"N": 1000}
    scratch = kernel_in(
        parse_module("""
vk.kernel @keep(%x: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  %N = vk.size N
  vk.tile i < %M
  vk.whole j < %N
  %kept = vk.scratch "kept" : !vk.scratch<[j, i], f32>
}""")
    )
    views = {"x": view_of(np.zeros((6, 1000), np.float32), "x")}
    assert facts_for(scratch, Plan({"i": 1}, {"j": 64}), {"M": 6, "N": 1000}, views).sizes == {"N": 1000}


@pytest.mark.parametrize(
    ("array", "strides"),
    [
        (np.zeros((3, 5)), (UNKNOWN, 1)),
        (np.zeros((5, 3)).T, (1, UNKNOWN)),
        (np.zeros((3, 10))[:, ::2], (UNKNOWN, UNKNOWN)),
        (np.zeros((3, 10))[:, ::-1], (UNKNOWN, UNKNOWN)),
        (np.broadcast_to(np.zeros(()), (3, 5)), (0, 0)),
        (np.broadcast_to(np.zeros(5), (3, 5)), (0, 1)),
        (np.zeros((3, 10))[:, :1], (UNKNOWN, 1)),
        (np.zeros(()), ()),
    ],
)
def test_strides_that_are_known(array, strides):
    assert known_strides(view_of(array, "x")) == strides


@pytest.mark.parametrize(
    ("array", "declared", "strides"),
    [
        (np.zeros((7, 2)), ("N", 2), (2, 1)),
        (np.zeros((5, 7, 3)), ("M", "N", 3), (UNKNOWN, 3, 1)),
        (np.zeros((5, 4, 3)), ("M", 4, 3), (12, 3, 1)),
        (np.zeros((7, 4))[:, :2], ("N", 2), (UNKNOWN, 1)),
        (np.zeros((14, 2))[::2], ("N", 2), (UNKNOWN, 1)),
        (np.zeros((7, 4))[:, ::2], ("N", 2), (UNKNOWN, UNKNOWN)),
        (np.zeros((1, 2)), ("N", 2), (UNKNOWN, 1)),
        (np.zeros((0, 2)), ("N", 2), (UNKNOWN, 1)),
        (np.broadcast_to(np.zeros(2), (7, 2)), ("N", 2), (0, 1)),
    ],
)
def test_strides_follow_from_sizes_that_are_numbers(array, declared, strides):
    assert known_strides(view_of(array, "x"), declared) == strides


def test_facts_survive_being_written_into_the_ir():
    found = facts(100, 1000, tiles={"i": 4}, chunks={"j": 64})
    assert Facts.from_attribute(found.to_attribute()) == found
