"""Plain Triton kernels, written in three styles, as real binaries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vkernels.compiler.backends.resources import read_resources
from vkernels.compiler.backends.triton_adapter import compile_ttir
from vkernels.compiler.backends.triton_kernels import (
    Configuration,
    TritonSourceError,
    is_triton_kernel,
    jit_configurations,
    jit_parameters,
    jit_ttir,
)
from vkernels.inspect.cases import executed
from vkernels.ir.errors import ArgumentError

FILE = Path(__file__).parent / "data" / "triton_styles.py"
PLAIN = Configuration({})
MATRICES = {"a": "*fp16", "b": "*fp16", "out": "*fp16", "M": "i32", "N": "i32", "K": "i32"}
TILE = {"ROWS": 64, "COLUMNS": 64, "DEPTH": 32}


@pytest.fixture(scope="module")
def styles():
    return executed(str(FILE))


def compiled(kernel, types, constants, architecture, configuration=PLAIN):
    text, options = jit_ttir(kernel, types, constants, tuple(types), configuration, architecture)
    return read_resources(compile_ttir(text, architecture, options))


def test_pointer_arithmetic_is_compiled_with_wide_loads_where_addresses_allow(styles):
    types = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "count": "i32"}
    for architecture in ("sm_90", "gfx942"):
        assert compiled(styles.add, types, {"BLOCK": 1024}, architecture).mix.wide_loads > 0
        text, options = jit_ttir(styles.add, types, {"BLOCK": 1024}, (), PLAIN, architecture)
        assert read_resources(compile_ttir(text, architecture, options)).mix.wide_loads == 0


def test_block_pointers_are_compiled_where_triton_has_them(styles):
    import triton

    if tuple(map(int, triton.__version__.split(".")[:2])) < (3, 9):
        assert compiled(styles.multiply, MATRICES, TILE, "sm_90").mix.tensor_core > 0
    else:
        with pytest.raises(TritonSourceError, match=r"^line \d+: Block pointers have been removed"):
            compiled(styles.multiply, MATRICES, TILE, "sm_90")


@pytest.mark.slow
def test_descriptors_are_compiled_for_each_configuration(styles):
    small, large = jit_configurations(styles.multiply_tuned)
    assert (small.constants, small.warps, small.stages) == (TILE, 4, 2)
    assert (large.warps, large.stages) == (8, 3)
    one, other = (compiled(styles.multiply_tuned, MATRICES, {}, "sm_90", each) for each in (small, large))
    assert min(one.mix.tensor_core, other.mix.tensor_core) > 0
    assert one.dynamic_shared < other.dynamic_shared


def test_descriptors_may_be_passed(styles):
    types = {"x": "tensordesc<fp16[64,64]>", "out": "tensordesc<fp16[64,64]>"}
    text, options = jit_ttir(styles.halve, types, {"ROWS": 64, "COLUMNS": 64}, (), PLAIN, "gfx942")
    assert read_resources(compile_ttir(text, "gfx942", options)).registers > 0


def test_parameters_are_as_declared(styles):
    found = jit_parameters(styles.multiply_tuned)
    assert [p.name for p in found if p.constant] == ["ROWS", "COLUMNS", "DEPTH"]
    assert is_triton_kernel(styles.multiply_tuned)
    assert not any(is_triton_kernel(value) for value in (styles.triton, styles.CONSTANT, None, executed))


def test_a_configurations_options_are_kept(styles):
    settings = {"maxnreg": 64, "waves_per_eu": 2, "unheard_of": 1}
    configuration = Configuration(TILE, 8, 1, settings)
    _, nvidia = jit_ttir(styles.multiply_tuned, MATRICES, {}, (), configuration, "sm_90")
    _, amd = jit_ttir(styles.multiply_tuned, MATRICES, {}, (), configuration, "gfx942")
    assert (nvidia.warps, nvidia.stages) == (amd.warps, amd.stages) == (8, 1)
    assert json.loads(nvidia.settings).keys() == {"maxnreg", "enable_fp_fusion"}
    assert json.loads(amd.settings).keys() == {"waves_per_eu", "enable_fp_fusion"}


def test_registers_are_limited_as_a_configuration_says(styles):
    free, limited = (
        compiled(styles.multiply_tuned, MATRICES, {}, "sm_80", Configuration(TILE, 4, 2, {"maxnreg": most}))
        for most in (None, 64)
    )
    assert limited.registers <= 64 < free.registers


def test_heuristics_are_computed_from_constants(styles):
    types = {"out": "*fp32", "value": "fp32"}
    text, _ = jit_ttir(styles.fill, types, {"HALF": 64}, (), PLAIN, "sm_90")
    assert "tensor<128x" in text
    with pytest.raises(ArgumentError, match=r"no value for BLOCK: its heuristic .*HALF"):
        jit_ttir(styles.fill, types, {}, (), PLAIN, "sm_90")


def test_a_missing_constant_is_the_callers_mistake(styles):
    with pytest.raises(ArgumentError, match="no value for BLOCK: give it with --constants"):
        jit_ttir(styles.add, {"x": "*fp32", "y": "*fp32", "out": "*fp32", "count": "i32"}, {}, (), PLAIN, "sm_90")


def test_the_authors_mistake_is_told_with_its_line(styles):
    line = next(n for n, text in enumerate(FILE.read_text().split("\n"), 1) if "nothing" in text)
    with pytest.raises(TritonSourceError, match=f"^line {line}: .*nothing is not defined"):
        jit_ttir(styles.wrong, {"x": "*fp32"}, {"BLOCK": 64}, (), PLAIN, "sm_90")
