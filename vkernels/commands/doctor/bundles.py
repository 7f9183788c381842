"""What a bundle has for this machine. No compiler is needed to tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from vkernels.bundles.bundle import open_bundle
from vkernels.bundles.manifest import Code
from vkernels.ir.errors import Error
from vkernels.targets.instruction_sets import lacking

from .finding import TUNED_PLANS, Finding, Status


def without_compilers(bundles: Sequence[Path]) -> Iterator[Finding]:
    """What there is where kernels only run from bundles: nothing is compiled there by a tuned plan."""
    yield Finding(TUNED_PLANS, "user", "not looked at: without compilers, kernels run by the plans of their bundle")
    for file in bundles:
        yield codes_of(file)[0]


def codes_of(file: Path) -> tuple[Finding, list[tuple[str, str, Code]]]:
    """What a bundle has for this machine: kernel, dtypes and code for named sizes."""
    what = f"bundle {file.name}"
    try:
        manifest = open_bundle(file, runs=False).manifest
    except Error as error:
        return Finding(TUNED_PLANS, what, "cannot be read", Status.PROBLEM, str(error)), []
    codes = [
        (kernel.name, " ".join(f"{name}={dtype}" for name, dtype in sorted(variant.tensors)), code)
        for kernel in manifest.kernels for variant in kernel.variants for code in variant.codes
        if code.role == "shape" and not code.same and (code.gpu is not None or not lacking(code.machine, code.features))
    ]  # fmt: skip
    on_gpus = sum(code.gpu is not None for *_, code in codes)
    found = f"{len(codes) - on_gpus} for this machine's CPU, {on_gpus or 'none'} for GPUs"
    return Finding(TUNED_PLANS, what, found), codes
