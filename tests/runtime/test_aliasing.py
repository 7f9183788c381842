"""One tensor for several parameters: refused, or as with memory of its own for each; alike however a kernel is run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from jaxtyping import Float, Int

import vkernels as vk

from ..library.on_a_gpu import NVIDIA, SMALL, on_a_gpu
from ..library.reference import fresh_seed

Matrix, Vector = Float[vk.Tensor, "M N"], Float[vk.Tensor, "N"]


@vk.kernel
def two_results(x: Matrix, first: Matrix, second: Matrix):
    i, j = vk.tile("M"), vk.whole("N")
    first[i, j] = x[i, j] - vk.max(x[i, j], axis=j)
    second[i, j] = x[i, j] * 2


@vk.kernel
def kept(x: Matrix, y: Matrix, first: Matrix, second: Matrix):
    """x is loaded before anything is stored, and needed after a reduction."""
    i, j = vk.tile("M"), vk.whole("N")
    value = x[i, j]
    first[i, j] = y[i, j]
    second[i, j] = value + vk.max(y[i, j], axis=j)


@vk.kernel
def centred(x: Matrix, out: Matrix):
    i, j = vk.tile("M"), vk.whole("N")
    out[i, j] = x[i, j] - vk.max(x[i, j], axis=j)


@vk.kernel
def read_later(x: Matrix, first: Matrix, second: Matrix):
    i, j = vk.tile("M"), vk.whole("N")
    first[i, j] = x[i, j] * 2
    second[i, j] = x[i, j] + 1


@vk.kernel
def two_sums(index: Int[vk.Tensor, "N"], x: Vector, first: Float[vk.Tensor, "K"], second: Float[vk.Tensor, "K"]):
    i = vk.tile("N")
    vk.atomic_add(first[index[i]], x[i])
    vk.atomic_add(second[index[i]], x[i] * 2)


@vk.kernel
def sum_and_largest(index: Int[vk.Tensor, "N"], x: Vector, first: Float[vk.Tensor, "K"], second: Float[vk.Tensor, "K"]):
    i = vk.tile("N")
    vk.atomic_add(first[index[i]], x[i])
    vk.atomic_max(second[index[i]], x[i])


@vk.kernel
def own_update(x: Matrix, y: Matrix, out: Matrix):
    """A tensor that is read and written in place is one parameter."""
    i, j = vk.tile("M"), vk.whole("N")
    out[i, j] += x[i, j] * y[i, j]


@vk.kernel
def shifted(x: Matrix, out: Matrix):
    """Reads of x at other places than out is written at, along a whole axis."""
    i, j = vk.tile("M"), vk.whole("N")
    out[i, j] = x[i, j + 1] - vk.max(x[i, j], axis=j)


@vk.kernel
def moved_up(x: Matrix, out: Matrix):
    """Other programs' elements."""
    i, j = vk.tile("M"), vk.whole("N")
    out[i, j] = x[i + 1, j]


@vk.kernel
def turned_pairs(x: Matrix, out: Matrix):
    half = vk.size("N") // 2
    i, p = vk.tile("M"), vk.tile(half)
    one, other = x[i, 2 * p], x[i, 2 * p + 1]
    out[i, 2 * p] = one * 3 - other * 2
    out[i, 2 * p + 1] = other * 3 + one * 2


@vk.kernel
def turned_halves(x: Matrix, out: Matrix):
    half = vk.size("N") // 2
    i, p = vk.tile("M"), vk.tile(half)
    one, other = x[i, p], x[i, p + half]
    out[i, p] = one * 3 - other * 2
    out[i, p + half] = other * 3 + one * 2


Run = Callable[..., None]


def checked(kernel: vk.Kernel) -> Run:
    return vk.kernel(checked=True)(kernel.function)


def cached(kernel: vk.Kernel) -> Run:
    """Called before with other tensors like these, each of its own memory."""

    def run(*values: np.ndarray) -> None:
        kernel(*(value.copy("K") for value in values))
        kernel(*values)

    return run


def through_torch(kernel: vk.Kernel) -> Run:
    return lambda *values: kernel(*map(torch.from_numpy, values))


def on_gpu(kernel: vk.Kernel, limits: vk.Limits = NVIDIA) -> Run:
    def run(*values: np.ndarray) -> None:
        with on_a_gpu(limits, 7):
            kernel(*values)

    return run


WAYS: dict[str, Callable[[vk.Kernel], Run]] = {
    "called": lambda kernel: kernel,
    "called again": cached,
    "torch": through_torch,
    "interpreted": lambda kernel: kernel.interpret,
    "checked": checked,
    "as a GPU would": on_gpu,
    "as a small GPU would": lambda kernel: on_gpu(kernel, SMALL),
}
CASES: dict[str, tuple[vk.Kernel, str, bool]] = {
    "two results": (two_results, "x a a", False),
    "a result in place of x": (two_results, "a a b", False),
    "the last result in place of x": (two_results, "a b a", True),
    "all three": (two_results, "a a a", False),
    "x is needed after a store": (kept, "a b a c", True),
    "y, the last read, is overwritten first": (kept, "b a a c", False),
    "x and y are one": (kept, "a a b c", True),
    "two results of four": (kept, "a b c c", False),
    "in place": (centred, "a a", True),
    "read later": (read_later, "a a b", False),
    "read before": (read_later, "a b a", True),
    "two sums": (two_sums, "n v a a", True),
    "two sums over what is added": (two_sums, "n v v w", False),
    "a sum and a maximum": (sum_and_largest, "n v a a", False),
    "elsewhere in the row": (shifted, "a a", True),
    "elsewhere in the column": (moved_up, "a a", False),
    "pairs in place": (turned_pairs, "a a", True),
    "pairs": (turned_pairs, "a b", True),
    "halves in place": (turned_halves, "a a", True),
    "halves": (turned_halves, "a b", True),
    "an update in place of x": (own_update, "a b a", True),
    "an update of x by x": (own_update, "a a a", True),
    "x and y are one beside an update": (own_update, "a a b", True),
}


