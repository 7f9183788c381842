"""What GPU code assumes of addresses, strides and sizes: loads are wide and offsets narrow where they may be."""

from __future__ import annotations

import numpy as np
import pytest

from vkernels.compiler.arguments import ArrayView
from vkernels.compiler.array_layout import is_aligned, is_large, seen_strides
from vkernels.compiler.specialise import facts_for
from vkernels.ir.facts import Facts
from vkernels.ir.plan import Plan

from .test_specialise import KERNEL


def view(shape: tuple[int, ...], strides: tuple[int, ...], address: int = 1 << 20, itemsize: int = 4) -> ArrayView:
    return ArrayView("float32", itemsize, shape, strides, address, True, "cuda:0")


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (view((5, 32), (32, 1)), True),
        (view((5, 32), (32, 1), address=(1 << 20) + 8), False),
        (view((5, 36), (36, 1)), True),  # rows of 144 bytes
        (view((5, 36), (36, 1), itemsize=2), False),
        (view((5, 32), (33, 1)), False),
        (view((1, 33), (33, 1)), True),  # nobody sees the stride of a dimension of one element
        (view((5, 33), (0, 1)), True),
        (view((5, 32), (1, 160)), True),
        (view((5, 32), (2, 160)), False),
        (view((5, 32), (-32, 1)), False),  # no descriptor goes backwards
        (view((0, 33), (33, 1)), True),
        (view((), ()), True),
    ],
)
def test_aligned_tensors(tensor: ArrayView, expected: bool) -> None:
    assert is_aligned(tensor) == expected


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (view((1 << 16, 1 << 15), (1 << 15, 1)), False),  # the last is 2^31 - 1 elements from the first
        (view(((1 << 16) + 1, 1 << 15), (1 << 15, 1)), True),
        (view((2, 2), (1 << 31, 1)), True),
        (view((2, 2), (-(1 << 31), 1)), True),
        (view((2, 1), ((1 << 31) - 1, 1)), False),
        (view((1, 1), (1 << 40, 1)), False),
        (view((0, 1 << 40), (1 << 40, 1)), False),
        (view((1 << 40, 4), (0, 1)), False),
        (view((3,), (1 << 30,), itemsize=8), True),
    ],
)
def test_large_tensors(tensor: ArrayView, expected: bool) -> None:
    assert is_large(tensor) == expected


def test_strides_that_nobody_sees_are_0() -> None:
    assert seen_strides(view((1, 5, 1), (7, 9, 1))) == (0, 9, 0)
    assert seen_strides(view((2, 0), (7, 1))) == (0, 0)


def facts(sizes: tuple[int, int], for_gpu: bool, **plan: dict[str, int]) -> Facts:
    tensors = {name: view(sizes, (sizes[1], 1)) for name in ("x", "out")}
    return facts_for(KERNEL, Plan(**plan), dict(zip("MN", sizes, strict=True)), tensors, for_gpu=for_gpu)


def test_gpus_are_told_what_cpus_are_not() -> None:
    plan = {"tiles": {"i": 4}, "chunks": {"j": 64}}
    on_cpu, on_gpu = (facts((12, 1040), for_gpu, **plan) for for_gpu in (False, True))
    assert (on_cpu.aligned, on_cpu.large, on_cpu.multiples) == ((), (), {"M": 4})
    assert (on_gpu.aligned, on_gpu.large, on_gpu.multiples) == (("x", "out"), (), {"M": 4, "N": 16})
    assert (on_gpu.strides, on_gpu.sizes, on_gpu.distinct) == (on_cpu.strides, on_cpu.sizes, on_cpu.distinct)
    assert facts((12, 1041), True, **plan).aligned == ()
    some = facts((12, 1036), True, **plan)  # rows of 4144 bytes: 16 divides these
    assert (some.aligned, some.multiples) == (("x", "out"), {"M": 4, "N": 4})
    assert facts((1 << 16, 1 << 16), True, **plan).large == ("x", "out")


def test_alignment_is_that_of_each_tensor() -> None:
    generator = np.random.default_rng()
    starts = generator.integers(0, 8, 2) * 4
    tensors = {
        name: view((4, 64), (64, 1), address=4096 + int(start))
        for name, start in zip(("x", "out"), starts, strict=True)
    }
    found = facts_for(KERNEL, Plan({"i": 4}, {"j": 32}), {"M": 4, "N": 64}, tensors, for_gpu=True)
    assert found.aligned == tuple(name for name, tensor in tensors.items() if tensor.address % 16 == 0), starts


def test_a_size_of_a_whole_chunk_is_at_least_that():
    """Code for a shorter axis must not rely on a loop that runs."""
    plan = {"tiles": {"i": 4}, "chunks": {"j": 64}}
    assert facts((12, 1040), True, **plan).least == facts((12, 64 + 16), True, **plan).least == {"N": 64}
    assert facts((12, 48), True, **plan).least == facts((12, 0), True, **plan).least == {}
    assert facts((12, 1040), False, **plan).least == {}
