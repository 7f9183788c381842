"""Run mapped IR as native code, in memory whose edges are watched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tests.ir.lowering.llvm.running import Call
from vkernels.compiler.backends.llvm import compile_cpu, host_scales
from vkernels.ir.transforms.block_sums import block_sums
from vkernels.ir.transforms.expand_math import expand_math
from vkernels.ir.transforms.fill_tails import fill_tails
from vkernels.ir.transforms.prefetch_rows import prefetch_rows
from vkernels.ir.transforms.version_chunks import version_chunks
from vkernels.ir.transforms.version_loops import version_loops
from vkernels.ir.transforms.version_selects import version_selects


def run_native(mapped: ModuleOp, arguments: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
    """Compile a module's kernel, whose sums and maths are expanded in place, and run it on arguments, in place too."""
    before = {name: _around(value) for name, value in arguments.items()}
    fill_tails(mapped)
    block_sums(mapped)
    version_loops(mapped)
    version_selects(mapped)
    version_chunks(mapped)
    prefetch_rows(mapped)
    expand_math(mapped, scales=host_scales())
    Call(compile_cpu(mapped), list(arguments.values()), dict(sizes)).run()
    for name, value in arguments.items():
        if _around(value) != before[name]:
            raise AssertionError(f"{name}: memory beside the tensor has been written")


def _around(value: Any) -> bytes:
    """What lies between and beside a strided array's elements."""
    base = value.base if isinstance(value, np.ndarray) else None
    if not isinstance(base, np.ndarray):
        return b""
    watched = base.copy("K")
    start = value.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    np.ndarray(value.shape, value.dtype, watched, start, value.strides)[...] = 0
    return watched.tobytes()
