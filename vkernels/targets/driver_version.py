"""The versions of installed GPU drivers."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cache
from pathlib import Path

DRIVERS = {"nvidia": Path("/proc/driver/nvidia/version"), "amd": Path("/sys/module/amdgpu/version")}


@cache
def driver_version(vendor: str) -> str:
    """Version of the installed GPU driver; empty for a CPU, or if unknown."""
    with suppress(OSError, UnicodeDecodeError, KeyError):
        found = re.search(r"\b\d+\.\d+(?:\.\d+)*\b", DRIVERS[vendor].read_text())
        return found[0] if found else ""
    return ""
