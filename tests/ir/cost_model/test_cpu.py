"""What the model of a CPU's time must tell apart, as measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from jaxtyping import Complex64, Float

import vkernels.language as vk
from vkernels.compiler.protocols import Signature
from vkernels.ir.analyses import phases_of
from vkernels.ir.core_costs import CoreCosts
from vkernels.ir.cost_model.cpu_registers import cpu_registers
from vkernels.ir.facts import Facts
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan
from vkernels.ir.planning.choose_plan import choose_plan
from vkernels.ir.planning.one_plan import batch_of, model_plan
from vkernels.ir.planning.space import read_space
from vkernels.ir.text import parse_module
from vkernels.ir.transforms.apply_plan.find_words import find_word_dots
from vkernels.ir.transforms.apply_plan.planned_kernel import plan_kernel
from vkernels.library.activations import activate_elements
from vkernels.library.convolution import convolve
from vkernels.library.dense import matmul_bias
from vkernels.library.experts import multiply_blocks
from vkernels.library.spdnn import sparse_layers
from vkernels.targets import limits_of
from vkernels.targets.processors import processor_targets

from ..lowering.llvm.texts import matmul_text
from ..planning.kernels import build, kernel_of


@vk.kernel
def decayed(u: Float[vk.Tensor, "L D"], decay: Float[vk.Tensor, "D N"], out: Float[vk.Tensor, "L D"]):
    d = vk.tile("D")
    n = vk.whole("N")
    state = vk.zeros((d, n), vk.float32)
    for t in vk.range("L"):
        state = vk.exp(u[t, d] * decay[d, n]) * state + u[t, d]
        out[t, d] = vk.sum(state, axis=n)


WIDE = Limits(registers=32, register_bytes=64, shared=1 << 20, multiprocessors=1, cache=32 << 20)
EIGHT = Limits(registers=8, register_bytes=64, shared=1 << 20, multiprocessors=1, cache=32 << 20)


def seconds(columns, **packs):
    """Of a product of 512 rows and 512 steps, four rows and one register of columns at a time."""
    module = build("matmul_bias")[1]
    space = read_space(kernel_of(module), {"M": 512, "N": columns, "K": 512}, EIGHT)
    plan = Plan({"i": 4, "j": 16}, {"k": 1}, lanes="j", order=("j", "i"), **packs)
    return model_plan(space, plan).seconds


def test_rows_half_a_page_apart_are_worth_packing_and_near_ones_are_not():
    assert seconds(512, packs=("a", "b")) < seconds(512, packs=("a",))
    assert seconds(128, packs=("a", "b")) > seconds(128, packs=("a",))


def product(sizes, plan):
    module = build("matmul_bias")[1]
    space = read_space(kernel_of(module), sizes, WIDE)
    return batch_of(space, plan), model_plan(space, plan).seconds


def test_a_program_goes_on_in_the_rows_that_the_one_before_wrote():
    """Where little is summed, moving on to other rows, on other pages each, costs more than it saves."""
    sizes = {"M": 2048, "N": 2048, "K": 16}
    along, down = (
        product(sizes, Plan({"i": 8, "j": 48}, {"k": 2}, packs=("b",), lanes="j", order=order))[1]
        for order in (("i", "j"), ("j", "i"))
    )
    assert along < down


def test_rows_a_power_of_two_apart_share_places_in_a_cache_and_others_do_not():
    assert seconds(1024, packs=("a", "b")) < 0.8 * seconds(1024, packs=("a",))
    assert seconds(1040, packs=("a", "b")) > 0.95 * seconds(1040, packs=("a",))


def space_of(kernel, sizes, constants):
    """Of float32 tensors, with 32 registers."""
    tensors = tuple((each.name, "float32") for each in kernel.parameters if each.kind == "tensor")
    defaults = {each.name: each.default for each in kernel.parameters if each.kind == "constant"}
    module = kernel.build(Signature(tensors, (), tuple((defaults | constants).items())))
    return read_space(kernel_of(module), sizes, WIDE)


def registers(kernel, sizes, plan, **constants):
    """Vector registers of 64 bytes, of float32 tensors."""
    space = space_of(kernel, sizes, constants)
    return float(cpu_registers(batch_of(space, plan), space.limits).max())


def test_a_chunk_of_a_dot_takes_the_registers_of_one_position_where_rows_have_few_addresses():
    def taken(rows, chunk, *packs):
        plan = Plan({"i": rows, "j": 32}, {"k": chunk}, packs=packs, lanes="j", order=("j", "i"))
        return registers(matmul_bias, {"M": 512, "N": 512, "K": 512}, plan)

    assert taken(8, 4) == taken(8, 1)
    assert taken(12, 4, "a", "b") == taken(12, 1, "a", "b")
    assert taken(12, 4, "b") > taken(12, 1, "b")  # each row has an address of its own
    assert taken(8, 8) > taken(8, 1)


def test_what_follows_a_loop_of_products_leaves_it_its_registers():
    sizes, plan = {"M": 512, "N": 512, "K": 512}, Plan({"i": 12, "j": 32}, {"k": 1}, lanes="j", order=("j", "i"))
    assert registers(matmul_bias, sizes, plan, activation="gelu") == registers(matmul_bias, sizes, plan) <= 32


def test_code_without_loops_counts_all_that_is_alive():
    plan = Plan({"i": 12, "j": 32}, {}, lanes="j", order=("i", "j"))
    assert registers(activate_elements, {"M": 512, "N": 512}, plan, activation="gelu") > 32


def words(chunk: int, packs: tuple[str, ...] = ("a", "b"), lanes: str = "j", units: tuple[str, ...] = ("vnni",)):
    """Modelled seconds of a product of int8 in chunks of the contracted axis."""
    space = read_space(
        kernel_of(parse_module(matmul_text("i8", "i32"))),
        {"M": 512, "N": 512, "K": 512},
        replace(WIDE, dot_units=units),
    )
    plan = Plan({"i": 4, "j": 16}, {"k": chunk}, lanes=lanes, order=("j", "i"), packs=packs)
    return model_plan(space, plan).seconds


def test_a_dot_unit_saves_time_for_packed_chunks_of_whole_words_alone():
    assert words(4) < 0.5 * words(4, units=())
    assert words(8) < 0.5 * words(8, units=())
    assert words(2) == words(2, units=())
    assert words(4, packs=("b",)) == words(4, packs=("b",), units=())
    assert words(4, lanes="k") == words(4, lanes="k", units=())


def on_matrices(
    rows: int, columns: int, chunk: int, packs: tuple[str, ...] = ("a", "b"), order: tuple[str, ...] = ("j", "i"),
    swizzle: int = 1,
) -> float:  # fmt: skip
    """Modelled seconds of a product of bf16 where there is a matrix unit."""
    limits = replace(WIDE, dot_units=("amx-bf16", "avx512-bf16"))
    space = read_space(kernel_of(parse_module(matmul_text("bf16", "f32"))), {"M": 960, "N": 960, "K": 960}, limits)
    plan = Plan({"i": rows, "j": columns}, {"k": chunk}, lanes="j", order=order, packs=packs, swizzle=swizzle)
    return model_plan(space, plan).seconds


def test_a_matrix_unit_passes_packed_panels_faster_than_rows_in_place():
    passing_rows, passing_panels = (on_matrices(32, 32, 32, ("b",), order) for order in (("j", "i"), ("i", "j")))
    assert passing_panels < passing_rows
    assert on_matrices(32, 32, 32, ("b",), swizzle=8) < passing_rows


def test_a_matrix_unit_takes_its_depth_and_what_its_registers_hold():
    assert on_matrices(16, 32, 32) < 0.5 * on_matrices(16, 32, 16)
    assert on_matrices(32, 32, 32) < on_matrices(16, 16, 32)
    assert on_matrices(32, 48, 32) > 2 * on_matrices(32, 32, 32)  # which do not fit: another unit


@pytest.mark.parametrize(
    ("element", "unit"),
    [("bf16", "amx-bf16"), ("i8", "amx-int8"), ("f16", "amx-fp16"), ("f16", "amx-bf16-split")],
)
def test_the_planner_takes_the_matrix_unit(element: str, unit: str):
    sizes = {"M": 512, "N": 512, "K": 512}
    kernel = kernel_of(parse_module(matmul_text(element, "i32" if element == "i8" else "f32")))
    limits = replace(WIDE, dot_units=(unit, "vnni", "avx512-bf16"))
    plan = choose_plan(kernel, sizes, limits).plan
    facts = Facts(sizes, strides=dict.fromkeys(("a", "b", "out"), (512, 1)), distinct=True)
    found = find_word_dots(plan_kernel(phases_of(kernel), plan, facts), limits.dot_units)
    assert [dot.on.unit.name for dot in found.values()] == [unit]


@pytest.mark.parametrize(("element", "units"), [
    ("i8", ("neon-mmla-int8", "neon-dotprod")), ("bf16", ("neon-mmla-bf16", "neon-bf16")),
])  # fmt: skip
def test_the_planner_takes_blocks_of_even_sides(element: str, units: tuple[str, ...]):
    sizes = {"M": 512, "N": 512, "K": 512}
    kernel = kernel_of(parse_module(matmul_text(element, "i32" if element == "i8" else "f32")))
    limits = limits_of(processor_targets()["cpu:neoverse-v2"])
    chosen = {}
    for present in (units, units[1:]):
        limits = replace(limits, dot_units=present)
        plan = choose_plan(kernel, sizes, limits).plan
        facts = Facts(sizes, strides={"a": (512, 1), "b": (512, 1)}, distinct=True)
        found = find_word_dots(plan_kernel(phases_of(kernel), plan, facts), present)
        assert [dot.on.unit.name for dot in found.values()] == [present[0]]
        chosen[present] = model_plan(read_space(kernel, sizes, limits), plan).seconds
    assert chosen[units] < 0.8 * chosen[units[1:]]


def test_few_rows_of_int8_are_packed_for_the_unit():
    """Measured on an Intel server core of 2023: 8 rows of 1024 × 1024 take 0.3 of the time, packing included."""
    kernel, sizes = kernel_of(parse_module(matmul_text("i8", "i32"))), {"M": 8, "N": 1024, "K": 1024}
    limits = replace(WIDE, dot_units=("vnni",))
    assert choose_plan(kernel, sizes, limits).plan.packs == ("a", "b")
    assert choose_plan(kernel, {**sizes, "M": 1}, limits).plan.packs == ()


def test_the_planner_takes_the_unit():
    sizes = {"M": 512, "N": 512, "K": 512}
    kernel = kernel_of(parse_module(matmul_text("i8", "i32")))
    plan = choose_plan(kernel, sizes, replace(WIDE, dot_units=("vnni",))).plan
    assert plan.packs == ("a", "b")
    assert plan.chunks["k"] % 4 == 0


def test_extending_narrow_floats_takes_the_ports_of_multiply_adds():
    """A row of sums at a time, each register of `b` is extended for one multiply-add."""

    def seconds_of(element: str, rows: int) -> float:
        space = read_space(
            kernel_of(parse_module(matmul_text(element, "f32"))),
            {"M": 512, "N": 512, "K": 64},
            replace(WIDE, clock=3e9, multiply_adds={"float32": 48e9}),
        )
        return model_plan(space, Plan({"i": rows, "j": 64}, {"k": 1}, lanes="j", order=("i", "j"))).seconds

    assert seconds_of("f16", 1) > 1.5 * seconds_of("f32", 1)
    assert seconds_of("f16", 1) > 1.5 * seconds_of("f16", 4)


def layers(images: int, core: CoreCosts, indices: str = "int32", **more) -> float:
    """Seconds of four sparse layers, whose features are loaded into and stored from memory of a program's own."""
    floats = dict.fromkeys(("y", "weight", "bias", "out", "peak"), "float32")
    built = sparse_layers.build(sparse_layers.signature(**floats, column=indices, cap=float))
    limits = replace(WIDE, clock=3e9, core=core)
    space = read_space(kernel_of(built), {"L": 4, "N": 1024, "K": 32, "I": images}, limits)
    plan = Plan({"i": 64}, {"n": 2}, copies=("features",), lanes="i", order=("i",), **more)
    return model_plan(space, plan).seconds


