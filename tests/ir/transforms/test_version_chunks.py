"""Versions of chunks whose indices are contiguous, but for a few breaks, load and store what the text says."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Float
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

import vkernels.language as vk
from vkernels.ir.facts import Facts
from vkernels.ir.interpret import interpret
from vkernels.ir.plan import Home, Plan
from vkernels.ir.transforms.apply_plan import apply_plan
from vkernels.ir.transforms.verify_mapped import verify_mapped
from vkernels.ir.transforms.version_chunks import version_chunks
from vkernels.language.kernel import Kernel

from ...library.reference import fresh_seed
from .masked_kernels import module_of
from .three_ways import run_three_ways

FORMS = ("wrap", "turned", "edge", "mirror", "twice", "blocks", "clamped wrap", "number")


@vk.function
def place(form, j, by, n):
    """An index from 0 to n - 1."""
    if form == "wrap":
        return (j - by) % n
    if form == "turned":
        return (by - j) % n
    if form == "edge":
        return vk.clamp(j - by, 0, n - 1)
    if form == "mirror":
        return vk.minimum(vk.abs(n - 1 - vk.abs(j - by)), n - 1)
    if form == "twice":
        return (2 * j + by) % n
    if form == "blocks":
        return (j // 5) % n
    if form == "clamped wrap":
        return vk.minimum((j + by) % n, n - 2 + n % 2 % n)
    return j % 3 % n


@vk.kernel
def loads(x: Float[vk.Tensor, "M K"], out: Float[vk.Tensor, "M N"], by: int, form: vk.Constant = "wrap"):
    i = vk.tile("M")
    j = vk.whole("N")
    out[i, j] = 2 * x[i, place(form, j, by, vk.size("K"))] + x[i, (j + 1) % vk.size("K")]


@vk.kernel
def apart(
    x: Float[vk.Tensor, "M K"],
    y: Float[vk.Tensor, "M L"],
    out: Float[vk.Tensor, "M N"],
    moved: Float[vk.Tensor, "M K"],
    by: int,
    factor: vk.Constant = 2,
    divisor: vk.Constant = 2,
):
    i = vk.tile("M")
    j = vk.whole("N")
    seen = x[i, factor * j + by]
    out[i, j] = seen + y[i, j // divisor] + y[i, (2 * j + 1) % divisor]
    moved[i, factor * j + by] = seen


@vk.kernel
def stores(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"], by: int):
    i = vk.tile("M")
    j = vk.tile("N")
    out[i, (j + by) % vk.size("N")] = x[i, j]


@vk.kernel
def sums(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"], by: int):
    i = vk.tile("M")
    j = vk.whole("N")
    out[i] = vk.sum(x[i, (j - by) % vk.size("N")] * x[i, j], axis=j)


@vk.kernel
def shares(x: Float[vk.Tensor, "M"], y: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    scaled = x[vk.size("M") - 1 - i] * y[i, j]
    out[i, j] = scaled - vk.max(scaled, axis=j)


def places(form: str, n: int, by: int, k: int) -> NDArray[np.int64]:
    j = np.arange(n)
    return {
        "wrap": (j - by) % k, "turned": (by - j) % k, "edge": np.clip(j - by, 0, k - 1),
        "mirror": np.minimum(abs(k - 1 - abs(j - by)), k - 1), "twice": (2 * j + by) % k, "blocks": (j // 5) % k,
        "clamped wrap": np.minimum((j + by) % k, k - 2 + k % 2 % k), "number": j % 3 % k,
    }[form]  # fmt: skip


def drawn(numbers: np.random.Generator) -> tuple[int, int, int, int]:
    """Rows, columns, and the length that indices wrap around at, longer and shorter than chunks."""
    m, n, k = (int(numbers.choice([1, 2, 3, 7, 15, 16, 17, 40])) for _ in range(3))
    return m, n, k, int(numbers.integers(-2 * k, 2 * k + 1))


def plan_of(numbers: np.random.Generator, is_tile: bool) -> Plan:
    tile, chunk = (int(size) for size in numbers.choice([1, 2, 4, 16], 2))
    lanes = str(numbers.choice(["i", "j", "j"]))
    return Plan({"i": tile, "j": chunk}, lanes=lanes) if is_tile else Plan({"i": tile}, {"j": chunk}, lanes=lanes)


@pytest.mark.sample(2)
@pytest.mark.parametrize("turn", range(4))
@pytest.mark.parametrize("form", FORMS)
def test_loads_are_of_the_places_that_the_text_names(form: str, turn: int) -> None:
    numbers = np.random.default_rng(fresh_seed())
    m, n, k, by = drawn(numbers)
    x = numbers.integers(-9, 10, (m, k)).astype(np.float32)
    arguments = {"x": x, "out": np.full((m, n), 7, np.float32), "by": by}
    module, plan = module_of(loads, form=form), plan_of(numbers, is_tile=False)
    run_three_ways(module, arguments, {"M": m, "N": n, "K": k}, plan, Facts(distinct=True), tolerance=0)
    mapped = _versions(module, plan)
    interpret(mapped, arguments)
    expected = 2 * x[:, places(form, n, by, k)] + x[:, (np.arange(n) + 1) % k]
    np.testing.assert_array_equal(arguments["out"], expected)


@pytest.mark.sample(2)
@pytest.mark.parametrize("turn", range(3))
@pytest.mark.parametrize("divisor", [2, 3, 4])
@pytest.mark.parametrize("factor", [-2, -1, 2, 3, 4, 5])
def test_lanes_apart_are_those_that_the_text_names(factor: int, divisor: int, turn: int) -> None:
    """Beyond the ends there are zeros; nothing beside tensors is written."""
    numbers = np.random.default_rng(fresh_seed())
    m, n, k, by = drawn(numbers)
    x, y = (numbers.integers(-9, 10, (m, size)).astype(np.float32) for size in (k, max(n, 8)))
    out, moved = np.full((m, n), 7, np.float32), np.full((m, k), 7, np.float32)
    arguments = {"x": x, "y": y, "out": out, "moved": moved, "by": by}
    module = module_of(apart, factor=factor, divisor=divisor)
    plan, sizes = plan_of(numbers, is_tile=False), {"M": m, "N": n, "K": k, "L": y.shape[1]}
    run_three_ways(module, arguments, sizes, plan, Facts(distinct=True), tolerance=0)
    interpret(_versions(module, plan), arguments)
    j = np.arange(n)
    at = factor * j + by
    seen = np.where((at >= 0) & (at < k), x[:, at.clip(0, k - 1)], 0)
    np.testing.assert_array_equal(out, seen + y[:, j // divisor] + y[:, (2 * j + 1) % divisor])


@pytest.mark.sample(2)
@pytest.mark.parametrize("turn", range(4))
@pytest.mark.parametrize("kernel", [stores, sums], ids=lambda kernel: kernel.name)
def test_stores_and_sums_are_as_written(kernel: Kernel, turn: int) -> None:
    numbers = np.random.default_rng(fresh_seed())
    m, n, _, by = drawn(numbers)
    x = numbers.integers(-9, 10, (m, n)).astype(np.float32)
    rolled = np.roll(x, by, 1)
    out = np.full((m, n) if kernel is stores else m, 7, np.float32)
    arguments = {"x": x, "out": out, "by": by}
    module, plan = module_of(kernel), plan_of(numbers, is_tile=kernel is stores)
    run_three_ways(module, arguments, {"M": m, "N": n}, plan, Facts(distinct=True), tolerance=0)
    interpret(_versions(module, plan), arguments)
    np.testing.assert_array_equal(out, rolled if kernel is stores else (rolled * x).sum(1))


@pytest.mark.parametrize("tile", [1, 4])
def test_memory_of_a_launch_stays_at_its_top(tile: int) -> None:
    numbers = np.random.default_rng(fresh_seed())
    m, n, _, _ = drawn(numbers)
    x, y = (numbers.integers(-9, 10, shape).astype(np.float32) for shape in ((m,), (m, n)))
    arguments = {"x": x, "y": y, "out": np.full((m, n), 7, np.float32)}
    plan = Plan({"i": tile}, {"j": 4}, homes={"scaled": Home.MEMORY}, lanes="i")
    run_three_ways(module_of(shares), arguments, {"M": m, "N": n}, plan, Facts(distinct=True), tolerance=0)
    interpret(_versions(module_of(shares), plan), arguments)
    scaled = x[::-1, None] * y
    np.testing.assert_array_equal(arguments["out"], scaled - scaled.max(1, keepdims=True))


@pytest.mark.parametrize("by", [2**63 - 1, -(2**63), 2**62 + 3])
def test_huge_shifts_are_as_written(by: int) -> None:
    """Their sums with positions may wrap around within a chunk: no version but the one as written may run."""
    x = np.arange(80, dtype=np.float32).reshape(2, 40)
    expected, actual = (np.full((2, 40), 7, np.float32) for _ in range(2))
    module = module_of(loads, form="edge")
    interpret(module, {"x": x, "out": expected, "by": by})
    interpret(_versions(module, Plan({"i": 2}, {"j": 8}, lanes="j")), {"x": x, "out": actual, "by": by})
    np.testing.assert_array_equal(actual, expected)


def _versions(module: ModuleOp, plan: Plan) -> ModuleOp:
    mapped = apply_plan(module, plan, Facts(distinct=True))
    version_chunks(mapped)
    verify_mapped(mapped)
    return mapped
