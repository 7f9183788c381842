"""NVIDIA's cubins: the tables that the driver reads, and the instructions as NVIDIA's disassembler prints them."""

from __future__ import annotations

import re
import struct
import subprocess
import tempfile
from collections.abc import Iterator

from vkernels.ir.errors import FileError

from ..triton_adapter import nvidia_disassembler
from .elf import Elf, read_elf
from .mix import Instruction, KernelTable

_CUDA = 190
_REGISTERS, _FRAME = 0x2F, 0x11
_SIZED = 4
_RESERVED = 1024
"""Shared memory that the system reserves a program from sm_90 on. ptxas adds it to a kernel's own: a kernel that it
says uses 256 bytes has a section of 1280."""

_STAND_INS = {"SM70": "SM75", "SM72": "SM75", "SM103a": "SM100a", "SM121a": "SM120a"}
"""Disassemblers know some architectures by a sibling's name only. The pairs were seen to give the same instructions."""


def facts_of(code: bytes, name: str, architecture: str) -> KernelTable:
    """What a cubin's tables say of a kernel. Raises `FileError` where it is damaged or lacks the kernel."""
    elf = read_elf(code)
    if elf.machine != _CUDA:
        raise FileError("an ELF file, but not one of NVIDIA's")
    text = elf.sections.get(f".text.{name}")
    if text is None:
        raise FileError(f"a cubin without the kernel {name}")
    shared = elf.sections.get(f".nv.shared.{name}")
    static = shared.size if shared else 0
    if static and int(architecture.removeprefix("sm_")) >= 90:
        static = max(0, static - _RESERVED)
    return KernelTable(_fact(elf, _REGISTERS, name), _fact(elf, _FRAME, name), static, text=text.data)


def _fact(elf: Elf, attribute: int, name: str) -> int:
    section = elf.sections.get(".nv.info")
    if section:
        for found, value in _attributes(section.data):
            if found == attribute and len(value) == 8:
                symbol, number = struct.unpack("<II", value)
                if symbol < len(elf.symbols) and elf.symbols[symbol] == name:
                    return int(number)
    raise FileError(f"a cubin whose tables lack attribute {attribute:#x} of the kernel {name}")


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Attributes and their values. Short ones hold two bytes in place of a length."""
    at = 0
    while at + 4 <= len(data):
        form, attribute, length = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == _SIZED:
            yield attribute, data[at : at + length]
            at += length


def instructions_of(text: bytes, architecture: str, seconds: float) -> list[Instruction]:
    """A kernel's instructions, in their order. Raises `FileError` where the disassembler refuses or takes too long."""
    number = architecture.removeprefix("sm_")
    name = f"SM{number}a" if int(number) >= 90 else f"SM{number}"  # Triton compiles the later ones for these names
    disassembled, reason = _disassembled(text, name, seconds)
    if disassembled is None and name in _STAND_INS:
        disassembled, reason = _disassembled(text, _STAND_INS[name], seconds)
    if disassembled is None:
        raise FileError(f"a binary for {architecture} that cannot be disassembled: {reason}")
    return instructions_in(disassembled)


def instructions_in(disassembly: str) -> list[Instruction]:
    """The instructions of a disassembly's text, without padding."""
    return [_instruction(opcode) for opcode in _OPCODE.findall(disassembly) if opcode != "NOP"]


def _disassembled(text: bytes, name: str, seconds: float) -> tuple[str | None, str]:
    """The disassembly, or none and why."""
    with tempfile.NamedTemporaryFile(suffix=".sass") as file:
        file.write(text)
        file.flush()
        command = [nvidia_disassembler(), "--binary", name, file.name]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=seconds)
        except subprocess.TimeoutExpired:
            return None, f"the disassembler took longer than {seconds} s"
    if done.returncode == 0 and _OPCODE.search(done.stdout):
        return done.stdout, ""
    return None, (done.stderr.strip().split("\n")[0] or "the disassembler printed no instruction")


_OPCODE = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P[T0-9]+\s+)?([A-Z][\w.]*)", re.MULTILINE)
_SIZES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "256": 32}
_KINDS = {
    "LDG": "global_loads", "LDGSTS": "global_loads", "UTMALDG": "global_loads", "STG": "global_stores",
    "UTMASTG": "global_stores", "LDS": "shared_loads", "LDSM": "shared_loads", "STS": "shared_stores",
    "STSM": "shared_stores", "LDL": "spill_loads", "STL": "spill_stores", "BAR": "barriers",
}  # fmt: skip


def _instruction(opcode: str) -> Instruction:
    """From an opcode with its modifiers: LDG.E.128, UTCHMMA, BAR.SYNC.DEFER_BLOCKING."""
    name, *modifiers = opcode.split(".")
    kind = "tensor_core" if name.endswith("MMA") else _KINDS.get(name)
    if kind is None:
        return Instruction()
    size = max((_SIZES.get(modifier, 0) for modifier in modifiers), default=0) or 4
    if kind.startswith("spill"):
        return Instruction((kind,), size)
    wide = kind.startswith("global") and (size >= 16 or name.startswith("UTMA"))  # a bulk copy moves whole tiles
    return Instruction((kind, kind.replace("global", "wide")) if wide else (kind,))