def test_a_burst_of_short_rows_waits_for_its_lines_unless_they_pass_the_caches():
    prompt, slow = CoreCosts(), CoreCosts(fetched_store=40.0)
    passing = {"streams": ("out",)}
    assert layers(4096, slow) > layers(4096, prompt)
    assert layers(4096, slow, **passing) == layers(4096, prompt, **passing)
    assert layers(64, slow) == layers(64, prompt), "the rows of one tile lie side by side"


def scanned(chunk: int, **costs: float) -> float:
    """Seconds of a scan over time whose lanes lie across the rows of one operand."""
    limits = replace(WIDE, clock=3e9, core=CoreCosts(**costs))
    space = read_space(
        kernel_of(decayed.build(decayed.signature(**dict.fromkeys(("u", "decay", "out"), "float32")))),
        {"L": 256, "D": 256, "N": 16},
        limits,
    )
    return model_plan(space, Plan({"d": 32}, {"n": chunk}, lanes="d", order=("d",))).seconds


def test_elements_apart_take_time_of_arithmetic_where_a_core_does_not_do_both_at_once():
    assert scanned(1, apart_alone=1.0) > 1.2 * scanned(1, apart_alone=0.0)


def test_straight_code_of_a_range_may_go_through_memory():
    """All positions at once load each operand once; what does not fit in registers costs loads that are hidden."""
    assert scanned(16, apart_alone=1.0) < scanned(1, apart_alone=1.0)


