"""What rows that lie beside one another cost a CPU."""

from __future__ import annotations

from jaxtyping import Float

import vkernels.language as vk
from vkernels.compiler.protocols import Signature
from vkernels.ir.cost_model.traffic import CacheTraffic
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan
from vkernels.ir.planning.choose_plan import choose_plan
from vkernels.ir.planning.one_plan import batch_of, model_plan
from vkernels.ir.planning.space import read_space

from ..planning.kernels import kernel_of

WIDE = Limits(registers=32, register_bytes=64, shared=1 << 20, multiprocessors=1, cache=32 << 20)


@vk.kernel
def sums_of_rows(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    j = vk.whole("N")
    out[i] = vk.sum(x[i, j], axis=j)


@vk.kernel
def doubled(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i, j = vk.tile("M"), vk.tile("N")
    out[i, j] = 2 * x[i, j]


def row_seconds(rows: int, length: int, strides: tuple[int, int] | None = None) -> float:
    """Of sums of 16 MiB, so many rows at a time."""
    module = sums_of_rows.build(Signature((("x", "float32"), ("out", "float32")), ()))
    sizes = {"M": (4 << 20) // length, "N": length}
    given = None if strides is None else {"x": strides, "out": (1,)}
    space = read_space(kernel_of(module), sizes, WIDE, strides=given)
    return model_plan(space, Plan({"i": rows}, {"j": 16}, lanes="j", order=("i",))).seconds


def test_short_rows_beside_one_another_are_prefetched_and_long_or_far_ones_start_anew():
    assert row_seconds(8, 128) < row_seconds(1, 128)
    assert row_seconds(8, 128, (128, 1)) == row_seconds(8, 128)
    assert row_seconds(8, 128, (1168, 1)) > 1.5 * row_seconds(8, 128)
    assert row_seconds(8, 1024) > 1.2 * row_seconds(1, 1024)


def test_rows_shorter_than_a_line_share_it_with_those_beside_them():
    def moved(length: int, strides: tuple[int, int] | None = None) -> float:
        module = doubled.build(Signature((("x", "float32"), ("out", "float32")), ()))
        given = None if strides is None else {"x": strides, "out": strides}
        space = read_space(kernel_of(module), {"M": (12 << 20) // length, "N": length}, WIDE, strides=given)
        return model_plan(space, Plan({"i": 64, "j": 16}, {}, lanes="i", order=("i", "j"))).parts["level 3"]

    long = moved(3 << 10)
    assert moved(3) < 1.1 * long  # rows of 12 bytes, each behind the other
    assert 1.3 * long < moved(3, (4, 1)) < 1.5 * long  # 4 bytes between them
    assert moved(3, (32, 1)) > 5 * long  # a line each


@vk.kernel
def pooled(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M K"]):
    i, k, s = vk.tile("M"), vk.tile("K"), vk.whole(2)
    out[i, k] = vk.max(x[i, 2 * k + s], axis=s)


def test_windows_side_by_side_share_lines():
    module = pooled.build(Signature((("x", "float32"), ("out", "float32")), ()))
    rows, columns = 4096, 1024
    space = read_space(kernel_of(module), {"M": rows, "N": columns, "K": columns // 2}, WIDE)
    plan = Plan({"i": 4, "k": 16}, {"s": 1}, lanes="k", order=("i", "k"))
    read = CacheTraffic(batch_of(space, plan), on_chip_counts=True).missed(1 << 20, 64)[0]
    assert float(read.item()) <= 1.01 * 4 * rows * columns


def doubled_seconds(rows: int, columns: int, length: int) -> float:
    """Of 64 MiB, in tiles of so many rows and columns."""
    module = doubled.build(Signature((("x", "float32"), ("out", "float32")), ()))
    space = read_space(kernel_of(module), {"M": (16 << 20) // length, "N": length}, WIDE)
    return model_plan(space, Plan({"i": rows, "j": columns}, {}, lanes="j", order=("i", "j"))).seconds


def test_rows_that_programs_take_in_parts_are_one_at_a_time():
    for length in (256, 1024, 4096):
        assert doubled_seconds(2, 64, length) > 1.05 * doubled_seconds(1, 128, length)
    assert doubled_seconds(2, 64, 64) == doubled_seconds(1, 128, 128)  # whole rows follow one another


def test_one_row_is_taken_where_several_are_no_better():
    module = doubled.build(Signature((("x", "float32"), ("out", "float32")), ()))
    for length in (1024, 4096):
        chosen = choose_plan(kernel_of(module), {"M": 4096, "N": length}, WIDE)
        assert chosen.plan.tiles["i"] == 1


@vk.kernel
def beside(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i, j = vk.tile("M"), vk.tile("N")
    out[i, j] = 2.0 * x[i, j + 1]


def test_programs_without_guards_begin_while_others_end():
    """Twice as many programs cost a kernel that finds which neighbours exist more than one that does not."""
    found = []
    for kernel in (doubled, beside):
        module = kernel.build(Signature((("x", "float32"), ("out", "float32")), ()))
        space = read_space(kernel_of(module), {"M": 64, "N": 1024}, WIDE)
        plans = [Plan({"i": 1, "j": columns}, lanes="j", order=("i", "j")) for columns in (32, 64)]
        many, few = (float(model_plan(space, plan).parts["instructions"]) for plan in plans)
        found.append(many - few)
    assert found[1] > 2 * found[0] > 0
