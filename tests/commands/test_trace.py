"""`vk trace`: the script runs as by Python, and what it calls is in the trace."""

from __future__ import annotations

import json

import pytest

from vkernels.runtime import vendor_ranges

SCRIPT = """
import sys
import numpy as np
import vkernels as vk
from jaxtyping import Float
from beside import shape

@vk.kernel
def scale(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    out[i, j] = 2 * x[i, j]

assert __name__ == "__main__"
x = np.ones(shape)
scale(x, np.empty_like(x))
print(sys.argv[1:])
if "--raise" in sys.argv:
    raise ValueError("the script's own")
sys.exit(7 if "--seven" in sys.argv else 0)
"""


@pytest.fixture
def script(tmp_path):
    (tmp_path / "beside.py").write_text("shape = (3, 4)\n")
    (tmp_path / "script.py").write_text(SCRIPT)
    return tmp_path / "script.py"


def names_in(file):
    return [event["name"] for event in json.loads(file.read_text())["traceEvents"]]


@pytest.mark.parametrize(("option", "code"), [("--verbose", 0), ("--seven", 7), ("--raise", 1)])
def test_the_script_gets_its_arguments_and_gives_the_exit_code(run_vk, script, tmp_path, option, code):
    trace = tmp_path / "found.json"
    found, output, said = run_vk("trace", "-o", trace, script, "one", option, "-o", "its own")
    assert found == code
    assert output == f"{['one', option, '-o', 'its own']}\n"
    assert "1 kernel call in" in said
    assert str(trace) in said
    assert {"scale", "build", "compile", "run"} <= set(names_in(trace))
    if option == "--raise":
        assert "ValueError: the script's own" in said
        assert "runpy" not in said


def test_what_cannot_be_run_or_written_is_said_first(run_vk, script, tmp_path):
    code, _, said = run_vk("trace", tmp_path / "absent.py")
    assert code == 2
    assert "there is no script" in said
    code, output, _ = run_vk("trace", "-o", tmp_path / "no" / "folder.json", script)
    assert code == 2
    assert output == ""


@pytest.fixture
def without_a_gpu():
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is one")


def test_nvtx_needs_a_library(run_vk, script, tmp_path, monkeypatch, without_a_gpu):
    monkeypatch.setitem(vendor_ranges.FILES, "nvtx", ("libnone.so",))
    code, _, said = run_vk("trace", "--nvtx", "-o", tmp_path / "t.json", script)
    assert code == 3
    assert "NVTX ranges need torch with CUDA, or CUDA's library" in said


@pytest.mark.parametrize("kind", ["nvtx", "roctx"])
def test_calls_of_the_script_are_ranges(run_vk, script, tmp_path, monkeypatch, without_a_gpu, kind):
    said: list[str] = []
    monkeypatch.setattr(vendor_ranges, "_of_library", lambda kind: vendor_ranges.Marker(said.append, lambda: None))
    assert run_vk("trace", f"--{kind}", "-o", tmp_path / "t.json", script)[0] == 0
    assert said == ["scale"]