def test_indices_of_two_bytes_are_not_extended_as_floats_are():
    assert layers(1024, CoreCosts(), "int16") <= layers(1024, CoreCosts(), "int32")


def convolution(side, lanes, o, y, x):
    """Seconds of 3 x 3 weights on 64 channels of square images of so many rows, padding included."""
    sizes = {"B": 8, "G": 1, "C": 64, "H": side, "W": side, "O": 64, "R": 3, "S": 3, "Y": side, "X": side}
    plan = Plan({"b": 1, "g": 1, "o": o, "y": y, "x": x}, {"c": 4}, lanes=lanes, order=("b", "g", "o", "y", "x"))
    return model_plan(space_of(convolve, sizes, {"above": 1, "left": 1}), plan).seconds


def test_elements_that_may_be_beyond_the_tensor_are_selected_one_by_one_at_its_ends():
    """Tiles that are all inside have a version of their own: of 56 columns these are more than of 8."""
    at_ends, inside = (convolution(side, "o", o=32, y=1, x=8) / side**2 for side in (8, 56))
    assert at_ends > 1.03 * inside


def test_what_is_masked_anyway_costs_no_more_at_the_end_of_rows():
    assert convolution(28, "x", o=8, y=1, x=32) < 1.1 * convolution(28, "x", o=8, y=2, x=16)


