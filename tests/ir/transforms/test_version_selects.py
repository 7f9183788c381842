"""Versions of chunks that choose one side of a selection throughout compute what the text says."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Float
from xdsl.dialects.builtin import ModuleOp

import vkernels.language as vk
from vkernels.ir.dialect import LoadOp, arith
from vkernels.ir.facts import Facts
from vkernels.ir.interpret import interpret
from vkernels.ir.plan import Plan
from vkernels.ir.transforms.apply_plan import apply_plan
from vkernels.ir.transforms.verify_mapped import verify_mapped
from vkernels.ir.transforms.version_selects import version_selects

from ...library.reference import fresh_seed
from .masked_kernels import module_of
from .three_ways import run_three_ways


@vk.kernel
def joined(
    x: Float[vk.Tensor, "M K"], y: Float[vk.Tensor, "M K"], z: Float[vk.Tensor, "M K"], out: Float[vk.Tensor, "M N"],
    first: int, second: int,
):  # fmt: skip
    i = vk.tile("M")
    j = vk.whole("N")
    out[i, j] = vk.where(j < first, x[i, j], vk.where(j < second, 2 * y[i, j - first], z[i, j - second] + 1))


@vk.kernel
def banded(
    x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"], total: Float[vk.Tensor, "M"], least: int, most: int
):
    i = vk.tile("M")
    j = vk.whole("N")
    inside = vk.where((j >= i + least) & (j - i <= most), x[i, j], 0)
    out[i, j] = inside
    total[i] = vk.sum(vk.where((j > i) | (i > 2 * j), x[i, j], -1), axis=j)


def versions(module: ModuleOp, plan: Plan) -> ModuleOp:
    mapped = apply_plan(module, plan, Facts(distinct=True))
    version_selects(mapped)
    verify_mapped(mapped)
    return mapped


def drawn(numbers: np.random.Generator) -> tuple[int, int, Plan]:
    """Rows, columns and a plan; chunks are longer and shorter than rows."""
    m, n = (int(numbers.choice([1, 2, 3, 7, 15, 16, 17, 40])) for _ in range(2))
    tile, chunk = (int(size) for size in numbers.choice([1, 2, 4, 16], 2))
    return m, n, Plan({"i": tile}, {"j": chunk}, lanes=str(numbers.choice(["i", "j", "j"])))


@pytest.mark.sample(2)
@pytest.mark.parametrize("turn", range(6))
def test_joined_matrices_are_as_written(turn: int) -> None:
    numbers = np.random.default_rng(fresh_seed())
    m, n, plan = drawn(numbers)
    first, second = (int(number) for number in numbers.integers(-3, n + 4, 2))
    k = n + 2
    x, y, z = (numbers.integers(-9, 10, (m, k)).astype(np.float32) for _ in range(3))
    out = np.full((m, n), 7, np.float32)
    arguments = {"x": x, "y": y, "z": z, "out": out, "first": first, "second": second}
    module = module_of(joined)
    run_three_ways(module, arguments, {"M": m, "N": n, "K": k}, plan, Facts(distinct=True), tolerance=0)
    interpret(versions(module, plan), arguments)
    j = np.arange(n)
    one, two, three = (
        np.where((at >= 0) & (at < k), of[:, at.clip(0, k - 1)], 0)
        for of, at in ((x, j), (y, j - first), (z, j - second))
    )
    np.testing.assert_array_equal(out, np.where(j < first, one, np.where(j < second, 2 * two, three + 1)))


@pytest.mark.sample(2)
@pytest.mark.parametrize("turn", range(6))
def test_bands_and_sums_of_triangles_are_as_written(turn: int) -> None:
    numbers = np.random.default_rng(fresh_seed())
    m, n, plan = drawn(numbers)
    least, most = (int(number) for number in numbers.integers(-n, n + 1, 2))
    x = numbers.integers(-9, 10, (m, n)).astype(np.float32)
    out, total = np.full((m, n), 7, np.float32), np.full(m, 7, np.float32)
    arguments = {"x": x, "out": out, "total": total, "least": least, "most": most}
    module = module_of(banded)
    run_three_ways(module, arguments, {"M": m, "N": n}, plan, Facts(distinct=True), tolerance=0)
    interpret(versions(module, plan), arguments)
    i, j = np.arange(m)[:, None], np.arange(n)
    np.testing.assert_array_equal(out, np.where((j >= i + least) & (j - i <= most), x, 0))
    np.testing.assert_array_equal(total, np.where((j > i) | (i > 2 * j), x, -1).sum(1))


@pytest.mark.parametrize("by", [2**63 - 1, -(2**63), 2**62 + 3])
def test_huge_bounds_are_as_written(by: int) -> None:
    """Sums with positions may wrap around within a chunk: no version but the one as written may run."""
    x = np.arange(80, dtype=np.float32).reshape(2, 40)
    results = []
    for changed in (lambda module: module, lambda module: versions(module, Plan({"i": 2}, {"j": 8}, lanes="j"))):
        out, total = np.full((2, 40), 7, np.float32), np.full(2, 7, np.float32)
        interpret(changed(module_of(banded)), {"x": x, "out": out, "total": total, "least": by, "most": by})
        results.append(out)
    np.testing.assert_array_equal(*results)


def test_versions_load_one_side_alone() -> None:
    mapped = versions(module_of(joined), Plan({"i": 2}, {"j": 8}, lanes="j"))
    blocks = [block for op in mapped.walk() if op.name == "scf.if" for region in op.regions for block in region.blocks]
    loads = [[op for op in block.ops if isinstance(op, LoadOp)] for block in blocks]
    selects = [any(isinstance(op, arith.SelectOp) for op in block.ops) for block in blocks]
    alone = {op.base.name_hint for of, chooses in zip(loads, selects, strict=True) if not chooses for op in of}
    assert alone == {"x", "y", "z"}, "each tensor has a version that loads it and chooses nothing"
