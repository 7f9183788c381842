"""The hand-written Triton kernels that ours are compared with are right, in Triton's interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASES = ("matmul", "descriptors", "attention", "gradients", "rows", "convolution", "csr", "layers")


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES)
def test_a_hand_kernel_is_right(case: str) -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": f"{ROOT}:{ROOT / 'benchmarks'}"}
    command = [sys.executable, str(ROOT / "tests/benchmarks/run_hand_triton.py"), case]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
