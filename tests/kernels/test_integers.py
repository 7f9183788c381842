"""Integers of every dtype, unsigned ones too, compute the same numbers interpreted, on the CPU and as on a GPU."""

from __future__ import annotations

import numpy as np
import pytest

import vkernels as vk

from .integers.generate import Case, make_case
from .on_a_gpu import AMD, NVIDIA, SMALL, on_a_gpu
from .reference import fresh_seed


def kernel_of(case: Case, folder) -> vk.Kernel:
    file = folder / "integers.py"
    file.write_text(case.text)
    names: dict[str, object] = {}
    exec(compile(case.text, file, "exec"), names)
    return names["integers"]


def check(case: Case, run, how: str) -> None:
    arguments = {name: array.copy() for name, array in case.arguments.items()}
    run(**arguments)
    for name, expected in case.expected.items():
        wrong = np.argwhere(arguments[name] != expected)
        if len(wrong):
            at = tuple(wrong[0])
            found = f"{name}{list(map(int, at))} is {arguments[name][at]}, expected {expected[at]}"
            pytest.fail(f"{how}: {found}\n{case.text}")


@pytest.mark.parametrize("number", range(12))
def test_random_kernels_of_integers(number, tmp_path):
    seed = fresh_seed()
    case = make_case(seed)
    kernel = kernel_of(case, tmp_path)
    check(case, kernel.interpret, "interpreted")
    check(case, kernel, "on the CPU")
    with on_a_gpu([NVIDIA, AMD, SMALL][number % 3], seed):
        check(case, kernel, "as on a GPU")
