"""Where bundles come from: what is built here and now, and by which versions."""

from __future__ import annotations

import sys
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from vkernels.ir.own_version import own_version

from .manifest import Provenance

_COMPILERS = ("llvmlite", "triton", "xdsl", "numpy")


def provenance_now(command: str) -> Provenance:
    """What is built here and now, by this command."""
    versions = {}
    for package in _COMPILERS:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Provenance(own_version(), now, command, sys.version.split()[0], versions)
