"""The model of time for GPUs knows what their registers are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vkernels.compiler.protocols import Signature
from vkernels.ir.analysis.needs import NeedsDevice
from vkernels.ir.cost_model.bank_conflicts import FULLEST
from vkernels.ir.cost_model.gpu import programs_at_once
from vkernels.ir.cost_model.traffic import CacheTraffic
from vkernels.ir.limits import Limits
from vkernels.ir.occupancy import AmdSizes, NvidiaSizes
from vkernels.ir.pin import Pin
from vkernels.ir.plan import Home, Plan
from vkernels.ir.planning.choose_plan import choose_plan
from vkernels.ir.planning.one_plan import batch_of, model_plan
from vkernels.ir.planning.space import read_space
from vkernels.library.elements import drop_elements
from vkernels.targets import limits_of, target_named

from ..planning.kernels import build, kernel_of
from .texts import text


def test_accumulators_that_are_registers_are_no_spill():
    """A thread of CDNA has 256 registers and as many accumulators in one file: what needs 300 is not slowed down."""
    limits: Limits = limits_of(target_named("mi300x"))
    module = build("matmul_bias", "float16")[1]
    sizes = {"M": 4096, "N": 4096, "K": 4096}
    plan = Plan({"i": 128, "j": 256}, {"k": 64}, lanes="j", order=("i", "j"), warps=4, stages=2)
    space = read_space(kernel_of(module), sizes, limits)
    registers = space.needs.evaluate(plan, sizes, NeedsDevice.of(limits)).registers_a_thread
    assert limits.registers < registers <= NeedsDevice.of(limits).registers
    assert isinstance(limits.sizes, AmdSizes)
    apart = replace(limits, sizes=replace(limits.sizes, unified=False))
    slow = model_plan(read_space(kernel_of(module), sizes, apart), plan).parts["tensor cores"]
    assert model_plan(space, plan).parts["tensor cores"] < slow / 2


def test_tensor_cores_that_no_compiler_uses_count_for_nothing():
    """Triton multiplies on the plain units of sm_75, whatever its tensor cores could."""
    limits = limits_of(target_named("t4"))
    assert limits.tensor_multiply_adds["float16"] > 0
    module = build("matmul_bias", "float16")[1]
    sizes = {"M": 4096, "N": 4096, "K": 4096}
    space = read_space(kernel_of(module), sizes, limits)
    parts = model_plan(space, Plan({"i": 32, "j": 128}, {"k": 16}, lanes="j", order=("i", "j"), warps=8)).parts
    assert parts["tensor cores"] == 0
    assert parts["operations"] > 4096**3 / limits.multiply_adds["float32"]


@pytest.mark.parametrize("device", ["a100-sxm4-80", "rtx4090", "h100-sxm5-80", "b200-sxm-180"])
@pytest.mark.parametrize(("dtype", "size"), [("float16", 4096), ("bfloat16", 8192)])
def test_a_large_product_is_planned_as_by_hand(device, dtype, size):
    """128 results a thread, which accumulate in registers or tensor memory, on eight warps, in one launch."""
    kernel = kernel_of(build("matmul_bias", dtype)[1])
    plan = choose_plan(kernel, dict.fromkeys(("M", "N", "K"), size), limits_of(target_named(device))).plan
    assert (plan.tiles, plan.warps, plan.launches) == ({"i": 128, "j": 256}, 8, ())
    assert plan.chunks["k"] >= 32
    assert plan.stages >= 3


def parts_of(device, plan, dtype="float16", size=4096, **constants):
    kernel = kernel_of(build("matmul_bias", dtype, **constants)[1])
    return model_plan(read_space(kernel, dict.fromkeys("MNK", size), limits_of(target_named(device))), plan).parts


TILE = Plan({"i": 128, "j": 256}, {"k": 64}, lanes="j", order=("i", "j"), warps=8, stages=3)


def test_sixteen_warps_do_not_reach_tensor_memory():
    """Triton multiplies by single warps' instructions there, a quarter as fast; on sm_90 all sixteen are groups."""
    wide = replace(TILE, warps=16)
    assert parts_of("b200-sxm-180", wide)["tensor cores"] == 4 * parts_of("b200-sxm-180", TILE)["tensor cores"]
    assert parts_of("h100-sxm5-80", wide)["tensor cores"] == parts_of("h100-sxm5-80", TILE)["tensor cores"]
    few = replace(TILE, tiles={"i": 32, "j": 256})  # too few rows for a group
    assert parts_of("h100-sxm5-80", few)["tensor cores"] > 1.6 * parts_of("h100-sxm5-80", TILE)["tensor cores"]


