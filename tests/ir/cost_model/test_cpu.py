"""What the model of a CPU's time must tell apart, as measured."""

from __future__ import annotations

from vkernels.ir.cost_model.cpu_registers import cpu_registers
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan
from vkernels.ir.planning.one_plan import batch_of, model_plan
from vkernels.ir.planning.space import read_space

from ..planning.kernels import build, kernel_of

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


def test_what_a_dot_takes_position_by_position_is_not_alive_at_once():
    """24 registers of sums, four of a row of `b` and one element of `a`, however many rows a chunk has."""
    sizes = {"M": 512, "N": 512, "K": 512}
    for chunk in (1, 4, 8):
        batch, _ = product(sizes, Plan({"i": 6, "j": 64}, {"k": chunk}, lanes="j"))
        assert cpu_registers(batch, WIDE) == 24 + 4 + 1


def test_a_program_goes_on_in_the_rows_that_the_one_before_wrote():
    """Where little is summed, moving on to other rows, on other pages each, costs more than it saves."""
    sizes = {"M": 2048, "N": 2048, "K": 64}
    along, down = (
        product(sizes, Plan({"i": 8, "j": 48}, {"k": 2}, packs=("b",), lanes="j", order=order))[1]
        for order in (("i", "j"), ("j", "i"))
    )
    assert along < down
