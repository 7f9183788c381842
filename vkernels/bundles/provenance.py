"""Where bundles come from: what is built here and now, and by which versions."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

import vkernels

from .manifest import Provenance

_COMPILERS = ("llvmlite", "triton", "xdsl", "numpy")


def provenance_now(command: str) -> Provenance:
    """What is built here and now, by this command."""
    versions = {}
    for package in _COMPILERS:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Provenance(vkernels.__version__, now, command, sys.version.split()[0], versions)
