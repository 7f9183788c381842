"""The library runs everywhere: chosen plans compile, and their binaries fit, also where little or next to nothing is.

A sample of the portability matrix (docs/portability.md); the whole of it is `benchmarks/portability.py`'s.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from vkernels.compiler.workers.compile_pool import CompilePool
from vkernels.inspect.cases import KernelCase
from vkernels.inspect.check.cells import Cell
from vkernels.inspect.check.check import CheckTools, check, triton_version
from vkernels.inspect.worker_client import InspectPool
from vkernels.ir.occupancy import AmdSizes, NvidiaSizes
from vkernels.library.catalogue import CATALOGUE
from vkernels.targets import Target, target_named
from vkernels.targets.present import present_cpu
from vkernels.targets.slices import slice_of

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
GIB = 1 << 30
NAMES = tuple(dict.fromkeys(entry.name for entry in CATALOGUE))
SAMPLE = (
    "softmax_rows", "layer_norm_gradient", "matmul_bias", "mlp_rows", "attention_rows", "sum_segments",
    "csr_times_dense", "cumulative_sum_rows", "group_norm_gradient", "stencil_square", "spdnn", "convolve",
    "largest_in_turn", "blocks_times_dense",
)  # fmt: skip


@pytest.fixture(scope="module")
def matrix() -> Iterator[ModuleType]:
    """The kernels, sizes and targets of the benchmark."""
    sys.path.insert(0, str(BENCHMARKS))
    yield importlib.import_module("portability_cases")
    sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def tools() -> Iterator[CheckTools]:
    with InspectPool(2, 600) as preparing, CompilePool(2, 300) as compiling:
        yield CheckTools(preparing, compiling, None, triton_version())


def hostile(name: str, shared: int, threads: int, multiprocessors: int) -> Target:
    """A device that nobody built: of a known one's architecture, with next to no shared memory and few threads."""
    device = target_named(name)
    assert isinstance(device.sizes, NvidiaSizes | AmdSizes)
    few = {"block_shared": shared, "block_threads": threads}
    if isinstance(device.sizes, NvidiaSizes):
        few["block_shared_unasked"] = shared
    return replace(
        device, key=f"{name}-hostile", sizes=replace(device.sizes, **few), multiprocessors=multiprocessors,
        chiplets=1, memory=6 * GIB, level_2=1 << 20, cache=1 << 20,
    )  # fmt: skip


def small_gpus() -> list[Target]:
    """Small slices of both vendors' devices, and devices that nobody would build."""
    named = (("a100-sxm4-40", "1g.5gb"), ("h100-sxm5-80", "sms=8"), ("mi300x", "cpx/nps4"), ("rx7900xtx", "cus=8"))
    return [
        *(slice_of(target_named(device), spec) for device, spec in named),
        hostile("rtx5090", shared=1024, threads=64, multiprocessors=1),
        hostile("mi210", shared=1024, threads=64, multiprocessors=2),
    ]


def everywhere() -> list[Target]:
    """The same, and next to nothing of this machine's CPU."""
    return [*small_gpus(), slice_of(present_cpu(), "cores=1,l2=65536,registers=8")]


def misfits(cells: Sequence[Cell]) -> list[str]:
    """What does not fit, and why."""
    return [f"{cell.kernel} on {cell.target}: {cell.reason}" for cell in cells if not cell.fits]


def is_complete(cell: Cell) -> bool:
    """Whether all is told of a cell that was planned by the model."""
    plan = cell.planned
    assert plan is not None
    told = (plan.rung, plan.bottleneck, plan.modelled_seconds, plan.roofline_seconds, cell.tensor_bytes)
    return plan.origin == "chosen" and None not in told and cell.swap_bytes is not None


def case_of(matrix: ModuleType, name: str, dtype: str, size: str) -> KernelCase:
    (subject,) = (each for each in matrix.SUBJECTS if each.name == name)
    case: KernelCase = matrix.case_of(subject, dtype, size)
    return case


def test_every_kernel_of_the_library_is_in_the_matrix(matrix: ModuleType) -> None:
    assert sorted(subject.name for subject in matrix.SUBJECTS) == sorted(NAMES)


def test_every_kernel_of_the_matrix_has_all_its_sizes(matrix: ModuleType) -> None:
    for subject in matrix.SUBJECTS:
        for size in matrix.SIZES:
            case = matrix.case_of(subject, "float32", size)
            assert case.shape.items() <= getattr(subject, size).items(), subject.name


@pytest.mark.thorough
@pytest.mark.sample(1)
@pytest.mark.parametrize("number", range(len(SAMPLE)))
def test_absurd_sizes_fit_small_gpus(matrix: ModuleType, tools: CheckTools, number: int) -> None:
    targets = small_gpus()
    chosen = [targets[number % len(targets)], targets[(number + 3) % len(targets)]]
    case = case_of(matrix, SAMPLE[number], matrix.DTYPES[number % 2], "absurd")
    found = check([case], chosen, tools, lambda *step: None)
    assert not misfits(found.cells)
    assert all(map(is_complete, found.cells))


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("number", range(4, 7))
def test_small_sizes_fit_where_there_is_next_to_nothing(matrix: ModuleType, tools: CheckTools, number: int) -> None:
    numbers = range(number - 4, len(SAMPLE), 6)
    cases = [case_of(matrix, SAMPLE[n], matrix.DTYPES[n % 2], "small") for n in numbers]
    assert not misfits(check(cases, [everywhere()[number]], tools, lambda *step: None).cells)


def test_tensors_that_no_memory_holds_are_no_plans_fault(matrix: ModuleType, tools: CheckTools) -> None:
    tiny = replace(target_named("t4"), memory=1 << 20)
    case = case_of(matrix, "softmax_rows", "float32", "small")
    (cell,) = check([case], [tiny], tools, lambda *step: None).cells
    assert cell.fits is False
    assert cell.reason == f"tensors of {2 * 4 * 512 * 512} B and further 0 B exceed the memory of {1 << 20} B"
    assert cell.planned is not None
    assert cell.planned.tried == ()


@pytest.mark.thorough
@pytest.mark.parametrize("size", ["small", "large", "absurd"])
@pytest.mark.parametrize("name", NAMES)
def test_everything_fits_everywhere(matrix: ModuleType, tools: CheckTools, name: str, size: str) -> None:
    cases = [case_of(matrix, name, dtype, size) for dtype in matrix.DTYPES]
    assert not misfits(check(cases, everywhere(), tools, lambda *step: None).cells)
