"""Sets of CPU instructions to compile for by name, and which of them this machine has, asked without a compiler.

Levels of x86-64 are those of the x86-64 psABI (v2: SSE4.2; v3: AVX2, FMA; v4: AVX-512); names of features are LLVM's.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from vkernels.ir.did_you_mean import did_you_mean
from vkernels.ir.errors import OptionError

from .cpu_flags import cpu_flags, flag_of
from .host_cpu import ask_for_matrices

X86_64, AARCH64 = "x86_64", "aarch64"

_V2 = ("cx16", "popcnt", "sahf", "sse3", "ssse3", "sse4.1", "sse4.2")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")


@dataclass(frozen=True)
class Level:
    """A base of instructions. `processor`: LLVM's name of a CPU with just these; `features`: that it needs."""

    machine: str
    processor: str
    features: tuple[str, ...]


LEVELS: Mapping[str, Level] = {
    "x86-64-v2": Level(X86_64, "x86-64-v2", _V2),
    "x86-64-v3": Level(X86_64, "x86-64-v3", _V3),
    "x86-64-v4": Level(X86_64, "x86-64-v4", _V4),
    "aarch64": Level(AARCH64, "generic", ("neon",)),
}

ADDITIONS: Mapping[str, tuple[str, ...]] = {
    X86_64: (
        "avxvnni", "avxvnniint8", "avx512vnni", "avx512bf16", "avx512vbmi", "avx512vbmi2", "avx512fp16", "gfni",
        "amx-tile", "amx-bf16", "amx-int8", "amx-fp16",
    ),
    AARCH64: ("dotprod", "i8mm", "bf16", "fullfp16", "lse"),
}  # fmt: skip
"""Features that can be added to a level."""

UNUSED = frozenset({
    "64bit", "adx", "aes", "avx10.1", "fxsr", "mmx", "pclmul", "sha", "vaes", "vpclmulqdq",
    "clflushopt", "cldemote", "clwb", "clzero", "cmpccxadd", "enqcmd", "evex512", "fsgsbase", "fsrm", "hreset",
    "invpcid", "kl", "lwp", "movdir64b", "movdiri", "mwaitx", "pconfig", "pku", "prefetchi", "ptwrite", "raoint",
    "rdpid", "rdpru", "rdrnd", "rdseed", "rtm", "serialize", "sgx", "shstk", "tsxldtrk", "uintr", "usermsr", "waitpkg",
    "wbnoinvd", "widekl", "xsave", "xsavec", "xsaveopt", "xsaves",
})  # fmt: skip
"""Features that LLVM's code generator uses for no code of ours: they are for systems, or asked for by name; and
avx10.1, which is another name of AVX-512's features and has no flag in Linux."""


@dataclass(frozen=True)
class InstructionSet:
    """Instructions to compile for. `name`: of `cpu:NAME`; `features`: all that a machine needs, sorted; `added`: those
    beyond the level of `processor`, LLVM's name."""

    name: str
    machine: str
    processor: str
    features: tuple[str, ...]
    added: tuple[str, ...] = ()

    @property
    def llvm_features(self) -> str:
        """The added features, as LLVM takes them."""
        return ",".join(f"+{name}" for name in self.added)


def instruction_set(name: str) -> InstructionSet:
    """The instruction set of a name: a level, and features behind `+`: `x86-64-v4+avx512vnni`.

    Raises `OptionError` for a level or feature that does not exist.
    """
    level_name, *added = name.split("+")
    level = LEVELS.get(level_name)
    if level is None:
        raise OptionError(f"there is no instruction set {level_name!r}; {did_you_mean(level_name, [*LEVELS])}")
    known = ADDITIONS[level.machine]
    for feature in added:
        if feature not in known:
            raise OptionError(f"cpu:{name}: there is no feature {feature!r}; {did_you_mean(feature, known)}")
    features = tuple(sorted({*level.features, *added}))
    return InstructionSet(name, level.machine, level.processor, features, tuple(added))


def host_needs(features: Mapping[str, bool]) -> tuple[str, ...]:
    """The features that code for a whole processor needs of other machines, from LLVM's list of what it has."""
    return tuple(sorted(name for name, has in features.items() if has and name not in UNUSED))


def lacking(machine: str, features: Iterable[str]) -> tuple[str, ...]:
    """What this machine lacks to run code: its `machine` if that differs, or features, by LLVM's names.

    The registers of AMX are asked for where they are needed.
    """
    if machine != platform.machine():
        return (machine,)
    flags = cpu_flags()
    missing = tuple(name for name in features if flag_of(name) not in flags)
    if not missing and any(name.startswith("amx-") for name in features) and not ask_for_matrices():
        return ("amx-tile",)
    return missing
