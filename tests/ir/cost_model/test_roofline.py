"""The roofline is what hand counts say."""

from __future__ import annotations

import random

import numpy as np
import pytest

from vkernels.ir.cost_model.gpu import CACHE_REACHED
from vkernels.ir.cost_model.roofline import roofline
from vkernels.ir.limits import Limits
from vkernels.ir.planning.choose_plan import choose_plan
from vkernels.targets import limits_of, target_named

from ..planning.kernels import KERNELS, build, kernel_of
from .texts import TEXTS, text

LIMITS = Limits(
    registers=255, register_bytes=4, shared=99 << 10, multiprocessors=100, cache=40 << 20, threads=1024, warp=32,
    memory_bandwidth=1e12, multiply_adds={"float32": 2e13, "float64": 1e13}, launch_seconds=4e-6,
    tensor_multiply_adds={"float16": 2e14, "tf32": 1e14}, cache_bandwidth=5e12,
)  # fmt: skip


def of(name, sizes, dtype="float32", limits=LIMITS):
    return roofline(kernel_of(build(name, dtype)[1]), sizes, limits)


def test_a_softmax_moves_its_rows_once_each_way():
    found = of("softmax_rows", {"M": 4096, "N": 1000}, "float16")
    assert found.moved == 2 * 2 * 4096 * 1000
    assert found.bottleneck == "memory"
    assert found.seconds == pytest.approx(found.moved / 1e12 + 4e-6)


def test_few_multiprocessors_move_no_more_than_they_draw():
    few = Limits(**{**vars(LIMITS), "cache_bandwidth": 1e12})
    found = of("softmax_rows", {"M": 4096, "N": 1000}, limits=few)
    assert found.parts["memory"] == pytest.approx(found.moved / (CACHE_REACHED * 1e12))


def test_neighbours_that_a_stencil_reads_again_count_once():
    found = of("stencil_square", {"B": 3, "M": 500, "N": 700})
    assert found.moved == 4 * (2 * 3 * 500 * 700 + 9)


def test_dots_are_on_tensor_cores_where_there_are_some_for_their_dtype():
    sizes = {"M": 1000, "N": 2000, "K": 3000}
    products = 1000 * 2000 * 3000
    half, single = of("matmul_bias", sizes, "float16"), of("matmul_bias", sizes)
    assert half.bottleneck == "tensor cores"
    assert half.parts["tensor cores"] == pytest.approx(products / 2e14)
    assert single.bottleneck == "operations"
    assert single.parts["operations"] == pytest.approx(products / 2e13, rel=0.01)
    double = of("matmul_bias", sizes, "float64")
    assert double.parts["operations"] == pytest.approx(products / 1e13, rel=0.01)
    without = Limits(**{**vars(LIMITS), "tensor_multiply_adds": {}})
    assert of("matmul_bias", sizes, "float16", without).parts["operations"] == pytest.approx(products / 2e13, rel=0.01)


def test_layers_of_a_network_read_their_weights_once_and_its_features_not_at_all():
    found = of("spdnn", {"L": 7, "N": 64, "K": 32, "I": 1000})
    assert found.moved == 4 * (2 * 64 * 1000 + 1000 + 2 * 7 * 64 * 32)
    assert found.parts["operations"] >= 7 * 64 * 32 * 1000 / 2e13
    on_chip = 4 * 1000 * 64 * (1 + 7 * (32 + 1) + 1)
    assert found.parts["shared memory"] == pytest.approx(on_chip / LIMITS.shared_bandwidth)


def test_rows_that_indices_find_meet_in_banks_where_there_is_no_room_for_longer_ones():
    """Of 4096 rows a program has room for 8 elements of each: of 4 such rows some are in the same banks."""
    room = Limits(**{**vars(LIMITS), "shared": 4 * 4096 * 13, "warp": 32})
    sizes = {"L": 7, "N": 4096, "K": 32, "I": 1000}
    plain, found = 4 * 1000 * 4096 * (1 + 7 + 1), 4 * 1000 * 4096 * 7 * 32
    assert of("spdnn", sizes, limits=room).parts["shared memory"] == pytest.approx(
        (plain + 2.12 * found) / LIMITS.shared_bandwidth
    )
    for shared in (4 * 4096 * 32, 4 * 4095):  # whole banks; no room, so that it is elsewhere
        other = Limits(**{**vars(room), "shared": shared})
        assert of("spdnn", sizes, limits=other).parts["shared memory"] == pytest.approx(
            (plain + found) / LIMITS.shared_bandwidth
        )


def test_what_indices_find_is_read_again_as_far_as_no_cache_holds_it():
    sizes = {"S": 1001, "R": 1000, "E": 16000, "K": 1 << 18, "C": 64}
    # Where each row begins and ends is read from all but one of the same elements: they count as those of one access.
    dense, rest = 4 * (1 << 18) * 64, 4 * (1000 + 2 * 16000 + 1000 * 65)
    assert of("csr_times_dense", sizes).moved == 4 * 16000 * 64 + rest  # less is asked for than there is
    many = {**sizes, "S": (1 << 20) + 1, "R": 1 << 20, "E": 1 << 24}
    asked, rest = 4 * 16 * (1 << 20) * 64, 4 * ((1 << 20) + 2 * (1 << 24) + (1 << 20) * 65)
    missed = 1 - LIMITS.cache / dense
    assert of("csr_times_dense", many).moved == pytest.approx(dense + rest + (asked - dense) * missed)
    within = Limits(**{**vars(LIMITS), "cache": dense})
    assert of("csr_times_dense", many, limits=within).moved == dense + rest


