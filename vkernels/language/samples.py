"""Typical arguments of a kernel, kept with it for checking, explaining, tuning and tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Sizes = Mapping[str, int]
Constants = Mapping[str, Any]
Numbers = Mapping[str, bool | int | float]
Arrays = Mapping[str, Any]


@dataclass(frozen=True)
class SampleInputs:
    """Sample inputs of one kernel, kept as its attribute `samples`.

    `sizes`: functions for sizes that follow from the other sizes and the constants. `gpu_constants`: constants of calls
    on GPUs, from the sizes. `numbers`: scalars by name. `arrays`: tensors that are not normal random numbers, from the
    sizes, the constants and a random generator; integers as int64 and floats as
    float64, for the caller to round. `layout`: for a tensor, the names of its sizes from the slowest to the fastest in
    memory, if that is not their order; repeated names and numbers are omitted if they keep their places. `cpu_sizes`:
    sizes for which a call on one or two CPU cores takes about a millisecond, without those in `sizes`.
    """

    sizes: Mapping[str, Callable[[Sizes, Constants], int]] = field(default_factory=dict)
    gpu_constants: Callable[[Sizes], Constants] | None = None
    numbers: Callable[[Sizes], Numbers] = lambda sizes: {}
    arrays: Callable[[Sizes, Constants, Any], Arrays] = lambda sizes, constants, random: {}
    layout: Mapping[str, str] = field(default_factory=dict)
    cpu_sizes: Sizes | None = None


@dataclass(frozen=True)
class CatalogueEntry:
    """A kernel in the catalogue, and its typical arguments.

    `family`: the function that launches it. `name`: its name in `module`. `shape`: sizes by name. `dtype`: the usual
    dtype of the tensors that support it; `dtypes`: all supported ones. `computed`: tensors of the dtype that kernels
    compute in: float32 if `dtype` has 16 bits.
    """

    family: str
    name: str
    module: str
    shape: Mapping[str, int]
    dtype: str
    computed: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ("float64", "float32", "float16", "bfloat16")
