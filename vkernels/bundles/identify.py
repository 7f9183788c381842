"""Find the record of a kernel in a bundle: by its name, and the text of its function."""

from __future__ import annotations

import hashlib
import inspect

from vkernels.compiler.protocols import KernelLike
from vkernels.ir.errors import NotInBundleError

from .manifest import Kernel, Manifest


def source_hash(kernel: KernelLike) -> str:
    """SHA-256 of the text of a kernel's function; of no text where Python has none."""
    try:
        text = inspect.getsource(getattr(kernel, "function", type(kernel)))
    except (OSError, TypeError):
        text = ""
    return hashlib.sha256(text.encode()).hexdigest()


def reference_of(kernel: KernelLike) -> str:
    """MODULE:NAME of a kernel's function."""
    function = getattr(kernel, "function", None)
    return f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', kernel.name)}"


def record_of(manifest: Manifest, kernel: KernelLike, where: str) -> Kernel:
    """The record of a kernel. Raises `NotInBundleError` where there is none, or the kernel's text has changed."""
    named = [
        each for each in manifest.kernels if each.reference.rpartition(":")[2] == reference_of(kernel).partition(":")[2]
    ]
    if not named:
        there = ", ".join(each.name for each in manifest.kernels) or "none"
        raise NotInBundleError(f"{where} has no kernel {kernel.name}; it has {there}")
    source = source_hash(kernel)
    found = [each for each in named if each.source == source]
    if not found:
        raise NotInBundleError(f"{kernel.name}: its text has changed since {where} was built: build the bundle again")
    return next((each for each in found if each.reference == reference_of(kernel)), found[0])
