"""Chosen plans: there always is one, always the same, that the kernel can have and that fits, or is the bottom rung."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.ir.cost_model.texts import text
from tests.ir.planning.kernels import KERNELS, build, cpus, gpus, kernel_of
from vkernels.ir.analyses import annotate_needs
from vkernels.ir.analysis.needs import NeedsDevice
from vkernels.ir.dialect import DotOp
from vkernels.ir.facts import Facts
from vkernels.ir.interpret import interpret
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Home
from vkernels.ir.planning.choose_plan import bottom_plan, choose_plan
from vkernels.ir.planning.space import read_space
from vkernels.ir.text import parse_module
from vkernels.ir.transforms.apply_plan import apply_plan
from vkernels.ir.transforms.verify_mapped import verify_mapped
from vkernels.targets import limits_of, target_named

CPU = Limits(registers=32, register_bytes=64, shared=1 << 20, multiprocessors=2, cache=32 << 20)
GPU = Limits(
    registers=255, register_bytes=4, shared=99 << 10, multiprocessors=100, cache=40 << 20, threads=1024, warp=32
)
SHIFTED = """
vk.kernel @shifted(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M, N], RESULT>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %c1 = arith.constant 1 : i64
  %next = vk.load %x[i, %c1 + j] guarding [1] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %row = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %max = vk.max %row along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  %largest = vk.broadcast %max : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, j>>
  %d = arith.subf %next, %largest : tensor<?x?xf32, #vk.axes<i, j>>
  %r = arith.extf %d : tensor<?x?xf32, #vk.axes<i, j>> to tensor<?x?xRESULT, #vk.axes<i, j>>
  vk.store %r in %out[i, j] : !vk.tensor<[M, N], RESULT> <- tensor<?x?xRESULT, #vk.axes<i, j>>
}"""
QUICKLY = {"deadline": None, "phases": (Phase.explicit, Phase.reuse, Phase.generate)}
"""Without shrinking, which would choose plans for minutes."""
LENGTHS = st.one_of(st.sampled_from([0, 1, 2, 16, 1000, 1 << 16, 1 << 24]), st.integers(1, 5000))


def sizes_for(kernel, data):
    sizes = {name: data.draw(LENGTHS, label=name) for name in kernel.sizes}
    if kernel.name == "spdnn":
        sizes["N"] = min(sizes["N"], 65536)
    return sizes


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("limits", [CPU, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize("name", KERNELS)
def test_what_was_chosen_before_changes_no_choice(name, limits):
    """Axes of one position or none are held by any chunk: what was read of a kernel under such sizes is no other's."""
    kernel, module = build(name)
    needs = replace(annotate_needs(kernel_of(module)), found={})
    usual = {
        **dict.fromkeys(kernel.sizes, 300),
        **({"S": 301} if "start" in [p.name for p in kernel.parameters] else {}),
    }
    first = choose_plan(kernel_of(module), usual, limits, replace(needs, found={}))
    for few in (0, 1):
        choose_plan(kernel_of(module), dict.fromkeys(kernel.sizes, few), limits, needs)
    again = choose_plan(kernel_of(module), usual, limits, needs)
    assert (again.plan, again.seconds) == (first.plan, first.seconds)


def is_power(number):
    return number > 0 and number & (number - 1) == 0


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", ["cpu", "gpu"])
@pytest.mark.parametrize("name", KERNELS)
@settings(max_examples=2, **QUICKLY)
@given(data=st.data())
def test_any_limits_and_sizes_get_a_plan_that_fits_or_the_bottom_rung(name, kind, data):
    limits = data.draw(cpus() if kind == "cpu" else gpus(), label="limits")
    kernel, module = build(name, data.draw(st.sampled_from(["float32", "float16"]), label="dtype"))
    sizes = sizes_for(kernel, data)
    chosen = choose_plan(kernel_of(module), sizes, limits)
    plan = chosen.plan
    assert choose_plan(kernel_of(module), sizes, limits).plan == plan
    use = annotate_needs(kernel_of(module)).evaluate(plan, sizes, NeedsDevice.of(limits))
    if chosen.rung != "bottom":
        assert use.threads <= limits.threads
        assert use.shared_bytes <= limits.shared
        assert kind == "cpu" or not use.spills
    if kind == "gpu":
        assert all(map(is_power, [*plan.tiles.values(), *plan.chunks.values(), plan.warps])), plan
    verify_mapped(apply_plan(module, plan, Facts(sizes)))


