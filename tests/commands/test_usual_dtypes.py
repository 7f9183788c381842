"""Checking, explaining, tuning and compiling ahead take the same dtypes where nobody says them."""

from __future__ import annotations

import pytest

from vkernels.autotune.task import kernel_of
from vkernels.autotune.usual import Wanted, usual_tasks
from vkernels.commands.check.cases import JitOptions, cases_for
from vkernels.commands.check.specialising import wanted_from
from vkernels.language.signature import with_dtype
from vkernels.library.catalogue import CATALOGUE
from vkernels.runtime.checking.asking import preparing_pool

MINE = """
import vkernels as vk
from jaxtyping import Bool, Float, Int, Int32, Shaped

@vk.kernel
def take(x: Float[vk.Tensor, "N"], index: Int[vk.Tensor, "N"], small: Int32[vk.Tensor, "N"],
         keep: Bool[vk.Tensor, "N"], out: Shaped[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = vk.where(keep[i], x[index[i]] + small[i], 0.0)
"""


@pytest.mark.parametrize("dtype", [None, "float32", "bfloat16"])
@pytest.mark.parametrize("name", sorted({entry.name for entry in CATALOGUE}))
def test_of_the_librarys_kernels(name, dtype):
    entries = [entry for entry in CATALOGUE if entry.name == name]
    if dtype is not None and not any(dtype in entry.dtypes and "float" in entry.dtype for entry in entries):
        pytest.skip(f"{name} cannot be {dtype}")
    with preparing_pool(1) as pool:
        cases = cases_for([name], wanted_from(dtype, None, None), JitOptions(), pool)
    checked = {case.source.name: case.dtypes for case in cases}
    tuned = {task.kernel: task.dtypes for task in usual_tasks([name], Wanted(dtype=dtype), on_gpu=True)}
    assert {kernel: checked[kernel] for kernel in tuned} == tuned


@pytest.mark.parametrize("dtype", [None, "float64"])
def test_of_a_users_kernel(tmp_path, dtype):
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    wanted = wanted_from(dtype, "N=64", None)
    with preparing_pool(1) as pool:
        (case,) = cases_for([f"{path}:take"], wanted, JitOptions(), pool)
    (task,) = usual_tasks([f"{path}:take"], Wanted({"N": 64}, dtype))
    floats = dtype or "float32"
    expected = {"x": floats, "index": "int64", "small": "int32", "keep": "bool", "out": floats}
    assert dict(case.dtypes) == dict(task.dtypes) == with_dtype(kernel_of(task), dtype, {}) == expected
