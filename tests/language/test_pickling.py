"""Kernels and helpers cross processes by their names, and are themselves when copied."""

from __future__ import annotations

import copy
import multiprocessing
import pickle

import numpy as np
import pytest
from jaxtyping import Float

import vkernels as vk
from vkernels.language.kernel import Options
from vkernels.library.rows import softmax_rows


@vk.function
def twice(x):
    return x + x


@vk.kernel
def double(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = twice(x[i])


PINNED = vk.kernel(plan=vk.Plan({"i": 8}), deterministic=True)(double.function)


def test_kernels_and_helpers_are_pickled_by_name() -> None:
    for each in (double, twice, softmax_rows):
        assert pickle.loads(pickle.dumps(each)) is each
        assert len(pickle.dumps(each)) < 200


def test_copies_are_the_same() -> None:
    for each in (double, twice, PINNED):
        assert copy.copy(each) is each
        assert copy.deepcopy({"kernel": each})["kernel"] is each


def test_options_are_pickled_where_they_are_not_those_of_the_name() -> None:
    found = pickle.loads(pickle.dumps(PINNED))
    assert (found.function, found.options) == (double.function, PINNED.options)
    assert found.options == Options(plan=vk.Plan({"i": 8}), deterministic=True)
    x, out = np.arange(20, dtype=np.float32), np.zeros(20, np.float32)
    found(x, out)
    np.testing.assert_array_equal(out, 2 * x)


def test_what_has_no_name_in_a_module_says_so() -> None:
    @vk.kernel
    def inner(x: Float[vk.Tensor, "N"]):
        i = vk.tile("N")
        x[i] = 0.0

    with pytest.raises(pickle.PicklingError, match="inner is pickled by its name"):
        pickle.dumps(inner)


def run(kernel: vk.Kernel, x: np.ndarray) -> np.ndarray:
    out = np.zeros_like(x)
    kernel(x, out)
    return out


@pytest.mark.slow
def test_another_process_runs_them() -> None:
    x = np.random.default_rng(0).normal(size=30).astype(np.float32)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for kernel in (double, PINNED):
            found = pool.apply_async(run, (kernel, x)).get(120)
            np.testing.assert_array_equal(found, 2 * x)


def test_names_of_the_package_are_those_it_is_used_by() -> None:
    names = {name for name in dir(vk) if not name.startswith("__")}
    assert names == set(vk.__all__)
    assert vk.__version__
