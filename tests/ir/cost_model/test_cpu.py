"""What the model of a CPU's time must tell apart, as measured."""

from __future__ import annotations

from dataclasses import replace

from vkernels.compiler.protocols import Signature
from vkernels.ir.cost_model.cpu_registers import cpu_registers
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan
from vkernels.ir.planning.one_plan import batch_of, model_plan
from vkernels.ir.planning.space import read_space
from vkernels.library.activations import activate_elements
from vkernels.library.dense import matmul_bias

from ..planning.kernels import build, kernel_of

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


def test_rows_a_power_of_two_apart_share_places_in_a_cache_and_others_do_not():
    assert seconds(1024, packs=("a", "b")) < 0.8 * seconds(1024, packs=("a",))
    assert seconds(1040, packs=("a", "b")) > 0.95 * seconds(1040, packs=("a",))


def registers(kernel, sizes, plan, **constants):
    """Vector registers of 64 bytes, of float32 tensors."""
    tensors = tuple((each.name, "float32") for each in kernel.parameters if each.kind == "tensor")
    defaults = {each.name: each.default for each in kernel.parameters if each.kind == "constant"}
    module = kernel.build(Signature(tensors, (), tuple((defaults | constants).items())))
    space = read_space(kernel_of(module), sizes, replace(EIGHT, registers=32))
    return float(cpu_registers(batch_of(space, plan), space.limits).max())


def test_what_follows_a_loop_of_products_leaves_it_its_registers():
    sizes, plan = {"M": 512, "N": 512, "K": 512}, Plan({"i": 12, "j": 32}, {"k": 1}, lanes="j", order=("j", "i"))
    assert registers(matmul_bias, sizes, plan, activation="gelu") == registers(matmul_bias, sizes, plan) <= 32


def test_code_without_loops_counts_all_that_is_alive():
    plan = Plan({"i": 12, "j": 32}, {}, lanes="j", order=("i", "j"))
    assert registers(activate_elements, {"M": 512, "N": 512}, plan, activation="gelu") > 32
