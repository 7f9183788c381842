"""Coming from Triton: both columns are right, Triton's compile, and the page shows them and counts their lines."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from vkernels.compiler.backends.resources import read_resources
from vkernels.compiler.backends.triton_adapter import compile_ttir
from vkernels.compiler.backends.triton_kernels import Configuration, jit_parameters, jit_ttir

from ..language.test_docs import between
from ..library.reference import fresh_seed
from .beside_triton import compare

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "coming-from-triton.md"
lines = importlib.import_module("lines")  # beside_triton knows where

BLOCKS = {
    "add_kernel": {"BLOCK": 1024},
    "softmax_kernel": {"BLOCK": 4096},
    "layer_norm_kernel": {"BLOCK": 4096},
    "matmul_kernel": {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32},
    "attention_kernel": {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_D": 64, "BLOCK_E": 64},
}


@pytest.mark.slow
def test_the_kernels_here_are_right():
    compare(importlib.import_module("lines_vkernels"), fresh_seed())


@pytest.mark.thorough
def test_the_kernels_in_triton_are_right():
    command = [sys.executable, "-m", "tests.docs.beside_triton", str(fresh_seed())]
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("architecture", ["sm_90", "gfx942"])
@pytest.mark.parametrize("name", BLOCKS)
def test_the_kernels_in_triton_compile(name, architecture):
    kernel = getattr(importlib.import_module("lines_triton"), name)
    types = {p.name: _type(p.name) for p in jit_parameters(kernel) if not p.constant}
    text, options = jit_ttir(kernel, types, BLOCKS[name], (), Configuration({}, warps=8), architecture)
    assert read_resources(compile_ttir(text, architecture, options)).registers > 0


def _type(name: str) -> str:
    return "*fp16" if name.endswith("_ptr") else "fp32" if name in ("eps", "scale") else "i32"


def test_kernels_take_less_than_half_of_the_lines():
    assert {each.name: each.share for each in lines.counts() if each.share >= 0.5} == {}


def test_lines_without_code_do_not_count():
    docstring, comment, string = '"""One\n\nand three."""', "\n# comment\n", '    b = """\n\n"""\n'
    text = f"{docstring}\n{comment}\ndef f(\n    a,  # comment\n):\n    {docstring}\n\n{string}"
    assert lines.lines_of_code(text) == 3 + 3
    assert lines.lines_of_code("") == 0


def test_the_page_shows_these_kernels_and_counts_these_lines(golden):
    golden(PAGE, between(PAGE, "lines", lines.table()))
    ours, theirs = (lines.functions(ROOT / "benchmarks" / f"lines_{name}.py") for name in ("vkernels", "triton"))
    for name in lines.TITLES:
        golden(PAGE, between(PAGE, f"{name} here", f"```python\n{ours[name]}```"))
        both = f"{theirs[f'{name}_kernel']}\n\n{theirs[name]}"
        golden(PAGE, between(PAGE, f"{name} in Triton", f"```python\n{both}```"))


def test_the_page_names_only_what_there_is():
    import triton.language as tl

    import vkernels as vk

    table = PAGE.read_text().partition("## What becomes of what")[2].partition("\n## ")[0]
    missing = [name for name in re.findall(r"`vk\.(\w+)", table) if not hasattr(vk, name)]
    missing += [name for name in re.findall(r"`tl\.(\w+)", table) if not hasattr(tl, name)]
    assert missing == []
