"""The search among structural decisions: where it climbs from."""

from __future__ import annotations

import math

import pytest

from tests.ir.planning.kernels import KERNELS, build, kernel_of
from vkernels.compiler.protocols import Signature
from vkernels.ir.limits import Limits
from vkernels.ir.planning import find_families as search
from vkernels.ir.planning.space import read_space
from vkernels.library.attention_blocks import attention_blocks

SERVER = Limits(registers=32, register_bytes=64, shared=2 << 20, multiprocessors=2, cache=256 << 20)
SIZES = {"B": 1, "G": 8, "R": 1, "D": 64, "E": 64, "M": 512, "N": 512, "P": 8}
TURNED = (8 * 512 * 64, 512 * 64, 512 * 64, 1, 64)
"""Strides of a tensor whose fourth axis is the fastest."""
STRIDES = {"q": TURNED, "out": TURNED}
WRITTEN = Signature(
    (
        *((name, "float32") for name in ("q", "k", "v")), ("block", "int64"), ("out", "float32"),
        ("normaliser", "float32"),
    ),
    (("scale", "f64"), ("back", "i64"), ("ahead", "i64")),
    (("windowed", False), ("size", 64)),
)  # fmt: skip


def test_a_start_that_is_little_worse_is_climbed_from_however_much_the_first_one_won():
    space = read_space(kernel_of(attention_blocks.build(WRITTEN)), SIZES, SERVER, strides=STRIDES)
    every = search._Search(space, None)
    first, second, *_ = every.starts()
    climbed = every.climb(first)
    assert second.least <= search.CLOSE * first.least
    assert second.least > search.WORTH_CLIMBING * climbed.least
    found = min(family.least for family in search.find_families(space))
    assert found <= every.climb(second, climbed.least).least < math.inf
    assert found < climbed.least


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", KERNELS)
def test_one_of_the_starts_has_other_lanes_if_any_fitting_family_has(name: str) -> None:
    kernel, module = build(name)
    space = read_space(kernel_of(module), {**dict.fromkeys(kernel.sizes, 300), "D": 64, "E": 64}, SERVER)
    every = search._Search(space, None)
    lanes = {family.choices.lanes for family in every.starts()}
    found = {choices.lanes for choices, family in every.found.items() if family is not None and not choices.online}
    assert len(lanes) > 1 or found <= lanes
