"""Attention by blocks on GPUs: what a loop over blocks of keys is taken to do, and the plans that follow."""

from __future__ import annotations

from math import prod

import pytest

from vkernels.compiler.protocols import Signature
from vkernels.ir.analyses import phases_of
from vkernels.ir.analysis.needs import NeedsDevice
from vkernels.ir.cost_model.extents import extents_of
from vkernels.ir.dialect import arith
from vkernels.ir.plan import Home, Plan
from vkernels.ir.planning.choose_plan import choose_plan
from vkernels.ir.planning.one_plan import model_plan
from vkernels.ir.planning.space import PlanSearchSpace, read_space
from vkernels.library.attention import attention_rows
from vkernels.library.attention_blocks import attention_blocks
from vkernels.library.attention_gradients import attention_key_gradients, attention_query_gradient
from vkernels.library.segments import sum_segment_rows, sum_segments
from vkernels.targets import limits_of, target_named

from .kernels import kernel_of

DEVICES = ["a100-sxm4-80", "h100-sxm5-80", "b200-sxm-180", "mi300x"]
PLACES = {"b": 1, "g": 1, "r": 1, "p": 1}


def built(kernel, **constants):
    floats = {"normaliser": "float32", "mean": "float32", "block": "int64", "start": "int32"}
    tensors = {each.name: floats.get(each.name, "float16") for each in kernel.parameters if each.kind == "tensor"}
    scalars = {
        each.name: "f64" if each.name == "scale" else "i64" for each in kernel.parameters if each.kind == "scalar"
    }
    given = {each.name: each.default for each in kernel.parameters if each.kind == "constant"} | constants
    signature = Signature(tuple(tensors.items()), tuple(scalars.items()), tuple(given.items()))
    return kernel_of(kernel.build(signature))


