"""Kernels of the library explained once for all tests here, on the targets that the tests name."""

from __future__ import annotations

import pytest

from vkernels.commands.options import target_named
from vkernels.compiler.workers.compile_pool import CompilePool
from vkernels.inspect.check.check import CheckTools, triton_version
from vkernels.inspect.explain.explain import explain
from vkernels.inspect.resolve import resolve_case
from vkernels.inspect.specialisation import parse_specialisation
from vkernels.inspect.worker_client import InspectPool
from vkernels.library.catalogue import CATALOGUE

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
    with InspectPool(1, 120) as preparing, CompilePool(2, 120) as compiling:
        tools = CheckTools(preparing, compiling, None, triton_version())

        def explained(kernel, target, only_stage=""):
            key = kernel, target, only_stage
            if key not in FOUND:
                request = parse_specialisation(None, (SHAPES | LAID_OUT)[kernel], None)
                case, _ = resolve_case(kernel, request, CATALOGUE, preparing)
                FOUND[key] = explain(case, target_named(target, None, None), tools, only_stage)
            return FOUND[key]

        yield explained
