"""Every public function of the library refuses what it cannot take with a `vk.Error`, and with nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
import torch

import vkernels as vk
from vkernels import library
from vkernels.library.attention import attention_backward, attention_forward
from vkernels.library.replay import replayed
from vkernels.library.rows import softmax_rows
from vkernels.library.rules import DeclaredShape, Sizes

from .reference import fresh_seed
from .samples import declaration_of, public

MOST_SECONDS = 600
ONE_IN = 8
"""Of so many functions the usual run takes one, and of so many cases of it."""


def outcomes_of(one_in: int) -> dict[str, str]:
    """What was wrong with each case, none where it is right, by the case's name; a process that dies is started again
    behind the case that it died of."""
    seed = fresh_seed()
    found: dict[str, str] = {}
    running = ""
    for _ in range(20):
        begin = [running] if running else []
        command = [sys.executable, "-m", "tests.library.hostile", str(seed), str(one_in), *begin]
        environment = {**os.environ, "XDG_DATA_HOME": os.devnull}
        done = subprocess.run(command, capture_output=True, text=True, timeout=MOST_SECONDS, env=environment)
        for line in done.stdout.splitlines():
            if line.startswith("\t"):
                found[running] = line.strip()
            else:
                running = line
                found[running] = ""
        if running == "done":
            return found
        found[running] = f"the process ended with {done.returncode}\n{done.stderr[-2000:]}"
    return found


@pytest.mark.slow
def test_arguments_that_a_function_cannot_take_are_refused():
    assert len(refusing(outcomes_of(ONE_IN))) > 5


@pytest.mark.thorough
def test_all_functions_refuse_all_arguments_that_they_cannot_take():
    cases = refusing(outcomes_of(1))
    assert set(cases) >= set(public())
    assert all(cases[name] > 2 for name in public())


def refusing(outcomes: dict[str, str]) -> Counter[str]:
    """The cases of each function, in none of which anything is wrong."""
    assert {case: wrong for case, wrong in outcomes.items() if wrong} == {}
    return Counter(case.partition("/")[0] for case in outcomes)


def test_every_function_of_the_library_declares_its_arguments():
    """And so does every gradient beside one."""
    assert set(library.__all__) <= set(public())
    for name, function in public().items():
        assert declaration_of(function).rules, name
        assert declaration_of(function).name == name


def test_sizes_are_solved():
    sizes = Sizes({"groups": 2})
    assert sizes.bind(DeclaredShape.of("R+1"), (4,))
    assert sizes.known["R"] == 3
    assert sizes.bind(DeclaredShape.of("*B Q 2*P C//groups"), (7, 8, 5, 6, 9))
    assert (sizes.rests["B"], sizes.known["P"]) == ((7, 8), 3)
    assert not sizes.bind(DeclaredShape.of("2*P"), (7,))
    assert not sizes.bind(DeclaredShape.of("*B"), (7, 9))
    assert not Sizes({}).bind(DeclaredShape.of("R+1"), (0,))
    assert not Sizes({}).bind(DeclaredShape.of("2*P"), (3,))
    assert sizes.expected(DeclaredShape.of("R K")) == "3 × K"
    assert sizes.shape(DeclaredShape.of("*B R*P 1")) == (7, 8, 9, 1)


@pytest.mark.parametrize("library_", ["torch", "numpy"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_histograms_of_any_width(dtype, library_):
    """A width beyond the largest number of the dtype is one too."""
    most = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).max
    side = most * 0.99 if dtype != torch.float16 else 6e4
    x = torch.tensor([-0.9, -0.4, 0.4, 0.9, 0.1], dtype=torch.float64).mul(side).to(dtype)
    x = x if library_ == "torch" else x.numpy()
    bound = most if dtype != torch.float16 else 6.5e4
    assert library.histogram(x, 4, -bound, bound).tolist() == [1, 1, 2, 1]


@pytest.mark.parametrize("bounds", [(1.0, 1.0 + 1e-12), (0.0, 1e39), (-float("inf"), 0.0), (1.0, 0.0)])
def test_histograms_between_bounds_that_are_one_number_are_refused(bounds):
    """In the dtype of computation: there would be no bin to count in, and 0 / 0 no place in memory."""
    with pytest.raises(vk.ArgumentError, match="low is"):
        library.histogram(torch.ones(8), 4, *bounds)


def test_bool_is_added_up():
    x = torch.rand(5, 7, generator=torch.Generator().manual_seed(fresh_seed())) < 0.5
    for _ in range(2):
        assert torch.equal(library.sum(x, 1), x.sum(1))
        assert torch.equal(library.sum(x.t()), x.sum())
    assert np.array_equal(library.sum(x.numpy(), 0), x.numpy().sum(0))


@pytest.mark.parametrize("numbers", [{"betas": (1.0, 0.9)}, {"betas": (0.9, 1.5)}, {"betas": (-0.1, 0.9)}, {"step": 0}])
def test_a_step_that_would_divide_by_zero_is_refused(numbers):
    x = [torch.ones(4) for _ in range(4)]
    with pytest.raises(vk.ArgumentError, match=r"adamw: (betas|step) is"):
        library.adamw(*x, **{"step": 1, **numbers})


def test_the_last_step_is_right():
    """Far beyond where powers of the betas vanish."""
    states = [torch.ones(4) for _ in range(4)]
    library.adamw(*states, step=(1 << 63) - 1)
    assert torch.isfinite(states[0]).all()


def test_states_that_share_memory_are_refused():
    x, state = torch.ones(4), torch.ones(8)
    for mean, square in ((state[:4], state[:4]), (state[:4], state[2:6]), (x, state[:4])):
        for _ in range(2):
            with pytest.raises(vk.ArgumentError, match="shares memory with"):
                library.adamw(x, torch.ones(4), mean, square, 1)
    for _ in range(2):
        library.adamw(x, torch.ones(4), state[:4], state[4:], 1)
    with pytest.raises(vk.ArgumentError, match="shares memory with"):
        library.adamw(x, torch.ones(4), state[:4], state[3:7], 1)


@pytest.mark.parametrize("keep", [0, 20])
def test_kernels_see_storage_that_became_smaller(keep):
    """Of a call that is remembered, with another tensor of the same key; a view in the middle of a storage too."""
    for _ in range(2):
        x, out = torch.ones(3, 4), torch.empty(3, 4)
        softmax_rows(x, out)
        x.untyped_storage().resize_(keep)
        with pytest.raises(vk.ArgumentError, match="softmax_rows: argument `x`: expected memory for 48 bytes"):
            softmax_rows(x, out)
    view = torch.ones(9, 4)[6:]
    softmax_rows(view, out)
    view.untyped_storage().resize_(9 * 16 - 4)
    with pytest.raises(vk.ArgumentError, match="expected memory for 48 bytes, got storage that holds 44"):
        softmax_rows(view, out)


def test_kernels_refuse_what_only_looks_like_a_remembered_argument():
    x, out = np.ones((3, 4), np.float32), np.empty((3, 4), np.float32)
    softmax_rows(x, out)
    with pytest.raises(vk.ArgumentError, match="MaskedArray"):
        softmax_rows(np.ma.masked_array(x, mask=True), out)
    x, out = torch.ones(3, 4), torch.empty(3, 4)
    softmax_rows(x, out)
    for other in (torch._efficientzerotensor((3, 4)), torch._to_functional_tensor(x)):
        with pytest.raises(vk.ArgumentError, match="expected a dense tensor"):
            softmax_rows(other, out)

    def wrapped(row):
        with pytest.raises(vk.ArgumentError, match=r"torch\.func"):
            softmax_rows(row, out)
        return row * 1

    torch.vmap(wrapped)(torch.ones(2, 3, 4))


def test_replays_see_storage_that_became_smaller():
    ran = []

    @replayed
    def softmax(x):
        ran.append(1)
        return library.softmax(x)

    for _ in range(2):
        softmax(torch.ones(3, 4))
    assert len(ran) == 1
    x = torch.ones(9, 4)[3:6]
    x.untyped_storage().resize_(6 * 16 - 4)
    with pytest.raises(vk.ArgumentError, match="expected memory for 48 bytes, got storage that holds 44"):
        softmax(x)


@pytest.mark.slow
def test_indices_of_few_bits_are_what_they_are_of_many():
    """What kernels add to them does not fit into their dtype, nor need `ignored`."""
    choose = torch.Generator().manual_seed(fresh_seed())
    value, start = torch.randn(127, generator=choose), torch.tensor([0, 0, 127, 127])
    scores, target = torch.randn(2, 60, generator=choose), torch.tensor([44, 3])
    for dtype in (torch.int8, torch.int16, torch.int32):
        assert torch.equal(library.segment_sum(value, start.to(dtype)), library.segment_sum(value, start))
        losses = [library.cross_entropy(scores, each, 300, reduction="none") for each in (target.to(dtype), target)]
        assert torch.equal(*losses)


@pytest.mark.parametrize("library_", ["torch", "numpy"])
def test_starts_whose_differences_overflow_are_refused(library_):
    """9223372036854775807 to -2 is a rise of 9223372036854775807, as int64 subtracts."""
    start = torch.tensor([0, (1 << 63) - 1, -2, 4])
    value, rows, column = torch.ones(4), torch.ones(4, 3), torch.tensor([0, 1, 2, 3])
    if library_ == "numpy":
        start, value, rows, column = (each.numpy() for each in (start, value, rows, column))
    for call in (
        lambda: library.segment_sum(value, start),
        lambda: library.segment_sum(rows, start),
        lambda: library.csr_matmul(start, column, value, rows),
        lambda: library.embedding_bag(rows, column, start),
    ):
        for _ in range(2):
            with pytest.raises(vk.ArgumentError, match="start falls"):
                call()


def test_counts_beyond_what_float32_holds():
    from vkernels.library.selection import EXACT, select_largest

    count = EXACT + 9
    x, value = torch.zeros(1, count + 90), torch.full((1, count), float("nan"))
    index = torch.full((1, count), -1)
    select_largest(x, value, index, x.shape[1] > EXACT)
    assert torch.equal(index[0], torch.arange(count))


@pytest.mark.parametrize("library_", ["torch", "numpy"])
@pytest.mark.parametrize("size", [1 << 40, 1 << 62, (1 << 63) - 1])
def test_results_beyond_any_memory_are_refused(size, library_):
    x, image, weight = torch.ones(4), torch.ones(1, 1, 4, 4), torch.ones(1, 1, 3, 3)
    if library_ == "numpy":
        x, image, weight = x.numpy(), image.numpy(), weight.numpy()
    for call in (lambda: library.histogram(x, size, 0.0, 1.0), lambda: library.conv2d(image, weight, padding=size)):
        with pytest.raises(vk.Error):
            call()


@pytest.mark.slow
def test_dtypes_that_kernels_do_not_compute_together_are_refused_by_name():
    """Not by the kernel's author's line, which is ours."""
    grad = torch.randn(1, 1, 4, 8, dtype=torch.float16)
    out, normaliser = attention_forward(grad, grad, grad)
    with pytest.raises(vk.ArgumentError, match=r"^attention_backward: .*normaliser has bfloat16"):
        attention_backward(grad, grad, grad, grad, out, normaliser.bfloat16())
    weight, image = torch.randn(2, 3, 3, 3, dtype=torch.float64), torch.randn(1, 3, 8, 8)
    with pytest.raises(vk.ArgumentError, match=r"^conv2d: .*image has float32"):
        library.conv2d(image, weight)
