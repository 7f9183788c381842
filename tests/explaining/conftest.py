"""Kernels of the library explained once for all tests here, on the targets that the tests name."""

from __future__ import annotations

import pytest

from vkernels.commands.check.specialising import wanted_from
from vkernels.commands.explain.subject import case_named, target_named
from vkernels.runtime.checking.check import triton_version
from vkernels.runtime.compile.workers import CompilePool
from vkernels.runtime.explaining.explain import Tools, explain
from vkernels.runtime.explaining.preparing import PREPARER

TARGETS = ("h100-sxm5-80", "mi300x", "t4", "cpu")
SHAPES = {
    "softmax": "M=64,N=70000",
    "layer_norm": "M=64,N=1024",
    "matmul": "M=512,N=512,K=512",
    "spdnn": "L=3,N=1024,K=32,I=600",
}
LAID_OUT = {"convolve": "B=2,G=1,C=16,O=32,H=20,W=20,R=3,S=3,Y=18,X=18"}
"""One whose tensors do not lie row after row."""

FOUND = {}
"""Kept for all modules that use the fixture."""


@pytest.fixture(scope="session")
def explained():
    """A function of a kernel's name and a target's: its explanation, found only once."""
    with CompilePool(1, 120, compiler=PREPARER) as preparing, CompilePool(2, 120) as compiling:
        tools = Tools(preparing, compiling, None, triton_version())

        def explained(kernel, target, only_stage=""):
            key = kernel, target, only_stage
            if key not in FOUND:
                case, _ = case_named(kernel, wanted_from(None, (SHAPES | LAID_OUT)[kernel], None), preparing)
                FOUND[key] = explain(case, target_named(target, None, None), tools, only_stage)
            return FOUND[key]

        yield explained
