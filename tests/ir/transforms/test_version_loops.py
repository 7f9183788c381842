"""Loops of dots, and stores beside them, have versions without masks and guards that give what the text says."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Float, Int
from xdsl.dialects import scf

import vkernels.language as vk
from vkernels.ir.dialect import DotOp, GatherOp, LoadOp, ScatterOp, StoreOp
from vkernels.ir.facts import Facts
from vkernels.ir.interpret import interpret
from vkernels.ir.plan import Plan
from vkernels.ir.transforms import version_loops as passes
from vkernels.ir.transforms.apply_plan import apply_plan
from vkernels.ir.transforms.verify_mapped import verify_mapped
from vkernels.ir.transforms.version_loops import version_loops

from ...generated.random_kernels.native import run_native
from ...library.reference import fresh_seed
from .masked_kernels import module_of

ROWS, DEPTH = 8, 16


@vk.kernel
def blocks(
    x: Float[vk.Tensor, "M K"],
    w: Float[vk.Tensor, "K N"],
    block: Int[vk.Tensor, "P 3"],
    out: Float[vk.Tensor, "M N"],
    length: int,
    by: int,
):
    p = vk.tile("P")
    m = vk.whole(ROWS)
    c = vk.whole(DEPTH)
    n = vk.whole("N")
    first, last, begin = block[p, 0], block[p, 1], block[p, 2]
    row = vk.load(x[first + m, begin + c - by], where=(first + m < last) & (begin + c < length))
    product = vk.dot(row, vk.load(w[begin + c, n], where=length > begin + c))
    vk.store(out[first + m, n], product, where=last >= first + m + 1)


def expected(x: np.ndarray, w: np.ndarray, block: np.ndarray, length: int, by: int) -> np.ndarray:
    out = np.full((len(x), w.shape[1]), 7.0)
    for first, last, begin in block.tolist():
        for row in range(max(first, 0), min(first + ROWS, last, len(x))):
            places = [c for c in range(begin, begin + DEPTH) if c < length and 0 <= c < len(w)]
            seen = [c for c in places if 0 <= c - by < x.shape[1]]
            out[row] = sum((x[row, c - by] * w[c].astype(np.float64) for c in seen), np.zeros(w.shape[1]))
    return out


def plan_of(numbers: np.random.Generator) -> Plan:
    m, c, n = (int(numbers.choice(sizes)) for sizes in ([1, 4, 3], [1, 4, 6], [8, 16]))
    return Plan({"p": 1}, {"m": m, "c": c, "n": n}, lanes="n")


@pytest.mark.sample(2)
@pytest.mark.parametrize("turn", range(8))
def test_blocks_that_are_whole_or_not_give_what_the_text_says(turn: int) -> None:
    """Blocks reach beyond their ends, and beyond the tensors, on both sides, or not at all."""
    numbers = np.random.default_rng(fresh_seed())
    m, k, n = (int(numbers.choice(sizes)) for sizes in ([8, 16, 21], [16, 32, 35], [16, 19]))
    first = np.arange(-int(numbers.integers(2)), m, ROWS)
    last = np.minimum(first + numbers.choice([ROWS, ROWS, 5], len(first)), m + int(numbers.integers(2)))
    begin = numbers.choice([0, 0, k - DEPTH, -3, k - 2], len(first))
    block = np.stack([first, last, begin], 1).astype(np.int32)
    length, by = int(numbers.choice([k, k + 40, k - 3])), int(numbers.choice([0, 0, 2, -2]))
    x, w = (numbers.integers(-3, 4, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    module, plan = module_of(blocks), plan_of(numbers)
    wanted = expected(x, w, block, length, by)
    for run in ("interpreted", "native"):
        mapped = apply_plan(module, plan, Facts(distinct=True))
        version_loops(mapped)
        verify_mapped(mapped)
        out = np.full((m, n), 7, np.float32)
        arguments = {"x": x, "w": w, "block": block, "out": out, "length": length, "by": by}
        if run == "native":
            run_native(mapped, arguments, {"M": m, "K": k, "N": n, "P": len(block)})
        else:
            interpret(mapped, arguments)
        np.testing.assert_array_equal(out, wanted, err_msg=f"{run}, {plan}, {block.tolist()}, {length}, {by}")


def test_the_first_version_has_neither_masks_nor_guards() -> None:
    plan = Plan({"p": 1}, {"m": 4, "c": 4, "n": 16}, lanes="n")
    mapped = apply_plan(module_of(blocks), plan, Facts(distinct=True))
    version_loops(mapped)
    found = [op for op in mapped.walk() if isinstance(op, scf.IfOp)]
    loops = [op for op in found if any(isinstance(inner, DotOp) for inner in op.walk())]
    stores = [op for op in found if op not in loops and any(isinstance(i, ScatterOp | StoreOp) for i in op.walk())]
    assert loops
    assert stores
    for branch, kinds in ((loops[0], LoadOp | GatherOp), (stores[0], StoreOp | ScatterOp)):
        plain, masked = (
            [op.mask is None and not op.guarded_dimensions for op in region.walk() if isinstance(op, kinds)]
            for region in (branch.true_region, branch.false_region)
        )
        assert all(plain)
        assert len(plain) == len(masked)
        assert not any(masked)


@vk.kernel
def steps(
    x: Float[vk.Tensor, "M K"],
    w: Float[vk.Tensor, "K N"],
    block: Int[vk.Tensor, "P 4"],
    out: Float[vk.Tensor, "M N"],
    by: int,
):
    p = vk.tile("P")
    m = vk.whole(ROWS)
    c = vk.whole(DEPTH)
    n = vk.whole("N")
    first, last, begin, end = block[p, 0], block[p, 1], block[p, 2], block[p, 3]
    total = vk.zeros((p, m, n), vk.float32)
    for step in vk.range(0, (end - begin + DEPTH - 1) // DEPTH):
        near = begin + DEPTH * step
        row = vk.load(w[near + c, n], where=near + c < end)
        total = vk.dot(x[first + m, near - by + c], row, total)
    vk.store(out[first + m, n], total, where=first + m < last)


def of_steps(x: np.ndarray, w: np.ndarray, block: np.ndarray, by: int) -> np.ndarray:
    out = np.full((len(x), w.shape[1]), 7.0)
    for first, last, begin, end in block.tolist():
        for row in range(first, min(first + ROWS, last, len(x))):
            seen = [c for c in range(begin, min(end, len(w))) if 0 <= c - by < x.shape[1]]
            out[row] = sum((x[row, c - by] * w[c].astype(np.float64) for c in seen), np.zeros(w.shape[1]))
    return out


@pytest.mark.sample(2)
@pytest.mark.parametrize("turn", range(8))
def test_nests_of_dots_whose_sums_are_in_memory_give_what_the_text_says(turn: int, monkeypatch) -> None:
    """The last step of a block is whole or not, and columns lie outside or not. On any machine, as for matrix units."""
    monkeypatch.setattr(passes, "IN_NESTS", (DotOp,))
    numbers = np.random.default_rng(fresh_seed())
    m, k, n = (int(numbers.choice(sizes)) for sizes in ([8, 16, 21], [32, 48, 51], [16, 19]))
    first = np.arange(0, m, ROWS)
    last = np.minimum(first + numbers.choice([ROWS, 5], len(first)), m)
    begin = numbers.choice([0, DEPTH], len(first))
    end = np.minimum(begin + numbers.choice([0, 5, DEPTH, 2 * DEPTH], len(first)), k)
    block, by = np.stack([first, last, begin, end], 1).astype(np.int32), int(numbers.choice([0, 0, 2, -20]))
    x, w = (numbers.integers(-3, 4, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    module, wanted = module_of(steps), of_steps(x, w, block, by)
    plan = Plan({"p": 1}, {"m": 4, "c": DEPTH, "n": 8}, lanes="n")
    for run in ("interpreted", "native"):
        mapped = apply_plan(module, plan, Facts(distinct=True))
        version_loops(mapped)
        verify_mapped(mapped)
        branches = [op for op in mapped.walk() if isinstance(op, scf.IfOp) and not op.results]
        nests = [op for op in branches if any(isinstance(inner, scf.ForOp) for inner in op.true_region.walk())]
        assert nests
        plain = [op for op in nests[0].true_region.walk() if isinstance(op, LoadOp | GatherOp)]
        assert plain
        assert all(op.mask is None and not op.guarded_dimensions for op in plain)
        out = np.full((m, n), 7, np.float32)
        arguments: dict[str, np.ndarray | int] = {"x": x, "w": w, "block": block, "out": out, "by": by}
        if run == "native":
            run_native(mapped, arguments, {"M": m, "K": k, "N": n, "P": len(block)})
        else:
            interpret(mapped, arguments)
        np.testing.assert_array_equal(out, wanted, err_msg=f"{run}, {block.tolist()}, {by}")


@vk.kernel
def chosen(
    x: Float[vk.Tensor, "M K"],
    w: Float[vk.Tensor, "K N"],
    block: Int[vk.Tensor, "K"],
    out: Float[vk.Tensor, "M N"],
):
    i = vk.tile("M")
    k = vk.whole("K")
    j = vk.tile("N")
    out[i, j] = vk.dot(vk.load(x[i, k], where=block[k] > 1), w[k, j])


def test_masks_that_only_the_loop_knows_stay() -> None:
    mapped = apply_plan(module_of(chosen), Plan({"i": 4, "j": 8}, {"k": 4}, lanes="j"), Facts(distinct=True))
    version_loops(mapped)
    loads = [op for op in mapped.walk() if isinstance(op, LoadOp) and op.mask is not None]
    assert loads
    assert all(isinstance(op.parent_op(), scf.ForOp) for op in loads if isinstance(op.next_op, DotOp))
    numbers = np.random.default_rng(fresh_seed())
    x, w = (numbers.integers(-3, 4, shape).astype(np.float32) for shape in ((8, 16), (16, 16)))
    block, out = numbers.integers(0, 4, 16).astype(np.int32), np.full((8, 16), np.nan, np.float32)
    run_native(mapped, {"x": x, "w": w, "block": block, "out": out}, {"M": 8, "K": 16, "N": 16})
    np.testing.assert_array_equal(out, (x * (block > 1)) @ w)
