"""The one module that touches Triton's private interface. It refuses a Triton version that it does not know."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from vkernels.ir.errors import SetupError

from .spelling import respelled

KNOWN_VERSIONS = ("3.6", "3.7", "3.9")


@cache
def _libtriton() -> Any:
    """Triton's native library. Raises `SetupError` where Triton is missing or of an unknown version."""
    try:
        import triton
    except ImportError as error:
        raise SetupError("Triton is not installed; vkernels compiles with it: pip install triton") from error
    version = str(triton.__version__)
    if ".".join(version.split(".")[:2]) not in KNOWN_VERSIONS:
        known = ", ".join(f"{v}.x" for v in KNOWN_VERSIONS)
        raise SetupError(f"Triton {version} is not a version that vkernels knows; it knows {known}")
    from triton._C import libtriton

    libtriton.llvm.init_targets()
    return libtriton


def mlir_to_llvm_ir(text: str) -> str:
    """LLVM IR text of an MLIR module of scf, arith, cf and llvm.

    Text that MLIR refuses raises `RuntimeError`, since it was generated; MLIR prints its reasons to stderr.
    """
    triton = _libtriton()
    context = triton.ir.context()
    triton.ir.load_dialects(context)
    with _file_holding(text) as path:
        module = triton.ir.parse_mlir_module(path, context)
    module.context = context
    manager = triton.ir.pass_manager(context)
    convert = triton.passes.convert
    convert.add_scf_to_cf(manager)
    convert.add_arith_to_llvmir(manager)
    convert.add_cf_to_llvmir(manager)
    manager.run(module, "cpu")
    return respelled(str(triton.llvm.to_module(module, triton.llvm.context())))


@contextmanager
def _file_holding(text: str) -> Iterator[str]:
    """A path that holds some text for a while, in memory where the system can: Triton parses files only."""
    data = text.encode()
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        number = os.memfd_create("vkernels.mlir")
        try:
            _write_all(number, data)
            yield f"/proc/self/fd/{number}"
        finally:
            os.close(number)
    else:
        with tempfile.NamedTemporaryFile(suffix=".mlir") as file:
            file.write(data)
            file.flush()
            yield file.name


def _write_all(number: int, data: bytes) -> None:
    while data:
        data = data[os.write(number, data) :]
