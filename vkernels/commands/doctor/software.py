"""Installed packages, and the tools that come with Triton."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from vkernels.ir.errors import SetupError
from vkernels.ir.optional_packages import COMPILERS

from .finding import Finding, Status

AREA = "software"
PACKAGES = {
    "vkernels": "", "numpy": "arrays", "xdsl": "every kernel", "llvmlite": "kernels on CPUs", "triton": "every kernel",
}  # fmt: skip
"""By name, what does not work without them."""
OPTIONAL = {
    "torch": "torch tensors, and GPUs", "scikit-learn": "`vk tune`", "scipy": "`vk tune` and sparse networks",
    "sqlalchemy": "writing tuned plans", "plotly": "HTML reports", "jinja2": "HTML reports",
}  # fmt: skip
"""Packages that an installation may lack; by name, what does not work without them."""
TOOLS = {"ptxas": "code for NVIDIA GPUs", "nvdisasm": "reading loops of NVIDIA binaries"}


def software() -> Iterator[Finding]:
    yield Finding(AREA, "python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    runs_bundles_only = not any(map(find_spec, COMPILERS))
    for name, purpose in PACKAGES.items():
        if name in COMPILERS and runs_bundles_only:
            yield Finding(AREA, name, "is not installed: kernels run from bundles only")
        else:
            yield _package(name, purpose, Status.PROBLEM)
    for name, purpose in OPTIONAL.items():
        yield _package(name, purpose, Status.NOTE)
    if find_spec("triton") is not None:
        yield _triton()
        for tool, purpose in TOOLS.items():
            yield _tool(tool, purpose)


def _package(name: str, purpose: str, missing: Status) -> Finding:
    try:
        return Finding(AREA, name, version(name))
    except PackageNotFoundError:
        advice = f"for {purpose}: pip install {name}"
        return Finding(AREA, name, "is not installed", missing, advice)


def _triton() -> Finding:
    from vkernels.compiler.backends.architectures import known

    found = version("triton")
    try:
        known(found)
    except SetupError as error:
        return Finding(AREA, "triton's version", found, Status.PROBLEM, str(error))
    return Finding(AREA, "triton's version", "one that vkernels is tested with")


def _tool(tool: str, purpose: str) -> Finding:
    if tool_path(tool) is not None:
        return Finding(AREA, tool, "named by the environment" if _named(tool) else "Triton's own")
    return Finding(AREA, tool, "is missing", Status.NOTE, f"{purpose}: install Triton's wheel again")


def tool_path(tool: str) -> Path | None:
    """A tool of Triton's own, or the one that its environment variable names; None where it is missing."""
    named, spec = _named(tool), find_spec("triton")
    places = [Path(named)] if named else []
    if spec is not None and spec.origin is not None:
        places.append(Path(spec.origin).parent / "backends" / "nvidia" / "bin" / tool)
    return next((place for place in places if os.access(place, os.X_OK)), None)


def _named(tool: str) -> str:
    return os.environ.get(f"TRITON_{tool.upper()}_PATH", "")
