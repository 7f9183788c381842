"""The gallery shows the library's kernels as they are, and plots of what was measured."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "gallery.md").read_text()


@pytest.fixture(scope="module")
def draw():
    spec = importlib.util.spec_from_file_location("gallery_draw", ROOT / "benchmarks" / "gallery_draw.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_kernels_are_those_of_the_library():
    source = "\n".join(path.read_text() for path in (ROOT / "vkernels" / "library").glob("*.py"))
    kernels = re.findall(r"^```python\n(@vk.kernel\n.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert len(kernels) == PAGE.count("@vk.kernel")
    assert [kernel for kernel in kernels if kernel not in source] == []


def test_code_of_the_page_runs():
    names: dict[str, object] = {"__name__": "gallery"}
    first, *_ = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    exec(first, names)
    used = set(re.findall(r"\b(Float|Int|Integer|activated)\b", PAGE))
    assert used <= names.keys()


def test_plots_show_what_was_measured(draw, golden):
    for name in draw.PLOTS:
        golden(ROOT / "docs" / "gallery" / f"{name}.svg", draw.drawing(name))
        assert f"gallery/{name}.svg" in PAGE
    figures = {bar.label: bar.beside_torch for bar in draw.bars(draw.PLOTS["matmul-gpu"])}
    assert figures["matmul bf16 8192³"] == 0.96
