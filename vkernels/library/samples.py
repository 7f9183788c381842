"""Describe a family's kernels: `entry` for the catalogue, and helpers for sample inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from vkernels.language.kernel import Kernel
from vkernels.language.samples import Arrays, CatalogueEntry, Constants, Numbers, SampleInputs, Sizes

__all__ = [
    "CPU_ROWS", "CPU_ROW_SEGMENTS", "EVERY_FLOAT", "LONG_ROWS", "ROW_SEGMENTS", "SHORT_ROWS", "ArraySampler", "Arrays",
    "CatalogueEntry", "Constants", "Numbers", "SampleInputs", "Sizes", "ceil_div", "coordinates", "entry", "indices",
    "numbers", "random_indices", "random_starts", "segments",
]  # fmt: skip

Array = np.ndarray[Any, Any]
ArraySampler = Callable[[Sizes, Constants, np.random.Generator], Arrays]

SHORT_ROWS, LONG_ROWS, CPU_ROWS = {"M": 4096, "N": 1024}, {"M": 512, "N": 32768}, {"M": 1024, "N": 1024}
ROW_SEGMENTS, CPU_ROW_SEGMENTS = {"M": 16, "S": 64, "L": 65536}, {"M": 4, "S": 16, "L": 65536}
EVERY_FLOAT = ("float64", "float32", "float16", "bfloat16")


def entry(
    family: str,
    kernel: Kernel,
    sizes: Sizes,
    cpu_sizes: Sizes,
    dtype: str = "float16",
    computed: tuple[str, ...] = (),
    dtypes: tuple[str, ...] | None = None,
    samples: SampleInputs | None = None,
) -> CatalogueEntry:
    """A kernel's entry in the catalogue; its sample inputs become its attribute `samples`.

    `family`: the function that launches the kernel. `sizes`: for a GPU; `cpu_sizes`: for which a call on a CPU core or
    two takes about a millisecond, without the sizes that `samples` derives. `dtype`: the usual one; `dtypes`: all that
    the kernel takes, by default every float for a kernel of floats, else what its tensors of dtype `dtype` accept.
    `computed`: tensors of the dtype that kernels compute in, float32 for 16-bit dtypes.
    """
    if dtypes is None:
        accepted = [p.dtypes for p in kernel.parameters if p.kind == "tensor" and dtype in p.dtypes]
        common = tuple(each for each in accepted[0] if all(each in others for others in accepted))
        dtypes = EVERY_FLOAT if dtype in EVERY_FLOAT else common
    kernel.samples = replace(samples or SampleInputs(), cpu_sizes=cpu_sizes)
    return CatalogueEntry(family, kernel.name, kernel.function.__module__, sizes, dtype, computed, dtypes)


def numbers(**values: bool | int | float) -> Callable[[Sizes], Numbers]:
    """Scalars that are independent of the sizes."""
    return lambda sizes: values


def ceil_div(size: int, parts: int) -> int:
    """The size of the largest of `parts` nearly equal parts."""
    return -(-size // max(1, parts))


def random_starts(rows: int, elements: int, random: np.random.Generator) -> Array:
    """Starts of rows of random lengths, and the end of the last."""
    lengths = random.multinomial(elements, np.full(max(1, rows), 1 / max(1, rows)))[:rows]
    starts: Array = np.cumsum([0, *lengths])
    return starts


def random_indices(limit: int, shape: int | tuple[int, ...], random: np.random.Generator) -> Array:
    """Random integers from 0 up to `limit`."""
    found: Array = random.integers(0, max(1, limit), shape)
    return found


def indices(name: str, limit: str, *shape: str) -> ArraySampler:
    """One tensor of random indices below a size."""
    return lambda sizes, constants, random: {
        name: random_indices(sizes[limit], tuple(sizes[each] for each in shape), random)
    }


def segments(**index: str) -> SampleInputs:
    """R segments with E elements in total, and random indices for each element, below the named sizes."""

    def arrays(sizes: Sizes, constants: Constants, random: np.random.Generator) -> Arrays:
        start = random_starts(sizes["R"], sizes["E"], random)
        return {
            "start": start,
            **{name: random_indices(sizes[limit], sizes["E"], random) for name, limit in index.items()},
        }

    return SampleInputs(sizes={"S": lambda sizes, constants: sizes["R"] + 1}, arrays=arrays)


def coordinates(columns: str | None = None) -> SampleInputs:
    """The row of each of E elements, in ascending order, and its column, below the named size."""

    def arrays(sizes: Sizes, constants: Constants, random: np.random.Generator) -> Arrays:
        row = np.sort(random_indices(sizes["R"], sizes["E"], random))
        return (
            {"row": row}
            if columns is None
            else {"row": row, "column": random_indices(sizes[columns], sizes["E"], random)}
        )

    return SampleInputs(arrays=arrays)
