"""What the model of a CPU's time must tell apart, as measured."""

from __future__ import annotations

from dataclasses import replace

from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan
from vkernels.ir.planning.choose_plan import choose_plan
from vkernels.ir.planning.one_plan import model_plan
from vkernels.ir.planning.space import read_space
from vkernels.ir.text import parse_module

from ..lowering.llvm.texts import matmul_text
from ..planning.kernels import build, kernel_of

CPU = Limits(registers=32, register_bytes=64, shared=1 << 20, multiprocessors=1, cache=32 << 20)
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


def words(chunk: int, packs: tuple[str, ...] = ("a", "b"), lanes: str = "j", units: tuple[str, ...] = ("vnni",)):
    """Modelled seconds of a product of int8 in chunks of the contracted axis."""
    space = read_space(
        kernel_of(parse_module(matmul_text("i8", "i32"))), {"M": 512, "N": 512, "K": 512}, replace(CPU, dot_units=units)
    )
    plan = Plan({"i": 4, "j": 16}, {"k": chunk}, lanes=lanes, order=("j", "i"), packs=packs)
    return model_plan(space, plan).seconds


def test_a_dot_unit_saves_time_for_packed_chunks_of_whole_words_alone():
    assert words(4) < 0.5 * words(4, units=())
    assert words(8) < 0.5 * words(8, units=())
    assert words(2) == words(2, units=())
    assert words(4, packs=("b",)) == words(4, packs=("b",), units=())
    assert words(4, lanes="k") == words(4, lanes="k", units=())


def test_the_planner_takes_the_unit():
    sizes = {"M": 512, "N": 512, "K": 512}
    kernel = kernel_of(parse_module(matmul_text("i8", "i32")))
    plan = choose_plan(kernel, sizes, replace(CPU, dot_units=("vnni",))).plan
    assert plan.packs == ("a", "b")
    assert plan.chunks["k"] % 4 == 0
