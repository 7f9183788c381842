"""Which tiles a CPU's registers must hold at the same time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from jaxtyping import Float

import vkernels.language as vk
from vkernels.compiler.protocols import Signature
from vkernels.ir.cost_model.cpu_registers import cpu_registers
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan
from vkernels.ir.planning.choose_plan import choose_plan
from vkernels.ir.planning.one_plan import batch_of
from vkernels.ir.planning.space import read_space
from vkernels.library.segments import bags_of_rows
from vkernels.library.sparse_products import csr_times_dense

from ..planning.kernels import kernel_of

NARROW = Limits(registers=16, register_bytes=32, shared=512 << 10, multiprocessors=1, cache=32 << 20)
BAGS = {"R": 4096, "S": 4097, "E": 65536, "V": 8192, "C": 64}
SPARSE = {"R": 4096, "S": 4097, "E": 65536, "K": 4096, "C": 64}


@vk.kernel
def sums_and_last(x: Float[vk.Tensor, "E N"], out: Float[vk.Tensor, "N"], last: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    total, row = vk.zeros((i,), x.dtype), vk.zeros((i,), x.dtype)
    for e in vk.range("E"):
        row = x[e, i]
        total += row
    out[i] = total
    last[i] = row


@vk.kernel
def checked_sums(x: Float[vk.Tensor, "E N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    total = vk.zeros((i,), x.dtype)
    for e in vk.range("E"):
        vk.device_assert(x[e, i] >= 0, "x is negative")
        vk.print("so far", total)
        total += x[e, i]
    out[i] = total


def ir_of(kernel):
    dtypes = dict.fromkeys(("start", "index", "column"), "int64")
    tensors = [(p.name, dtypes.get(p.name, "float32")) for p in kernel.parameters if p.kind == "tensor"]
    constants = [(p.name, p.default) for p in kernel.parameters if p.kind == "constant"]
    return kernel_of(kernel.build(Signature(tuple(tensors), (), tuple(constants))))


def registers(kernel, sizes, plan):
    return float(cpu_registers(batch_of(read_space(ir_of(kernel), sizes, NARROW), plan), NARROW).max())


@pytest.mark.parametrize(("kernel", "sizes"), [(bags_of_rows, BAGS), (csr_times_dense, SPARSE)])
def test_sums_of_rows_take_the_registers_of_the_sums_and_of_one_part_of_a_row_at_a_time(kernel, sizes):
    """A register of a row is the operand of an addition; indices and values for all lanes take one each."""
    plan = Plan({"r": 1, "c": 64}, {}, lanes="c", order=("r", "c"))
    assert 8 < registers(kernel, sizes, plan) <= 16


@pytest.mark.parametrize(("kernel", "sizes"), [(bags_of_rows, BAGS), (csr_times_dense, SPARSE)])
def test_rows_of_eight_registers_are_added_up_at_once_where_there_are_sixteen(kernel, sizes):
    assert choose_plan(ir_of(kernel), sizes, NARROW).plan.tiles["c"] == 64
    assert choose_plan(ir_of(kernel), sizes, replace(NARROW, registers=8)).plan.tiles["c"] < 64


def test_rows_that_are_used_again_stay_in_registers():
    plan = Plan({"i": 64}, {}, lanes="i", order=("i",))
    assert registers(sums_and_last, {"E": 64, "N": 4096}, plan) >= 16


def test_checks_and_prints_in_a_range_have_no_results():
    plan = Plan({"i": 64}, {}, lanes="i", order=("i",))
    assert registers(checked_sums, {"E": 64, "N": 4096}, plan) >= 8


@vk.kernel
def repeated_rows(x: Float[vk.Tensor, "P M N"], out: Float[vk.Tensor, "P M N"], last: Float[vk.Tensor, "P N"]):
    p = vk.tile("P")
    j = vk.whole("N")
    total = vk.zeros((p, j), vk.float32)
    for i in vk.range("M"):
        row = vk.exp(x[p, i, j])
        total += row
        out[p, i, j] = row / vk.sum(row, axis=j)
    last[p, j] = total


@vk.kernel
def repeated_sums(x: Float[vk.Tensor, "P M N"], out: Float[vk.Tensor, "P M"]):
    p = vk.tile("P")
    j = vk.whole("N")
    total = vk.zeros((p, j), vk.float32)
    for i in vk.range("M"):
        total += vk.exp(x[p, i, j])
        out[p, i] = vk.sum(total, axis=j)


def test_what_a_reduction_of_a_range_is_waited_for_with_must_fit():
    """Straight code that only leads to a reduction is gone through register by register."""
    sizes = {"P": 64, "M": 64, "N": 64}
    plan = Plan({"p": 16}, {"j": 64}, lanes="p", order=("p",))
    one = registers(repeated_sums, sizes, plan)
    assert one < registers(repeated_rows, sizes, plan)
