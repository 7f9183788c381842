"""Which processor this is, as the system and its instructions say."""

from __future__ import annotations

import functools
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CPU_INFO = Path("/proc/cpuinfo")

_FIELDS = {
    "vendor_id": "vendor", "cpu family": "family", "model": "model", "stepping": "stepping", "microcode": "microcode",
    "CPU implementer": "vendor", "CPU part": "model", "CPU variant": "stepping", "CPU revision": "microcode",
    "model name": "name",
}  # fmt: skip

WITH_TILES = ("sapphirerapids", "emeraldrapids", "graniterapids", "graniterapids-d", "diamondrapids")
"""LLVM's names of processors with AMX, the oldest first."""


@dataclass(frozen=True)
class Processor:
    """A processor as `/proc/cpuinfo` describes it: texts, empty where it says nothing.

    `vendor`: `GenuineIntel`, `AuthenticAMD`, `0x41` (Arm); `family`: of x86 only; `model`: also Arm's part.
    """

    machine: str
    vendor: str = ""
    family: str = ""
    model: str = ""
    stepping: str = ""
    microcode: str = ""
    name: str = ""


@functools.cache
def this_processor() -> Processor:
    """The processor of this machine. It is read once."""
    try:
        text = CPU_INFO.read_text(errors="replace")
    except OSError:
        text = ""
    return read_processor(text, platform.machine())


def read_processor(text: str, machine: str) -> Processor:
    """The first processor that the text of `/proc/cpuinfo` describes."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        field = _FIELDS.get(name.strip())
        if colon and field is not None and value.strip():
            found.setdefault(field, value.strip())
    return Processor(machine, **found)


def llvm_processor(name: str, features: Mapping[str, bool]) -> str:
    """LLVM's name of a processor, corrected where the processor has instructions that those of this name have not.

    LLVM derives names of new processors from model numbers that it does not know, and then from a few features: it
    called a processor with AMX `rocketlake`. What code is scheduled for then is a core of another kind.
    """
    if features.get("amx-tile") and name not in WITH_TILES:
        return WITH_TILES[0]
    return name