@pytest.mark.parametrize("target", ["mi350x", "t4", "h100-sxm5-80"])
def test_what_indices_find_comes_from_the_last_cache_but_for_what_a_first_one_holds(target):
    """Of 4096 rows of 256 bytes a multiprocessor may take a sector of 64 each, which is 256 KiB."""
    limits = limits_of(target_named(target))
    sizes = {"S": 4097, "R": 4096, "E": 1 << 16, "K": 4096, "C": 64}
    first = {"mi350x": 32 << 10, "t4": 64 << 10, "h100-sxm5-80": 228 << 10}[target]
    found = of("csr_times_dense", sizes, limits=limits)
    again = 4 * (1 << 16) * 64 - 4 * 4096 * 64
    drawn = found.moved + again * (1 - first / (4096 * 64))
    assert found.parts["memory"] == pytest.approx(
        max(drawn / (CACHE_REACHED * limits.cache_bandwidth), found.moved / limits.memory_bandwidth)
    )


def of_text(name, sizes, limits=LIMITS):
    return roofline(kernel_of(text(name)[1]), sizes, limits)


@pytest.mark.parametrize("name", ["turned_pairs", "turned_halves"])
def test_elements_that_two_accesses_take_by_turns_or_by_halves_all_count_once(name):
    assert of_text(name, {"M": 100, "H": 16, "P": 32, "D": 64}).moved == 4 * (2 * 100 * 16 * 64 + 100 * 32)


def test_what_no_access_takes_is_not_moved():
    assert of_text("every_other", {"M": 100, "P": 32, "D": 64}).moved == 4 * 2 * 100 * 32
    assert of_text("chosen_rows", {"V": 1 << 20, "M": 100, "D": 64}).moved == 8 * 100 + 4 * 2 * 100 * 64


def test_what_is_counted_is_written_once():
    assert of_text("counts", {"N": 1 << 20, "K": 1000}).moved == 8 * ((1 << 20) + 1000)


def test_what_masks_of_positions_leave_out_is_neither_read_nor_computed():
    sizes = {"N": 2000, "K": 64}
    found = of_text("lower_times", sizes)
    assert found.moved == pytest.approx(4 * (2000 * 2000 / 2 + 2 * 2000 * 64), rel=0.1)
    assert found.parts["operations"] < 0.6 * 4 * 2000 * 2000 * 64 / 4e13


def test_a_loop_takes_as_long_as_what_its_trips_wait_for():
    found = of_text("recurrence", {"L": 1 << 16, "D": 8})
    assert found.bottleneck == "chain"
    assert found.parts["chain"] == pytest.approx(4 * (1 << 16) / LIMITS.clock)  # a fused product and sum


@pytest.mark.slow
@pytest.mark.sample(2)
@pytest.mark.parametrize("target", ["h100-sxm5-80", "rtx4090", "mi300x"])
@pytest.mark.parametrize("name", [*KERNELS, *TEXTS])
def test_no_plan_is_modelled_to_take_less(name, target):
    seed = random.randrange(1 << 30)
    print("seed", seed)
    draw = np.random.default_rng(seed)
    kernel, module = text(name) if name in TEXTS else build(name)
    sizes = {size: int(2 ** draw.uniform(0, 12)) for size in kernel.sizes}
    if name.startswith("turned") or name == "every_other":
        sizes["D"] = 2 * sizes["P"]
    limits = limits_of(target_named(target))
    chosen = choose_plan(kernel_of(module), sizes, limits)
    assert chosen.seconds >= 0.999 * roofline(kernel_of(module), sizes, limits).seconds, sizes


@pytest.mark.parametrize("name", KERNELS)
def test_larger_calls_and_slower_devices_never_have_a_lower_roofline(name):
    seed = random.randrange(1 << 30)
    print("seed", seed)
    draw = np.random.default_rng(seed)
    kernel, module = build(name)
    sizes = {size: int(draw.integers(1, 1 << 12)) for size in kernel.sizes}
    least = roofline(kernel_of(module), sizes, LIMITS)
    for size in kernel.sizes:
        assert roofline(kernel_of(module), {**sizes, size: 2 * sizes[size]}, LIMITS).seconds >= least.seconds
    slower = Limits(**{**vars(LIMITS), "memory_bandwidth": 1e9, "multiply_adds": {"float32": 1e9}})
    assert roofline(kernel_of(module), sizes, slower).seconds > least.seconds


@pytest.mark.parametrize("name", KERNELS)
def test_sizes_of_nothing_and_of_absurd_length_have_a_roofline(name):
    kernel, module = build(name)
    for length in (0, 1, 1 << 40):
        found = roofline(kernel_of(module), dict.fromkeys(kernel.sizes, length), LIMITS)
        assert np.isfinite(found.seconds)
        assert found.seconds >= LIMITS.launch_seconds
