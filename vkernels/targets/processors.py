"""CPUs by LLVM's names, for which code is compiled and read where they are not present: `cpu:sapphirerapids`.

Cores and caches are those of the largest model sold under the name, from the makers' data sheets.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from .host_cpu import dot_units, vector_registers
from .target import CpuSizes, Target

X86_64, AARCH64 = "x86_64", "aarch64"
MEMORY = 1 << 38
_AVX512 = ("avx2", "avx512f", "avx512bw", "avx512dq", "avx512vl")
_SAPPHIRE = (*_AVX512, "avx512vnni", "avx512bf16", "amx-tile", "amx-bf16", "amx-int8")
_SVE = ("sve",)
_ARM_86 = ("dotprod", "i8mm", "bf16")
_KIB, _MIB = 1 << 10, 1 << 20


@dataclass(frozen=True)
class Processor:
    """A CPU that LLVM knows. `features`: LLVM's names of those that matter here. `level_2`: bytes of a core, `level_3`
    of all `cores`. `machine`: its instructions, as `platform` names them. `sve_bytes`: of its SVE vectors, where these
    are longer than NEON's."""

    name: str
    features: tuple[str, ...]
    cores: int
    level_2: int
    level_3: int
    machine: str = X86_64
    sve_bytes: int = 0


PROCESSORS: Mapping[str, Processor] = {
    processor.name: processor
    for processor in (
        Processor("skylake-avx512", _AVX512, 28, _MIB, 38 * _MIB),
        Processor("cascadelake", (*_AVX512, "avx512vnni"), 28, _MIB, 38 * _MIB),
        Processor("cooperlake", (*_AVX512, "avx512vnni", "avx512bf16"), 28, _MIB, 38 * _MIB),
        Processor("icelake-server", (*_AVX512, "avx512vnni"), 40, 1280 * _KIB, 60 * _MIB),
        Processor("sapphirerapids", _SAPPHIRE, 60, 2 * _MIB, 112 * _MIB),
        Processor("emeraldrapids", _SAPPHIRE, 64, 2 * _MIB, 320 * _MIB),
        Processor("graniterapids", (*_SAPPHIRE, "amx-fp16"), 128, 2 * _MIB, 504 * _MIB),
        Processor("sierraforest", ("avx2", "avxvnni", "avxvnniint8"), 144, _MIB, 108 * _MIB),
        Processor("alderlake", ("avx2", "avxvnni"), 8, 1280 * _KIB, 30 * _MIB),
        Processor("znver2", ("avx2",), 64, 512 * _KIB, 256 * _MIB),
        Processor("znver3", ("avx2",), 64, 512 * _KIB, 256 * _MIB),
        Processor("znver4", (*_AVX512, "avx512vnni", "avx512bf16"), 96, _MIB, 384 * _MIB),
        Processor("znver5", (*_AVX512, "avx512vnni", "avx512bf16"), 128, _MIB, 512 * _MIB),
        Processor("neoverse-n1", ("dotprod",), 80, _MIB, 32 * _MIB, AARCH64),
        Processor("neoverse-v1", (*_ARM_86, *_SVE), 64, _MIB, 32 * _MIB, AARCH64, sve_bytes=32),
        Processor("neoverse-n2", _ARM_86, 128, _MIB, 128 * _MIB, AARCH64),
        Processor("neoverse-v2", _ARM_86, 72, _MIB, 114 * _MIB, AARCH64),
        Processor("ampere1", _ARM_86, 192, 2 * _MIB, 64 * _MIB, AARCH64),
        Processor("a64fx", _SVE, 48, 8 * _MIB // 12, 32 * _MIB, AARCH64, sve_bytes=64),
        Processor("apple-m1", ("dotprod",), 8, 3 * _MIB, 8 * _MIB, AARCH64),
        Processor("apple-m2", _ARM_86, 8, 4 * _MIB, 8 * _MIB, AARCH64),
        Processor("apple-m3", _ARM_86, 8, 4 * _MIB, 8 * _MIB, AARCH64),
        Processor("apple-m4", _ARM_86, 10, 4 * _MIB, 8 * _MIB, AARCH64),
    )
}
"""Every CPU that code is compiled for by name. LLVM ends the process at an x86 name that it does not know."""


@functools.cache
def processor_targets() -> Mapping[str, Target]:
    """A target for each of them, as `cpu:NAME`; nothing is known of their rates."""
    return {f"cpu:{name}": _target(processor) for name, processor in PROCESSORS.items()}


def _target(processor: Processor) -> Target:
    features = dict.fromkeys(processor.features, True)
    registers, register_bytes = vector_registers(features, processor.machine, processor.sve_bytes)
    units = dot_units(features, processor.machine, processor.sve_bytes)
    return Target(
        key=f"cpu:{processor.name}",
        name=processor.name,
        vendor="cpu",
        architecture=processor.name,
        multiprocessors=processor.cores,
        memory=MEMORY,
        level_2=processor.level_2 * processor.cores,
        cache=processor.level_3,
        sizes=CpuSizes(processor.level_2, registers, register_bytes, dot_units=units),
        rates=None,
        unverified=("memory",),
    )
