"""Compiling again and again does not pile up memory."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
    import gc
    from vkernels.compiler.backends.triton_adapter import mlir_to_llvm_ir

    body = "\\n".join(f"%{n + 1} = arith.addi %{n}, %{n} : i64" for n in range(1, 2000))
    text = f"module {{ llvm.func @f(%1: i64) -> i64 {{ {body}\\n llvm.return %2000 : i64 }} }}"

    def resident_kib():
        gc.collect()
        with open("/proc/self/statm") as file:
            return 4 * int(file.read().split()[1])

    for _ in range(5):
        mlir_to_llvm_ir(text)
    before = resident_kib()
    for _ in range(40):
        mlir_to_llvm_ir(text)
    print(resident_kib() - before)
"""


@pytest.mark.slow
def test_mlir_modules_are_freed_after_use():
    run = [sys.executable, "-c", textwrap.dedent(PROGRAM)]
    grown = int(subprocess.run(run, capture_output=True, text=True, timeout=120, check=True).stdout)
    assert grown < 4096, f"{grown} KiB stayed of 40 modules of some 300 KiB each"