def sizes_of(width: int, block: int = 128) -> dict[str, int]:
    return {"B": 1, "G": 32, "R": 1, "M": 4096, "N": 4096, "D": width, "E": width, "P": 4096 // block}


def strides_of(kernel, sizes):
    """As the library passes tensors whose last dimension is that of positions: elements of a head side by side."""
    found = {}
    for parameter, argument in zip(kernel.parameters, kernel.body.block.args, strict=True):
        shape = getattr(argument.type, "shape", None)
        if shape is not None:
            names = list(shape)
            order = [*names[:-2], names[-1], names[-2]] if names[-2:] in (["D", "M"], ["E", "M"]) else names
            lengths = [sizes.get(n, 1) if isinstance(n, str) else n for n in order]
            step = {name: prod(lengths[place + 1 :]) for place, name in enumerate(order)}
            found[parameter.data] = tuple(step[name] for name in names)
    return found


def space_of(kernel, sizes, device) -> PlanSearchSpace:
    return read_space(kernel, sizes, limits_of(target_named(device)), strides=strides_of(kernel, sizes))


def test_bounds_side_by_side_divide_a_tensor_and_others_need_not():
    """`start[r]` and `start[r + 1]` divide 4096 elements among 64 rows; blocks of keys read half of all, 64 a step."""
    sizes = {"S": 65, "E": 4096, "R": 64, "C": 8}
    assert extents_of(built(sum_segment_rows), sizes)["e"] == 64
    assert extents_of(built(sum_segments), sizes)["step"] == 2
    blocks = built(attention_blocks, kept=True, size=128)
    assert extents_of(blocks, sizes_of(64))["step"] == 32


@pytest.mark.sample(2)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("width", [64, 128])
def test_results_of_attention_with_a_band_stay_in_registers(device, width):
    """Chunks of the width would add to results in memory, and compute scores again."""
    kernel, sizes = built(attention_blocks, kept=True, size=128), sizes_of(width)
    plan = choose_plan(kernel, sizes, limits_of(target_named(device)), strides=strides_of(kernel, sizes)).plan
    assert (plan.chunks["d"], plan.chunks["e"], plan.chunks["a"]) == (width, width, 64)
    assert not plan.homes
    assert plan.warps >= 4


@pytest.mark.sample(1)
@pytest.mark.parametrize("device", DEVICES[1::2])
@pytest.mark.parametrize("gradient", [attention_query_gradient, attention_key_gradients], ids=["query", "keys"])
def test_gradients_hold_their_sums_however_many_axes_they_have(device, gradient):
    kernel, sizes = built(gradient), sizes_of(64, block=64)
    space = space_of(kernel, sizes, device)
    summed = frozenset({"f", "h"} & set(space.wholes))
    assert any(summed | {"d", "e"} <= held for held in space.holds)
    plan = choose_plan(kernel, sizes, space.limits, strides=strides_of(kernel, sizes), pin=gradient.pin).plan
    assert all(plan.chunks[axis] == 64 for axis in summed)


@pytest.mark.parametrize("device", ["mi300x", "mi350x"])
def test_gradients_of_keys_hold_heads_in_few_warps_of_cdna(device):
    """No way leads there by one held axis at a time. Warps beyond 32 rows each would repeat products of others."""
    kernel, sizes = built(attention_key_gradients, kept=True), sizes_of(64, block=64)
    strides = strides_of(kernel, sizes)
    plan = choose_plan(
        kernel, sizes, limits_of(target_named(device)), strides=strides, pin=attention_key_gradients.pin
    ).plan
    assert (plan.chunks["n"], plan.chunks["d"], plan.chunks["e"], plan.warps) == (64, 64, 64, 2)


def test_warps_without_rows_repeat_products_on_cdna():
    """Of 64 queries two warps have 32 each; four do the first product twice, but not the second."""
    kernel, sizes = built(attention_rows), sizes_of(64)

    def parts(rows, warps, device="mi300x"):
        chunks = {"j": 64, "d": 64, "e": 64}
        plan = Plan({"b": 1, "g": 1, "r": 1, "i": rows}, chunks, online=("j",), warps=warps)
        return model_plan(space_of(kernel, sizes, device), plan).parts

    assert parts(64, 4)["tensor cores"] == pytest.approx(1.5 * parts(64, 2)["tensor cores"])
    assert parts(64, 4)["operations"] > 1.5 * parts(64, 2)["operations"]
    assert parts(128, 4)["tensor cores"] <= 1.2 * parts(64, 2)["tensor cores"], "all have rows; waves are less even"
    assert parts(64, 4, "a100-sxm4-80")["tensor cores"] == parts(64, 2, "a100-sxm4-80")["tensor cores"]


@pytest.mark.parametrize(("device", "stored"), [("h100-sxm5-80", 81920), ("a100-sxm4-80", 65536)])
def test_operands_of_all_phases_of_a_loop_are_copied_ahead(device, stored):
    """As binaries have it (Triton 3.9): queries once on sm_90 and sm_80, keys and values for each stage, or for all but
    one."""
    plan = Plan(PLACES, {"m": 128, "a": 64, "d": 64, "e": 64}, warps=4, stages=4)
    use = space_of(built(attention_blocks, kept=True, size=128), sizes_of(64), device).use_of(plan)
    assert use.shared_bytes == stored
    assert not use.spills


def test_homes_keep_operands_too_wide_for_tensor_cores():
    """A query in shared memory was extended to f32 before; in registers it is still f16 to a dot."""
    kernel, sizes = built(attention_blocks, kept=True, size=128), sizes_of(64)
    space = space_of(kernel, sizes, "h100-sxm5-80")
    chunks = {"m": 128, "a": 64, "d": 16, "e": 64}
    held = space.use_of(Plan(PLACES, {**chunks, "d": 64}, warps=4))
    again, homed = (
        space.use_of(Plan(PLACES, chunks, {"query": home}, warps=4)) for home in (Home.RECOMPUTE, Home.SHARED)
    )
    assert again.tensor_operations == held.tensor_operations > homed.tensor_operations
    device = NeedsDevice.of(space.limits)
    assert held.registers_a_thread <= device.registers


@pytest.mark.parametrize(
    ("width", "warps", "chunk", "stages", "stored", "registers"),
    [
        (64, 8, 64, 3, 65536, 108),
        (128, 8, 64, 3, 131072, 169),
        (128, 8, 128, 2, 163840, 189),
        (256, 8, 64, 2, 196608, 254),
    ],
)
def test_a_loop_that_goes_online_holds_what_binaries_say(width, warps, chunk, stages, stored, registers):
    """As binaries for sm_90 have it (Triton 3.6), of 128 queries: the operands of both dots, a maximum and a sum."""
    plan = Plan(
        {"b": 1, "g": 1, "r": 1, "i": 128}, {"j": chunk, "d": width, "e": width}, online=("j",), warps=warps,
        stages=stages,
    )  # fmt: skip
    use = space_of(built(attention_rows), sizes_of(width), "h100-sxm5-80").use_of(plan)
    assert use.shared_bytes == stored
    assert use.registers_a_thread == pytest.approx(registers, rel=0.15)
    assert not use.spills


@pytest.mark.parametrize(
    ("device", "width", "keys", "warps", "stages", "registers"),
    [
        ("mi300x", 64, 64, 4, 2, 236),
        ("mi300x", 128, 64, 4, 2, 327),
        ("mi300x", 256, 32, 4, 1, 409),
        ("mi350x", 64, 64, 2, 2, 320),
        ("mi350x", 256, 32, 8, 2, 256),
    ],
)
def test_sums_are_rescaled_where_amds_units_accumulate(device, width, keys, warps, stages, registers):
    """As binaries have it (Triton 3.9), of 128 queries; the last spills outside of its loops alone. In registers of
    their own rescaled sums would take up to 106 more."""
    plan = Plan(PLACES, {"m": 128, "a": keys, "d": width, "e": width}, warps=warps, stages=stages)
    kernel, sizes = built(attention_blocks, kept=True, size=128, keys=keys), sizes_of(width)
    use = space_of(kernel, sizes, device).use_of(plan)
    assert use.registers_a_thread == pytest.approx(registers, rel=0.1)
    assert not use.spills


@pytest.mark.parametrize(("chunk", "registers"), [(64, 242), (32, 246)])
def test_operands_of_two_dots_stay_in_shared_memory_where_loops_copy_them(chunk, registers):
    """As binaries for sm_80 have it (Triton 3.9), by hand and ours: keys for both products, norms of rows."""
    kernel, sizes = built(attention_query_gradient, kept=True, masks=False, size=64), sizes_of(128, block=64)
    space = space_of(kernel, sizes, "a100-sxm4-80")
    chunks = {"m": 64, "a": chunk, "d": 128, "e": 128}
    uses = (space.use_of(Plan(PLACES, chunks, warps=4, stages=stages)) for stages in (2, 1))
    piped, plain = (max(each.registers_a_thread for each in use.phases if each.tensor_operations) for use in uses)
    assert piped == pytest.approx(registers, rel=0.1)
    assert plain > piped or chunk < 64


def test_what_a_constant_leaves_out_takes_nothing():
    """Tests of masks that nobody uses any longer."""
    masked, whole = (
        phases_of(built(attention_query_gradient, kept=True, masks=masks, size=64)) for masks in (True, False)
    )
    assert any(isinstance(op, arith.CmpiOp) for op in masked.walk())
    assert not any(isinstance(op, arith.CmpiOp) for op in whole.walk())


@pytest.mark.sample(2)
@pytest.mark.parametrize("device", DEVICES[:3])
@pytest.mark.parametrize("width", [64, 96, 256])
def test_attention_goes_online_on_gpus_however_wide_its_heads_are(device, width):
    """Exponentials in memory would be read as often as scores, of which there are thousands a query."""
    kernel, sizes = built(attention_rows), sizes_of(width)
    plan = choose_plan(kernel, sizes, limits_of(target_named(device)), strides=strides_of(kernel, sizes)).plan
    assert plan.online == ("j",)
    assert not space_of(kernel, sizes, device).use_of(plan).spills


def test_wide_heads_have_room_where_groups_of_warps_multiply():
    """128 queries of 256 elements take 128 registers a thread. They are rescaled in place, and keys, few as they are,
    are the columns of a dot whose queries are read from shared memory."""
    kernel = built(attention_blocks, kept=True, size=128, keys=32)
    sizes, device = sizes_of(256), "h200-sxm-141"
    space = space_of(kernel, sizes, device)
    plan = Plan(PLACES, {"m": 128, "a": 32, "d": 256, "e": 256}, lanes="m", order=tuple(PLACES), warps=8, stages=2)
    needs = space.needs.evaluate(plan, sizes, NeedsDevice.of(space.limits))
    assert needs.registers_a_thread <= space.limits.registers
    chosen = choose_plan(kernel, sizes, space.limits, strides=strides_of(kernel, sizes)).plan
    assert (chosen.chunks, chosen.warps) == (plan.chunks, 8)
