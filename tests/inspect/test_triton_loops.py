"""A plain Triton kernel's loops are read for a device that is not here."""

from __future__ import annotations

import pytest

from tests.inspect.jit_matmul import matmul
from vkernels.compiler.workers.compile_pool import CompilePool
from vkernels.inspect.triton_loops import loops_of_triton
from vkernels.ir.planning.resources import OutOfResources

TYPES = {"a": "*fp16", "b": "*fp16", "c": "*fp16", "N": "i32", "K": "i32"}
SIDES = {"BM": 128, "BN": 128, "BK": 32}


@pytest.mark.slow
def test_a_plain_kernels_loop_and_its_bound() -> None:
    with CompilePool(1) as pool:
        found = loops_of_triton(
            matmul, TYPES, SIDES, "a100-sxm4-80", grid=(32, 16), arguments={"N": 2048, "K": 4096},
            divisible=tuple(TYPES), warps=4, stages=3, pool=pool,
        )  # fmt: skip
        (loop,) = found.loops
        assert loop.trips == 4096 / 32
        assert sum(each.multiply_adds(4) for each in loop.use.tensor) == 128 * 128 * 32
        assert "64 HMMA 16x8x16" in loop.text
        assert found.bound is not None
        assert 0.1 < found.bound.tensor_seconds / found.bound.seconds <= 1
        unknown = loops_of_triton(matmul, TYPES, SIDES, "a100-sxm4-80", warps=4, stages=3, pool=pool)
        assert unknown.bound is None
        assert all(each.trips is None for each in unknown.loops)
        with pytest.raises(OutOfResources, match="shared memory"):
            loops_of_triton(matmul, TYPES, {**SIDES, "BK": 256}, "rtx3090", warps=4, stages=4, pool=pool)