@pytest.mark.parametrize("limits", [CPU, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_can_have_the_bottom_rung_which_keeps_all_in_memory(name, limits):
    kernel, module = build(name)
    sizes = dict.fromkeys(kernel.sizes, 100)
    plan, _ = bottom_plan(read_space(kernel_of(module), sizes, limits))
    verify_mapped(apply_plan(module, plan, Facts(sizes)))
    assert set(plan.homes.values()) <= {Home.MEMORY}
    assert plan.warps == 1
    assert set(plan.tiles.values()) | set(plan.chunks.values()) <= {1}


def test_less_shared_memory_moves_a_value_down_the_ladder():
    module = build("softmax_rows")[1]
    sizes = {"M": 256, "N": 20000}
    homes = [
        choose_plan(kernel_of(module), sizes, replace(CPU, shared=shared)).plan.homes.get("e")
        for shared in (1 << 20, 1 << 10)
    ]
    assert homes[0] is Home.SHARED
    assert homes[1] is not Home.SHARED


def test_one_long_row_is_split_over_programs_and_many_are_not():
    module = build("softmax_rows")[1]
    few = choose_plan(kernel_of(module), {"M": 1, "N": 1 << 24}, GPU)
    many = choose_plan(kernel_of(module), {"M": 4096, "N": 1 << 12}, GPU)
    assert few.rung == "launches"
    assert few.plan.splits["j"] > 1
    assert not many.plan.splits


def test_what_was_rejected_says_why():
    module = build("matmul_bias", "float16")[1]
    tiny = replace(GPU, shared=20 << 10, registers=40)
    chosen = choose_plan(kernel_of(module), {"M": 512, "N": 512, "K": 512}, tiny)
    assert all(each.reason for each in chosen.tried)


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
@settings(max_examples=6, **QUICKLY)
@given(data=st.data())
def test_a_planned_softmax_computes_what_was_written(kind, data):
    limits = data.draw(cpus() if kind == "cpu" else gpus(), label="limits")
    rows, length = data.draw(st.integers(1, 5), label="M"), data.draw(st.integers(1, 150), label="N")
    seed = data.draw(st.integers(0, 1 << 30), label="seed")
    module = build("softmax_rows")[1]
    sizes = {"M": rows, "N": length}
    plan = choose_plan(kernel_of(module), sizes, limits).plan
    x = np.random.default_rng(seed).standard_normal((rows, length), np.float32)
    out = np.full_like(x, np.nan)
    interpret(apply_plan(module, plan, Facts(sizes)), {"x": x, "out": out})
    exact = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    np.testing.assert_allclose(out, exact / exact.sum(-1, keepdims=True), rtol=1e-5, err_msg=str((plan, seed)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cpu", "gpu"])
@settings(max_examples=4, **QUICKLY)
@given(data=st.data())
def test_a_planned_matmul_computes_what_was_written(kind, data):
    limits = data.draw(cpus() if kind == "cpu" else gpus(), label="limits")
    sizes = {name: data.draw(st.integers(1, 40), label=name) for name in "MNK"}
    seed = data.draw(st.integers(0, 1 << 30), label="seed")
    module = build("matmul_bias")[1]
    plan = choose_plan(kernel_of(module), sizes, limits).plan
    normal = np.random.default_rng(seed).standard_normal
    a, b = normal((sizes["M"], sizes["K"]), np.float32), normal((sizes["K"], sizes["N"]), np.float32)
    bias, out = normal(sizes["N"], np.float32), np.full((sizes["M"], sizes["N"]), np.nan, np.float32)
    interpret(apply_plan(module, plan, Facts(sizes)), {"a": a, "b": b, "bias": bias, "out": out})
    exact = a.astype(np.float64) @ b + bias
    np.testing.assert_allclose(out, exact, rtol=1e-4, atol=1e-4, err_msg=str((plan, seed)))


def test_a_row_too_long_for_the_caches_goes_online_on_a_gpu_and_a_short_one_does_not():
    module = build("softmax_rows")[1]
    limits = limits_of(target_named("h100-sxm5-80"))
    long = choose_plan(kernel_of(module), {"M": 4096, "N": 1 << 17}, limits).plan
    short = choose_plan(kernel_of(module), {"M": 4096, "N": 1 << 10}, limits).plan
    assert long.online == ("j",)
    assert not short.online
    verify_mapped(apply_plan(module, long, Facts({"M": 4096, "N": 1 << 17})))


def test_a_result_of_the_type_of_what_is_read_elsewhere_gets_the_plan_of_one_of_another_type():
    """Planning is for tensors that share no memory."""
    rungs = {}
    for dtype in ("f32", "f64"):
        text = SHIFTED.replace("RESULT", dtype)
        if dtype == "f32":  # which is not extended
            text = "".join(line for line in text.replace("%r in", "%d in").splitlines(True) if "extf" not in line)
        (kernel,) = parse_module(text).ops
        rungs[dtype] = choose_plan(kernel, {"M": 1000, "N": 1000}, GPU)
    assert rungs["f32"].rung != "bottom"
    assert rungs["f32"].plan.tiles == rungs["f64"].plan.tiles
    assert rungs["f32"].plan.homes == rungs["f64"].plan.homes


@pytest.mark.parametrize("target", ["h100-sxm5-80", "mi300x"])
def test_attention_computes_scores_once_on_a_gpu(target):
    """The product with the values and the sum of the weights are in one loop with the maximum."""
    module, limits = build("attention_rows", "float16")[1], limits_of(target_named(target))
    sizes = {"B": 4, "G": 8, "R": 4, "M": 2048, "N": 2048, "D": 64, "E": 64}
    plan = choose_plan(kernel_of(module), sizes, limits).plan
    assert plan.online == ("j",)
    mapped = apply_plan(module, plan, Facts(sizes))
    assert sum(isinstance(op, DotOp) for op in mapped.walk()) == 2


@pytest.mark.parametrize(("dtype", "sizes", "copied"), [
    ("float16", {"M": 4096, "N": 4096, "K": 4096}, ()),
    ("float16", {"M": 4095, "N": 4095, "K": 4095}, ("a", "b")),
    ("float16", {"M": 16, "N": 4095, "K": 4095}, ()),
])  # fmt: skip
def test_operands_are_copied_where_a_gpu_moves_their_elements_one_by_one_and_often(dtype, sizes, copied):
    """Where rows are not aligned, but not for a few rows of the result."""
    module, limits = build("matmul_bias", dtype)[1], limits_of(target_named("h100-sxm5-80"))
    plan = choose_plan(kernel_of(module), sizes, limits).plan
    assert plan.k_major == copied
    verify_mapped(apply_plan(module, plan, Facts(sizes)))


@pytest.mark.parametrize(("device", "copied"), [
    ("a100-sxm4-80", ("y",)), ("h100-sxm5-80", ("y",)), ("rtx5090", ("y",)), ("b200-sxm-180", ()),
])  # fmt: skip
def test_bytes_are_copied_where_tensor_cores_take_them_one_way_only(device, copied):
    """`tcgen05.mma` reads them from shared memory whichever axis is contiguous."""
    kernel = kernel_of(text("dot_of_bytes")[1])
    plan = choose_plan(kernel, dict.fromkeys("MNK", 4096), limits_of(target_named(device))).plan
    assert plan.k_major == copied


@pytest.mark.parametrize(("device", "rows", "least", "most"), [
    ("h200-sxm-141", 64, 6, 8), ("h200-sxm-141", 4096, 3, 4), ("mi350x", 64, 1, 4),
])  # fmt: skip
def test_few_rows_are_multiplied_with_many_loads_under_way_on_nvidia(device, rows, least, most):
    """Tiles of few rows have few bytes a stage; those of a large product fill the shared memory with four."""
    module, limits = build("matmul_bias", "float16")[1], limits_of(target_named(device))
    plan = choose_plan(kernel_of(module), {"M": rows, "N": 8192, "K": 8192}, limits).plan
    assert least <= plan.stages <= most


@pytest.mark.parametrize("device", ["a100-sxm4-80", "h100-sxm5-80", "mi300x"])
def test_sides_of_dots_of_several_axes_have_sizes_that_leave_little_over(device: str) -> None:
    """Tiles of 54 × 54 pixels cover few beside them, where positions of others fill the side."""
    kernel, sizes = kernel_of(build("convolve", "float16")[1]), {"B": 32, "G": 1, "C": 256, "O": 256, "R": 3, "S": 3}
    plan = choose_plan(kernel, {**sizes, "H": 56, "W": 56, "Y": 54, "X": 54}, limits_of(target_named(device))).plan
    covered = [-(-54 // plan.tiles[axis]) * plan.tiles[axis] for axis in "yx"]
    assert covered[0] * covered[1] <= 1.1 * 54 * 54
    assert 64 <= plan.tiles["b"] * plan.tiles["y"] * plan.tiles["x"] <= 256


@pytest.mark.sample(1)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("degree", [2, 4, 5])
def test_chained_small_products_have_lanes_along_their_batch(degree: int, dtype: str) -> None:
    """One register then holds the same element of 16 products; of one product they are too few to fill it."""
    kernel = kernel_of(build("mass", dtype)[1])
    sizes = {"E": 1024, "C": 1, "P": degree + 1, "Q": degree + 2}
    plan = choose_plan(kernel, sizes, CPU).plan
    assert (plan.lanes, plan.tiles["e"]) == ("e", 16)
    assert choose_plan(kernel, {**sizes, "E": 3}, CPU).plan.lanes != "e"


@pytest.mark.parametrize(("rows", "along"), [(1, True), (4, True), (64, False)])
def test_few_rows_times_turned_weights_have_lanes_along_what_they_contract(rows: int, along: bool) -> None:
    """Along it the elements of both lie side by side; along the columns each lane would be loaded by itself."""
    kernel = kernel_of(build("matmul_bias")[1])
    (dot,) = (op for op in kernel.walk() if isinstance(op, DotOp))
    strides = {"a": (1024, 1), "b": (1, 1024), "bias": (1,), "out": (1024, 1)}
    plan = choose_plan(kernel, {"M": rows, "N": 1024, "K": 1024}, CPU, strides=strides).plan
    assert (plan.lanes == dot.axis.data) == along
