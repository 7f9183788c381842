"""The architectures that each version of Triton compiles for: a table, made by compiling a copy and a matmul each."""

from __future__ import annotations

from collections.abc import Mapping

from vkernels.ir.errors import SetupError

KNOWN_VERSIONS = ("3.6", "3.7", "3.9")

_NVIDIA = (
    "sm_70", "sm_72", "sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_100", "sm_101", "sm_103",
    "sm_110", "sm_120", "sm_121",
)  # fmt: skip
_AMD = (
    "gfx900", "gfx906", "gfx908", "gfx90a", "gfx940", "gfx942", "gfx950", "gfx1010", "gfx1030", "gfx1031", "gfx1036",
    "gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153", "gfx1200", "gfx1201",
    "gfx1250",
)  # fmt: skip

_NO_PTXAS = "its ptxas does not know this architecture"
_NO_AMD = "its AMD back end does not know this architecture"
_MISSING: Mapping[str, Mapping[str, str]] = {
    "3.6": {**dict.fromkeys(("sm_88", "sm_110"), _NO_PTXAS), **dict.fromkeys(("gfx900", "gfx906", "gfx940"), _NO_AMD)},
    "3.7": {**dict.fromkeys(("sm_88", "sm_101"), _NO_PTXAS), **dict.fromkeys(("gfx900", "gfx906", "gfx940"), _NO_AMD)},
    "3.9": {
        "sm_88": "its LLVM wants a later PTX than it writes, and aborts",
        "sm_101": f"{_NO_PTXAS}, which was renamed sm_110; on some kernels the compiler aborts",
        **dict.fromkeys(("gfx900", "gfx940", "gfx1010", "gfx1030", "gfx1031", "gfx1036"), _NO_AMD),
    },
}


def known(version: str) -> str:
    """The two leading numbers of a Triton version that vkernels knows. Raises `SetupError` for any other."""
    short = ".".join(version.split(".")[:2])
    if short not in KNOWN_VERSIONS:
        names = ", ".join(f"{v}.x" for v in KNOWN_VERSIONS)
        raise SetupError(f"Triton {version} is not a version that vkernels knows; it knows {names}")
    return short


def architectures(version: str) -> Mapping[str, str]:
    """The reason why a version of Triton ("3.9.0") does not compile for each architecture; empty where it does.

    Raises `SetupError` for a version that vkernels does not know.
    """
    missing = _MISSING[known(version)]
    return {name: missing.get(name, "") for name in _NVIDIA + _AMD}


def refuse_unless_compiles(architecture: str, version: str) -> None:
    """Raise `SetupError` where a version of Triton does not compile for an architecture, with the reason."""
    reason = architectures(version).get(architecture, "vkernels has not tried this architecture with it")
    if reason:
        raise SetupError(f"Triton {version} does not compile for {architecture}: {reason}")


def warp_size(architecture: str) -> int:
    """Threads of a warp, in Triton's choice for the architecture."""
    return 64 if architecture.startswith("gfx9") else 32