def test_blocks_whose_loads_take_as_long_as_their_products_take_longer_than_either():
    core = CoreCosts(loads=2, latency=4)
    server = replace(WIDE, core=core, clock=3e9, multiply_adds={"float32": 96e9})

    def seconds(rows, columns, chunk):
        space = read_space(kernel_of(build("matmul_bias")[1]), {"M": 128, "N": 128, "K": 128}, server)
        plan = Plan({"i": rows, "j": columns}, {"k": chunk}, lanes="j", order=("j", "i"))
        return model_plan(space, plan).parts["instructions"]

    two = seconds(8, 32, 4)
    assert seconds(16, 16, 4) > 1.12 * two, "17 registers are loaded for 16 multiply-adds"
    assert seconds(4, 32, 4) > 1.1 * two, "no more sums than multiply-adds in flight"
    assert seconds(4, 64, 2) < 1.05 * two, "8 registers are loaded for 16 multiply-adds"


def test_what_an_index_selects_for_a_program_is_all_that_its_loops_go_through():
    dtypes = {"row": "int32", "group": "int32", "first": "int32", "end": "int32"}
    tensors = tuple((name, dtypes.get(name, "float32")) for name in multiply_blocks.function.__annotations__)[:-1]
    module = multiply_blocks.build(Signature(tensors, (), (("activation", "none"),)))

    def seconds_of_columns(columns):
        sizes = {"T": 128, "K": 64, "S": 128, "G": 8, "N": columns, "B": 4}
        plan = Plan({"b": 1, "n": 64}, {"i": 4, "k": 2}, lanes="n", order=("b", "n"))
        return model_plan(read_space(kernel_of(module), sizes, WIDE), plan).parts["level 2"] / columns

    assert seconds_of_columns(1024) < 1.2 * seconds_of_columns(64), "64 columns of a program's weights fit level 1"


@vk.kernel
def complex_product(x: Complex64[vk.Tensor, "M K"], y: Complex64[vk.Tensor, "K N"], out: Complex64[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    k = vk.whole("K")
    out[i, j] = vk.dot(x[i, k], y[k, j])


def test_rows_of_complex_numbers_far_apart_are_worth_packing():
    """Each part is loaded from rows that compete for places in caches, as those of real numbers do."""
    module = complex_product.build(Signature(tuple((name, "float32") for name in ("x", "y", "out")), (), ()))
    strides = dict.fromkeys(("x", "y", "out"), (1024, 2, 1))
    space = read_space(kernel_of(module), {"M": 512, "N": 512, "K": 512}, WIDE, strides=strides)
    plan = Plan({"i": 4, "j": 32}, {"k": 1}, lanes="j", order=("j", "i"))
    taken, once = (batch_of(space, replace(plan, packs=packs)) for packs in ((), ("x", "y")))
    assert (once.launches, taken.launches) == (5, 1)
    assert model_plan(space, replace(plan, packs=("y",))).seconds < 0.85 * model_plan(space, plan).seconds
    assert "y" in choose_plan(space.kernel, space.sizes, WIDE, strides=strides).plan.packs