def test_groups_of_warps_read_operands_once_for_each_instruction():
    """Of 128 × 256 × 64: 48 KiB stored; of 64 rows each 48 KiB, and the columns again, read on sm_90; 48 on sm_100."""
    chunks = 32 * 16 * 64  # programs, and chunks of each
    for device, read in (("h100-sxm5-80", 80 << 10), ("b200-sxm-180", 48 << 10)):
        limits = limits_of(target_named(device))
        cores = limits.multiprocessors
        uneven = -(-512 // cores) * cores / 512
        moved = parts_of(device, TILE)["shared memory"] * limits.shared_bandwidth / uneven
        assert moved == pytest.approx(chunks * ((48 << 10) + read))


def test_accumulators_bound_the_programs_of_a_multiprocessor_by_tensor_memory():
    """512 columns: two programs of 256 columns each; of 64 × 64 results any number."""
    limits = limits_of(target_named("b200-sxm-180"))
    kernel = kernel_of(build("matmul_bias", "float16")[1])
    space = read_space(kernel, dict.fromkeys("MNK", 8192), limits)
    for tile, most in (((128, 256), 2), ((256, 128), 2), ((128, 64), 8)):
        plan = replace(TILE, tiles=dict(zip("ij", tile, strict=True)), stages=2)
        at_once, resident = programs_at_once(batch_of(space, plan), limits, 16, 1 << 10)
        assert resident == most
        assert at_once == most * limits.multiprocessors


def test_tensor_cores_take_dots_of_tf32_and_f8_at_their_own_rates():
    flat = replace(TILE, chunks={"k": 32})
    for device in ("a100-sxm4-80", "h100-sxm5-80"):
        rates = limits_of(target_named(device)).tensor_multiply_adds
        exact, rounded = (parts_of(device, flat, "float32", precision=each) for each in ("ieee", "tf32"))
        half = parts_of(device, flat)
        assert exact["tensor cores"] == 0
        assert rounded["tensor cores"] / half["tensor cores"] == pytest.approx(rates["float16"] / rates["tf32"])


def test_dots_of_bytes_are_on_tensor_cores_from_32_products_on():
    limits = limits_of(target_named("a100-sxm4-80"))
    kernel = kernel_of(text("dot_of_bytes")[1])
    sizes = dict.fromkeys("MNK", 4096)
    space = read_space(kernel, sizes, limits)
    short, enough = (model_plan(space, replace(TILE, chunks={"k": k})).parts["tensor cores"] for k in (16, 32))
    assert short == 0
    uneven = -(-512 // 108) * 108 / 512
    assert enough == pytest.approx(4096**3 / limits.tensor_multiply_adds["int8"] * uneven)
    assert choose_plan(kernel, sizes, limits).plan.chunks["k"] >= 32


def test_bytes_are_turned_on_their_way_unless_sums_are_in_tensor_memory():
    """K-major copies save operations but for groups of warps on sm_100: 16 warps, or 32 rows, are none there."""
    kernel, sizes = kernel_of(text("dot_of_bytes")[1]), dict.fromkeys("MNK", 4096)
    flat = replace(TILE, chunks={"k": 128})

    def saved(device: str, plan: Plan) -> float:
        space = read_space(kernel, sizes, limits_of(target_named(device)))
        plain, copied = (model_plan(space, replace(plan, k_major=names)).parts["operations"] for names in ((), ("y",)))
        return 1 - copied / plain

    assert saved("b200-sxm-180", flat) == 0
    others = replace(flat, warps=16), replace(flat, tiles={"i": 32, "j": 256})
    for device, plan in [*(("b200-sxm-180", each) for each in others), ("h100-sxm5-80", flat), ("rtx5090", flat)]:
        assert saved(device, plan) > 0.3, (device, plan)


def test_groups_of_programs_find_a_large_product_s_operands_in_the_last_cache():
    """Eight strips of one operand and one of the other fit; all of one, which a row of programs takes, does not."""
    limits = limits_of(target_named("h100-sxm5-80"))
    kernel = kernel_of(build("matmul_bias", "float16")[1])
    sizes = dict.fromkeys(("M", "N", "K"), 8192)
    space = read_space(kernel, sizes, limits)
    plan = Plan({"i": 128, "j": 256}, {"k": 64}, lanes="j", order=("i", "j"), warps=8, stages=3)
    rows, groups = (model_plan(space, replace(plan, swizzle=swizzle)).parts for swizzle in (1, 8))
    assert groups["memory"] < 0.6 * rows["memory"]
    assert {**groups, "memory": 0} == {**rows, "memory": 0}  # a multiprocessor's own cache sees no groups
    chosen, before = (choose_plan(kernel, sizes, limits, pin=pin) for pin in (None, Pin(swizzle=1)))
    assert chosen.plan.swizzle == 8
    assert chosen.seconds < 0.97 * before.seconds


@pytest.mark.parametrize(("device", "moved"), [
    ("h100-sxm5-80", ("a", "b")), ("b200-sxm-180", ("a", "b")), ("a100-sxm4-80", ()), ("mi300x", ()),
])  # fmt: skip
def test_a_large_products_operands_are_moved_by_descriptors_where_there_are_any(device, moved):
    limits = limits_of(target_named(device))
    kernel = kernel_of(build("matmul_bias", "float16")[1])
    sizes = dict.fromkeys(("M", "N", "K"), 8192)
    pins = (Pin(warp_specialized=()), Pin(warp_specialized=(), descriptors=()))
    chosen, without = (choose_plan(kernel, sizes, limits, pin=pin) for pin in pins)
    assert chosen.plan.descriptors == moved
    assert without.plan == replace(chosen.plan, descriptors=())
    assert chosen.seconds < without.seconds or not moved
    assert choose_plan(kernel, dict.fromkeys(sizes, 8191), limits).plan.descriptors == ()  # rows off by two bytes
    assert choose_plan(kernel, dict.fromkeys(sizes, 512), limits).plan.descriptors == ()  # too short to pay for them


def test_warps_have_roles_where_results_are_in_tensor_memory():
    kernel = kernel_of(build("matmul_bias", "float16")[1])
    sizes = dict.fromkeys(("M", "N", "K"), 4096)
    blackwell, hopper = (limits_of(target_named(name)) for name in ("b200-sxm-180", "h100-sxm5-80"))
    chosen = choose_plan(kernel, sizes, blackwell)
    assert (chosen.plan.warp_specialized, chosen.plan.descriptors) == (("k",), ("a", "b"))
    assert chosen.use.threads == 32 * (chosen.plan.warps + 4)
    assert chosen.seconds < choose_plan(kernel, sizes, blackwell, pin=Pin(warp_specialized=())).seconds
    assert choose_plan(kernel, dict.fromkeys(sizes, 4090), blackwell).plan.warp_specialized == ()  # partial tiles
    assert choose_plan(kernel, sizes, hopper).plan.warp_specialized == ()
    pinned = choose_plan(kernel, sizes, hopper, pin=Pin(warp_specialized=("k",)))
    assert (pinned.plan.warps, pinned.plan.descriptors, pinned.use.threads) == (4, ("a", "b"), 32 * 12)


def test_a_small_product_has_no_groups_of_programs():
    limits = limits_of(target_named("h100-sxm5-80"))
    kernel = kernel_of(build("matmul_bias", "float16")[1])
    assert choose_plan(kernel, dict.fromkeys(("M", "N", "K"), 1024), limits).plan.swizzle == 1


def test_a_loop_of_gathers_waits_for_several_at_once():
    """Layers of a network gather neighbour after neighbour: compilers ask for four before they use the first."""
    limits = limits_of(target_named("h100-sxm5-80"))
    module = build("spdnn")[1]
    plan = Plan({"i": 4}, {"n": 256}, copies=(), lanes="i", order=("i",), warps=4)

    def latency(neighbours: int) -> float:
        sizes = {"L": 24, "N": 1024, "K": neighbours, "I": 4096}
        return float(model_plan(read_space(kernel_of(module), sizes, limits), plan).parts["latency"])

    assert latency(4) < 1.2 * latency(1)
    assert latency(64) > 3 * latency(4)


def test_shared_memory_that_nobody_takes_keeps_what_is_read_again():
    """NVIDIA's first cache is what shared memory leaves of one array: neighbours of a stencil stay there."""
    module = build("stencil_square")[1]
    sizes = {"B": 4, "M": 4096, "N": 4096}
    plan = Plan({"b": 1, "i": 1, "j": 1024}, {}, lanes="j", order=("b", "i", "j"), warps=1)

    def cached(shared: int) -> float:
        limits = limits_of(target_named("h100-sxm5-80"))
        assert isinstance(limits.sizes, NvidiaSizes)
        less = replace(limits, sizes=replace(limits.sizes, shared=shared))
        return float(model_plan(read_space(kernel_of(module), sizes, less), plan).parts["cache"])

    assert cached(228 << 10) < cached(8 << 10) / 2


def test_whole_numbers_of_64_bits_take_no_units_of_float64():
    """Counters of a generator do not wait for units that some devices have few of."""
    limits = limits_of(target_named("rtx4090"))
    tensors = (("x", "float32"), ("out", "float32"))
    module = drop_elements.build(Signature(tensors, (("probability", "f64"), ("scale", "f64"), ("seed", "i64")), ()))
    plan = Plan({"i": 1, "j": 1024}, {}, lanes="j", order=("i", "j"), warps=4)
    parts = model_plan(read_space(kernel_of(module), {"M": 4096, "N": 4096}, limits), plan).parts
    slower = replace(limits, multiply_adds={**limits.multiply_adds, "float64": 1e9})
    assert parts == model_plan(read_space(kernel_of(module), {"M": 4096, "N": 4096}, slower), plan).parts


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_whole_numbers_of_64_bits_do_not_slow_down_floats_beside_them(dtype):
    """Where segments begin is computed in 64 bits once for each row, and sums of their values in 32: as many operations
    in one loop as where values have a loop of their own."""
    kernel = kernel_of(build("sum_segments", dtype)[1])
    space = read_space(kernel, {"S": 4097, "R": 4096, "E": 1 << 21}, limits_of(target_named("h100-sxm5-80")))
    one = Plan({"r": 16}, {"a": 32}, lanes="a", order=("r",), warps=1)
    apart = replace(one, chunks={"a": 16})
    assert model_plan(space, one).parts["operations"] < 1.5 * model_plan(space, apart).parts["operations"]


def test_dots_on_plain_units_take_the_registers_and_the_shared_memory_that_their_binaries_take():
    """Of f32 products: predicted are from 0.6 to 1.4 times the registers, and all of the shared memory."""
    found = {  # rows, columns, chunk, warps, stages: registers and bytes of a binary for sm_90
        (32, 32, 16, 2, 1): (72, 4096), (64, 64, 32, 4, 1): (128, 16384), (128, 64, 16, 4, 1): (224, 12288),
        (128, 128, 16, 8, 1): (226, 16384), (128, 128, 32, 8, 1): (246, 32768), (128, 128, 16, 8, 3): (228, 32768),
    }  # fmt: skip
    limits = limits_of(target_named("h100-sxm5-80"))
    sizes = {"M": 4096, "N": 4096, "K": 4096}
    space = read_space(kernel_of(build("matmul_bias")[1]), sizes, limits)
    for (i, j, k, warps, stages), (registers, shared) in found.items():
        use = space.use_of(Plan({"i": i, "j": j}, {"k": k}, lanes="j", order=("i", "j"), warps=warps, stages=stages))
        assert 0.6 * registers < use.registers_a_thread < 1.4 * registers
        assert use.shared_bytes == shared


def test_halves_and_every_other_element_of_rows_are_moved_once():
    limits = limits_of(target_named("h100-sxm5-80"))
    for name in ("turned_pairs", "turned_halves"):
        sizes = {"M": 4096, "H": 16, "P": 64, "D": 128}
        plan = Plan({"m": 1, "h": 4, "p": 64}, {}, lanes="p", order=("m", "h", "p"), warps=4)
        parts = model_plan(read_space(kernel_of(text(name)[1]), sizes, limits), plan).parts
        moved = 4 * (2 * 4096 * 16 * 128 + 4096 * 64)
        assert parts["memory"] * limits.memory_bandwidth == moved


def test_a_loop_waits_less_for_what_it_loads_ahead_of_time():
    limits = limits_of(target_named("h100-sxm5-80"))
    sizes = {"L": 1000, "D": 4096}
    space = read_space(kernel_of(text("recurrence")[1]), sizes, limits)
    plan = Plan({"d": 32}, {}, lanes="d", order=("d",), warps=1)
    waits = [float(model_plan(space, replace(plan, stages=stages)).parts["latency"]) for stages in (1, 8, 16)]
    assert waits[1] < 0.7 * waits[0]
    assert waits[2] < 0.9 * waits[1]
    registers = [space.use_of(replace(plan, stages=stages)).registers_a_thread for stages in (1, 8, 16)]
    assert registers[0] < registers[1] < registers[2]


def test_reductions_within_warps_wait_for_no_barrier():
    """Eight warps that have a row each add it up by shuffles; of a long row they all have a part."""
    limits = limits_of(target_named("h100-sxm5-80"))
    waits = []
    for rows, columns in ((8, 128), (1, 1024)):
        space = read_space(kernel_of(build("softmax_rows")[1]), {"M": 8, "N": columns}, limits)
        plan = Plan({"i": rows}, {"j": columns}, lanes="j", order=("i",), warps=8)
        waits.append(float(model_plan(space, plan).parts["latency"]))
    assert waits[0] < waits[1] - 4e-8


def test_persistent_programs_do_not_wait_between_full_tiles():
    limits = limits_of(target_named("b200-sxm-180"))
    kernel = kernel_of(build("matmul_bias", "float16")[1])
    sizes = {"M": 8192, "N": 8192, "K": 512}
    plan = Plan({"i": 128, "j": 256}, {"k": 64}, lanes="j", order=("i", "j"), warps=8, stages=3)

    def latency(plan: Plan, rows: int = 8192) -> float:
        space = read_space(kernel, {**sizes, "M": rows}, limits)
        return float(model_plan(space, replace(plan, resident_programs=limits.multiprocessors)).parts["latency"])

    grid = float(model_plan(read_space(kernel, sizes, limits), plan).parts["latency"])
    waves = -(-64 * 32 // limits.multiprocessors)
    assert latency(plan) == pytest.approx(grid - (waves - 1) * 1.3e-6)
    assert latency(replace(plan, stages=1)) >= grid
    assert latency(plan, 8191) > latency(plan) + 0.9 * (waves - 1) * 1.3e-6  # the last tiles are not full
    chosen = choose_plan(kernel, sizes, limits)
    assert chosen.plan.resident_programs == limits.multiprocessors
    assert chosen.seconds < 0.97 * choose_plan(kernel, sizes, limits, pin=Pin(resident_programs=0)).seconds


def test_a_product_of_many_chunks_is_a_grid_of_programs():
    limits = limits_of(target_named("b200-sxm-180"))
    kernel = kernel_of(build("matmul_bias", "float16")[1])
    assert choose_plan(kernel, dict.fromkeys(("M", "N", "K"), 4096), limits).plan.resident_programs == 0


def test_persistent_programs_take_registers_for_two_tiles():
    limits = limits_of(target_named("h100-sxm5-80"))
    kernel = kernel_of(build("matmul_bias", "float16")[1])
    space = read_space(kernel, dict.fromkeys(("M", "N", "K"), 4096), limits)
    plan = Plan({"i": 128, "j": 128}, {"k": 64}, lanes="j", order=("i", "j"), warps=8, stages=3)
    grid, persistent, plain = map(space.use_of, (
        plan, replace(plan, resident_programs=132), replace(plan, resident_programs=132, stages=1),
    ))  # fmt: skip
    assert persistent.registers_a_thread > grid.registers_a_thread + 30
    assert persistent.shared_bytes > grid.shared_bytes
    assert plain.registers_a_thread == space.use_of(replace(plan, stages=1)).registers_a_thread


@pytest.mark.parametrize("power", range(len(FULLEST)))
def test_the_fullest_of_as_many_banks_as_rows_is_counted(power):
    random = np.random.default_rng(power)
    banks = random.integers(0, 1 << power, (20_000, 1 << power))
    counts = (banks[:, :, None] == np.arange(1 << power)).sum(1, dtype=np.uint8)
    assert counts.max(1).mean() == pytest.approx(FULLEST[power], rel=0.02)


def test_short_rows_of_a_scratchpad_meet_in_banks():
    """Sums over rows of 16 bytes take 2.6 times as long as those over rows of 128 bytes that fill all banks."""
    kernel = kernel_of(build("spdnn", "float32")[1])
    sizes = {"L": 12, "N": 1024, "K": 32, "I": 4096}
    space = read_space(kernel, sizes, limits_of(target_named("h100-sxm5-80")))

    def part(images: int) -> float:
        plan = Plan({"i": images}, {"n": 64}, {"total": Home.MEMORY}, lanes="i", order=("i",), warps=8)
        return float(model_plan(space, plan).parts["shared memory"])

    assert part(4) / part(32) == pytest.approx(2.6, rel=0.1)
    assert part(16) / part(32) == pytest.approx(1.5, rel=0.1)


@pytest.mark.parametrize("device", ["a100-sxm4-80", "h200-sxm-141", "b200-sxm-180"])
def test_several_images_share_the_connections_of_a_sparse_network(device):
    """Programs of few images read all connections for each of them, and rows of few images meet in banks."""
    kernel = kernel_of(build("spdnn", "float32")[1])
    plan = choose_plan(kernel, {"L": 12, "N": 1024, "K": 32, "I": 4096}, limits_of(target_named(device))).plan
    assert plan.lanes == "i"
    assert plan.tiles["i"] >= 16
    assert plan.homes.get("features") is not Home.MEMORY


def test_threads_of_short_words_meet_in_the_banks_of_wider_homes():
    """A thread loads eight elements of f16 at once and keeps them as f32: 32 bytes, of which 16 move at a time."""
    parts = {}
    for dtype in ("float16", "float32"):
        kernel = kernel_of(build("layer_norm_rows", dtype)[1])
        space = read_space(kernel, {"M": 4096, "N": 16384}, limits_of(target_named("h100-sxm5-80")))
        plan = Plan({"i": 1}, {"j": 4096}, {"row": Home.SHARED}, lanes="j", order=("i",), warps=8)
        parts[dtype] = float(model_plan(space, plan).parts["shared memory"])
    assert 1.5 < parts["float16"] / parts["float32"] <= 2.01


@pytest.mark.parametrize("columns", [1 << 18, 1 << 10])
def test_found_elements_come_from_memory_each_time_unless_the_cache_holds_all(columns):
    """Each of 16 entries of a row takes another row of the dense operand."""
    kernel = kernel_of(build("csr_times_dense", "float32")[1])
    sizes = {"S": (1 << 18) + 1, "R": 1 << 18, "E": 1 << 22, "K": columns, "C": 256}
    space = read_space(kernel, sizes, limits_of(target_named("h200-sxm-141")))
    at, limits = batch_of(space, Plan({"r": 1, "c": 256}, lanes="c", order=("r", "c"))), space.limits
    moved, _ = CacheTraffic(at, on_chip_counts=False).missed(limits.cache, 64)
    dense = columns * 256 * 4
    asked = (1 << 22) * 256 * 4
    kept = min(1.0, limits.cache / dense)
    others = 20 * (1 << 22)  # bytes of starts, columns, values and biases, about
    assert moved == pytest.approx(dense + (asked - dense) * (1 - kept), abs=others)


def test_rows_of_unlike_lengths_are_not_unrolled_together():
    kernel = kernel_of(build("csr_times_dense", "float32")[1])
    sizes = {"S": (1 << 18) + 1, "R": 1 << 18, "E": 1 << 22, "K": 1 << 18, "C": 256}
    space = read_space(kernel, sizes, limits_of(target_named("h200-sxm-141")))
    one, two = (
        float(model_plan(space, Plan({"r": rows, "c": 64}, lanes="c", order=("r", "c"))).parts["latency"])
        for rows in (1, 2)
    )
    assert two > 1.2 * one, "half as many programs, each of which waits four times as long"