def arguments(letters: str, rng: np.random.Generator, shape: tuple[int, int]) -> list[np.ndarray]:
    """An array for each parameter, the same one for the same letter; `n` holds indices, the others are as long then."""
    made: dict[str, np.ndarray] = {}
    for letter in letters.split():
        if letter not in made:
            of = shape[1:] if "n" in letters else shape
            numbers = rng.integers(0, shape[1], of) if letter == "n" else rng.integers(-9, 10, of)
            made[letter] = numbers if letter == "n" else numbers.astype(np.float32)  # exact in any order
    return [made[letter] for letter in letters.split()]


def expected(kernel: vk.Kernel, values: list[np.ndarray]) -> list[np.ndarray]:
    """What memory of its own for each gives; two sums into one tensor are one sum."""
    apart = [value.copy() for value in values]
    if kernel is two_sums and values[2] is values[3]:
        np.add.at(apart[2], values[0], values[1] * 3)
        return [*apart[:3], apart[2]]
    kernel.interpret(*apart)
    return apart


@pytest.mark.sample(8)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES)
def test_one_tensor_for_several_parameters(case, way):
    kernel, letters, is_right = CASES[case]
    rng = np.random.default_rng(fresh_seed())
    shape = (int(rng.integers(1, 9)), int(rng.choice([2, 7, 64, 700, 5000])))
    values = arguments(letters, rng, shape)
    before = [value.copy() for value in values]
    want = expected(kernel, values)
    if not is_right:
        with pytest.raises(vk.ArgumentError, match=rf"^{kernel.name}: argument `\w+` is the same tensor as `\w+`"):
            WAYS[way](kernel)(*values)
        for value, old in zip(values, before, strict=True):
            np.testing.assert_array_equal(value, old)
        return
    WAYS[way](kernel)(*values)
    written = {"two_results": (1, 2), "kept": (2, 3), "read_later": (1, 2), "two_sums": (2, 3)}
    for number in written.get(kernel.name, (len(values) - 1,)):
        np.testing.assert_array_equal(values[number], want[number])


def test_calls_of_one_shape_with_different_tensors_that_are_one():
    """Each pattern has code of its own, and none is taken for another's."""
    rng = np.random.default_rng(fresh_seed())
    patterns = ["a b c", "a a b", "a b a", "b c a", "a a a", "a a b", "a b a"]
    for letters in patterns:
        values = arguments(letters, rng, (5, 300))
        want = expected(own_update, values)
        own_update(*values)
        np.testing.assert_array_equal(values[2], want[2])


def test_memory_that_is_shared_in_part_is_refused_in_calls_that_are_remembered_too():
    pool = np.zeros((20, 8), np.float32)
    whole, other = np.ones((5, 8), np.float32), np.ones((5, 8), np.float32)
    for run in (two_results, two_results.interpret):
        run(whole, pool[:5], pool[5:10])
        for one, two in [(pool[:5], pool[4:9]), (pool[3:8], pool[:5]), (pool[:5], pool[4::-1]), (pool[1:6], pool[1:6])]:
            with pytest.raises(vk.ArgumentError, match=r"`first`.*`second`"):
                run(whole, one, two)
        run(whole, other, pool[5:10])


def test_other_kinds_of_one_memory():
    floats = torch.zeros(4, 6)
    halves = floats.view(torch.float16)[:, :6]
    with pytest.raises(vk.ArgumentError, match=r"`first`.*`second`"):
        two_results(torch.ones(4, 6), floats, halves)
    with pytest.raises(vk.ArgumentError, match="places of their own"):
        two_results(torch.ones(4, 6), floats, torch.zeros(4, 1).expand(4, 6))
    row = torch.arange(6.0)
    with pytest.raises(vk.ArgumentError, match=r"`first`.*`x`.*part of it"):
        centred_into(row.expand(4, 6), row.expand(1, 6))
    empty = torch.zeros(0, 6)
    two_results(empty, empty, empty)
    two_results.interpret(empty, empty, empty)
    out = torch.zeros(4, 6)
    centred(row.expand(4, 6), out)
    torch.testing.assert_close(out, (row - 5).expand(4, 6))


@vk.kernel
def centred_into(x: Matrix, first: Float[vk.Tensor, "K N"]):
    i, j = vk.tile("K"), vk.whole("N")
    first[i, j] = x[0, j] - 1


@vk.kernel
def two_updates(x: Matrix, first: Matrix, second: Matrix):
    i, j = vk.tile("M"), vk.whole("N")
    first[i, j] += x[i, j]
    second[i, j] -= x[i, j]


def test_an_operation_of_torch_refuses_two_results_that_are_one():
    operation = vk.torch_op(two_updates, "aliases::two_updates")
    x, out = torch.ones(3, 4), torch.zeros(3, 4)
    with pytest.raises(vk.ArgumentError, match="the kernel writes both"):
        operation(x, out, out)
    assert not out.any()
    operation(x, out, x.clone())
    assert out.eq(1).all()


def test_compiling_for_a_call_refuses_what_the_call_does():
    x, y = np.ones((3, 4), np.float32), np.ones((3, 4), np.float32)
    with pytest.raises(vk.ArgumentError, match="writes both"):
        two_results.compile(x, y, y)
    assert "%x[" not in centred.compile(x, x).stages["after-apply-plan"]
