"""Where and by what something is measured: what an entry's provenance says of this machine."""

from __future__ import annotations

import platform
import re
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from .entry import Provenance

if TYPE_CHECKING:
    from vkernels.targets import Target

DRIVERS = {"nvidia": Path("/proc/driver/nvidia/version"), "amd": Path("/sys/module/amdgpu/version")}
LIBRARIES = ("vkernels", "triton", "llvmlite", "torch", "numpy")


def provenance_of(target: Target, slice: str, by: str, run: str = "", trial: int = 0, **more: float) -> Provenance:
    """The provenance of a measurement on a device of this machine, or of a model of one. `more`: `seconds`, `when`."""
    return Provenance(
        device=target.name, slice=slice, architecture=target.architecture, driver=driver_version(target.vendor),
        clocks={} if target.rates is None else {"multiprocessors": target.rates.clock_mhz}, versions=versions(), by=by,
        run=run, trial=trial, **more,
    )  # fmt: skip


@cache
def driver_version(vendor: str) -> str:
    """Of the GPUs' driver here; empty of a CPU, and where it cannot be told."""
    path = DRIVERS.get(vendor)
    with suppress(OSError, UnicodeDecodeError):
        text = "" if path is None else path.read_text()
        found = re.search(r"\b\d+\.\d+(?:\.\d+)*\b", text)
        return found[0] if found else ""
    return ""


@cache
def versions() -> dict[str, str]:
    """Of what has a part in a measurement."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
