"""The version of this package."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def own_version() -> str:
    """As its installation says; `0+unknown` for a checkout that is only on the path."""
    try:
        return version("vkernels")
    except PackageNotFoundError:
        return "0+unknown"
