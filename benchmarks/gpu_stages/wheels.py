"""Packages that a machine without a network may lack: gathered as wheels before, unpacked there."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

PYTHON = "3.12"
PLATFORMS = (
    "manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64",
    "manylinux1_x86_64",
)  # fmt: skip
NEEDED = (
    "xdsl", "immutabledict", "ordered-set", "typing-extensions", "msgspec", "platformdirs", "sqlalchemy", "greenlet",
    "jaxtyping", "wadler-lindig", "sympy", "mpmath", "jinja2", "markupsafe", "scipy",
)  # fmt: skip
"""What vkernels imports for all that a day does, beside torch, Triton, NumPy, llvmlite, scikit-learn, typer, rich and
pytest, which are taken to be there."""
MOST = 64 << 20
"""Bytes of all wheels together."""


class WheelsError(Exception):
    """Wheels cannot be had, or are too large."""


def gather_wheels(folder: Path, constraints: Path, names: tuple[str, ...] = NEEDED) -> list[Path]:
    """Download the wheel of each name, one version of each, as the constraints say. Raises `WheelsError`."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--python-version",
        PYTHON, "--implementation", "cp", *(word for each in PLATFORMS for word in ("--platform", each)),
        "--constraint", str(constraints), "--dest", str(folder), *names,
    ]  # fmt: skip
    for old in folder.glob("*.whl"):
        old.unlink()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise WheelsError(f"pip download failed:\n{done.stderr.strip()}")
    found = sorted(folder.glob("*.whl"))
    if (size := sum(each.stat().st_size for each in found)) > MOST:
        raise WheelsError(f"{size} bytes of wheels, more than {MOST}")
    return found


def unpack_missing(wheels: Path, folder: Path) -> Path:
    """Unpack the wheels of packages that this Python has not, and that it can run; the folder, for `sys.path`."""
    here = f"cp{sys.version_info.major}{sys.version_info.minor}"
    for wheel in sorted(wheels.glob("*.whl")):
        name, _, *_, python, abi, _ = wheel.stem.split("-")
        fits = "py3" in python.split(".") or here in python.split(".") or abi == "abi3"
        if fits and not _is_here(name) and not (folder / f"{wheel.stem}.done").exists():
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(folder)
            (folder / f"{wheel.stem}.done").touch()
    return folder


def _is_here(name: str) -> bool:
    try:
        distribution(re.sub("_", "-", name))
    except PackageNotFoundError:
        return False
    return True
