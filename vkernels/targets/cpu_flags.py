"""What Linux says of the processor's instructions: flags, and LLVM's names of the features that they stand for."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

from .processor import CPU_INFO

FLAGS: Mapping[str, str] = {
    "sse3": "pni", "sse4.1": "sse4_1", "sse4.2": "sse4_2", "lzcnt": "abm", "bmi": "bmi1", "sahf": "lahf_lm",
    "prfchw": "3dnowprefetch", "crc32": "sse4_2",
    "avxvnni": "avx_vnni", "avx512vnni": "avx512_vnni", "avx512bf16": "avx512_bf16",
    "avx512vbmi2": "avx512_vbmi2", "avx512bitalg": "avx512_bitalg", "avx512vpopcntdq": "avx512_vpopcntdq",
    "avx512fp16": "avx512_fp16", "avx512vp2intersect": "avx512_vp2intersect", "avxvnniint8": "avx_vnni_int8",
    "avxvnniint16": "avx_vnni_int16", "avxneconvert": "avx_ne_convert", "avxifma": "avx_ifma", "amx-tile": "amx_tile",
    "amx-bf16": "amx_bf16", "amx-int8": "amx_int8", "amx-fp16": "amx_fp16",
    "neon": "asimd", "fp-armv8": "fp", "dotprod": "asimddp", "fullfp16": "asimdhp", "lse": "atomics", "crc": "crc32",
    "rdm": "asimdrdm", "rcpc": "lrcpc", "fp16fml": "asimdfhm", "jsconv": "jscvt", "complxnum": "fcma",
}  # fmt: skip
"""Linux's flags of features whose names differ from LLVM's."""


def flag_of(feature: str) -> str:
    """Linux's flag of a feature."""
    return FLAGS.get(feature, feature.replace("-", "_").replace(".", "_"))


@functools.cache
def cpu_flags() -> frozenset[str]:
    """The flags of this machine's processor, read once."""
    return read_flags(CPU_INFO)


def read_flags(file: Path) -> frozenset[str]:
    """The flags of the first processor that `/proc/cpuinfo` describes; none where it cannot be read."""
    try:
        text = file.read_text(errors="replace")
    except OSError:
        return frozenset()
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()
