"""Checking, explaining, tuning and compiling ahead take the same dtypes where nobody says them."""

from __future__ import annotations

import pytest

from vkernels.inspect.resolve import JitOptions, resolve_cases, resolve_tasks
from vkernels.inspect.specialisation import SpecialisationRequest, parse_specialisation
from vkernels.inspect.task import kernel_of
from vkernels.inspect.worker_client import InspectPool
from vkernels.language.declaration import with_dtype
from vkernels.library.catalogue import CATALOGUE
from vkernels.library.tasks import library_tasks

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
    if dtype is not None and not any(dtype in entry.dtypes for entry in entries):
        pytest.skip(f"{name} cannot be {dtype}")
    with InspectPool(1) as pool:
        cases = resolve_cases([name], parse_specialisation(dtype, None, None), JitOptions(), CATALOGUE, pool)
    checked = {case.source.name: case.dtypes for case in cases}
    tuned = {task.name: task.dtypes for task in library_tasks([name], SpecialisationRequest(dtype=dtype), on_gpu=True)}
    assert {kernel: checked[kernel] for kernel in tuned} == tuned


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: f"{entry.family}-{entry.name}")
def test_a_kernel_can_be_each_dtype_of_its_entry(entry):
    for dtype in entry.dtypes:
        wanted = SpecialisationRequest(dtype=dtype)
        tasks = resolve_tasks([entry.name], wanted, [entry], on_gpu=True)
        assert dtype in tasks[0].dtypes.values()


@pytest.mark.parametrize("dtype", [None, "float64"])
def test_of_a_users_kernel(tmp_path, dtype):
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    wanted = parse_specialisation(dtype, "N=64", None)
    with InspectPool(1) as pool:
        (case,) = resolve_cases([f"{path}:take"], wanted, JitOptions(), CATALOGUE, pool)
    (task,) = library_tasks([f"{path}:take"], SpecialisationRequest(dtype, shape={"N": 64}))
    floats = dtype or "float32"
    expected = {"x": floats, "index": "int64", "small": "int32", "keep": "bool", "out": floats}
    assert dict(case.dtypes) == dict(task.dtypes) == with_dtype(kernel_of(task), dtype, {}) == expected
