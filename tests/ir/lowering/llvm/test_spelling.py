"""Every spelling of a floating-point constant becomes the one that older LLVMs read."""

from __future__ import annotations

import pytest

from vkernels.compiler.backends.llvm_floats import respelled


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("splat (float f0x3FB8AA3B)", "splat (float 0x3FF7154760000000)"),
        ("double f0x3FF0000000000000", "double 0x3FF0000000000000"),
        ("half f0x3C00", "half 0xH3C00"),
        ("float -inf", "float 0xFFF0000000000000"),
        ("float 1.000000e-01", "float 0x3FB99999A0000000"),
        ("call float @f0x12.f(i32 3)", "call float @f0x12.f(i32 3)"),
    ],
)
def test_constants_are_respelled_and_names_are_not(given: str, expected: str) -> None:
    assert respelled(f"%1 = {given}") == f"%1 = {expected}"
