"""Where bundles come from: what is built here and now, and by which versions."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from .manifest import Provenance

_COMPILERS = ("llvmlite", "triton", "xdsl", "numpy")


def provenance_now(command: str) -> Provenance:
    """What is built here and now, by this command."""
    found = {package: _version_of(package) for package in _COMPILERS}
    versions = {package: each for package, each in found.items() if each is not None}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    own = _version_of("vkernels") or "0+unknown"  # a checkout on the path
    return Provenance(own, now, command, sys.version.split()[0], versions)


def _version_of(package: str) -> str | None:
    """The version of an installed package."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
