"""The library's kernels by name, each with what it is typically called with: what `vk check` compiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A kernel and its typical arguments.

    `family`: the function that launches it. `name`: the kernel's, in `module`. `shape`: sizes by name. `dtype`: of its
    tensors that may have it, usually; `dtypes`: what that can be. `computed`: tensors of the dtype that kernels compute
    in, float32 where that has 16 bits.
    """

    family: str
    name: str
    module: str
    shape: Mapping[str, int]
    dtype: str
    computed: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ("float64", "float32", "float16", "bfloat16")


_ROWS, _LONG, _SPARSE = (f"vkernels.library.{module}" for module in ("rows", "long_rows", "sparse"))
_SHORT_ROWS, _LONG_ROWS = {"M": 4096, "N": 1024}, {"M": 512, "N": 32768}
_SEGMENTS = {"M": 16, "S": 64, "L": 65536}

_UP_TO_FLOAT32 = ("float32", "float16", "bfloat16")

CATALOGUE = (
    Entry("softmax", "softmax_rows", _ROWS, _SHORT_ROWS, "float16"),
    Entry("softmax", "softmax_rows", _ROWS, _LONG_ROWS, "float16"),
    Entry("softmax", "summarise_exponentials", _LONG, _SEGMENTS, "float16", computed=("peak", "total")),
    Entry("softmax", "normalise_exponentials", _LONG, _SEGMENTS, "float16", computed=("peak", "total")),
    Entry("layer_norm", "layer_norm_rows", _ROWS, _SHORT_ROWS, "float16"),
    Entry("layer_norm", "layer_norm_rows", _ROWS, _LONG_ROWS, "float16"),
    Entry("layer_norm", "summarise_moments", _LONG, _SEGMENTS, "float16", computed=("mean", "squares")),
    Entry("layer_norm", "normalise_moments", _LONG, _SEGMENTS, "float16", computed=("mean", "squares")),
    Entry("matmul", "matmul_bias", "vkernels.library.dense", {"M": 4096, "N": 4096, "K": 4096}, "float16"),
    Entry("spdnn", "spdnn", _SPARSE, {"L": 120, "N": 1024, "K": 32, "I": 60000}, "float32", dtypes=_UP_TO_FLOAT32),
    Entry("spdnn", "take_columns", _SPARSE, {"N": 1024, "P": 60000, "I": 30000}, "float32"),
)
"""Every kernel of the library."""


def entries_named(name: str) -> tuple[Entry, ...]:
    """Those of a kernel's name or a family's; none where there is no such name."""
    return tuple(entry for entry in CATALOGUE if name in (entry.name, entry.family))


def names() -> tuple[str, ...]:
    """Names of kernels and families."""
    return tuple(dict.fromkeys(name for entry in CATALOGUE for name in (entry.family, entry.name)))
