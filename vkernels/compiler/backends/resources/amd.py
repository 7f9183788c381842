"""AMD's binaries: the table and the instructions of the assembly text that they are made from."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vkernels.ir.errors import FileError

from .mix import Instruction, KernelTable

_METADATA = re.compile(r"^\s*\.amdgpu_metadata\n(.*?)^\s*\.end_amdgpu_metadata\b", re.MULTILINE | re.DOTALL)
_ENTRY = re.compile(r"^ {4}(\.\w+): +(\S+)$|^  - (\.\w+): +(\S+)$", re.MULTILINE)


def table_of(assembly: str, name: str) -> KernelTable:
    """What the assembly's table says of its one kernel. Raises `FileError` where it is damaged or lacks the kernel."""
    metadata = _METADATA.search(assembly)
    if not metadata:
        raise FileError("AMD assembly without a whole table of its kernels")
    entries = {key or first: value or head for key, value, first, head in _ENTRY.findall(metadata[1])}
    if entries.get(".name") != name:
        raise FileError(f"AMD assembly without the kernel {name}")

    def number(key: str, default: str | None = None) -> int:
        value = entries.get(key, default)
        if value is None or not value.isdecimal():
            raise FileError(f"AMD assembly whose table lacks {key} of the kernel {name}")
        return int(value)

    return KernelTable(
        number(".vgpr_count"), number(".private_segment_fixed_size"), number(".group_segment_fixed_size"),
        number(".agpr_count", "0"), number(".sgpr_count"),
    )  # fmt: skip


_LINE = re.compile(r"^\t([a-z][a-z0-9_]+)(?:[ \t]+([^;\n]*))?(;[^\n]*)?$", re.MULTILINE)
_TENSOR_CORE = re.compile(r"v_(mfma|smfmac|wmma|swmmac)_")
_GLOBAL = re.compile(r"(?:global|buffer|flat)_(load|store)_")
_SHARED = re.compile(r"ds_(read|load|write|store)")
_WIDE = re.compile(r"(dwordx4|b128)$")


def instructions_of(assembly: str, name: str) -> list[Instruction]:
    """The kernel's instructions, in their order. Raises `FileError` where the text lacks the kernel or is cut short."""
    body = re.search(rf"^{re.escape(name)}:.*?^\ts_endpgm\b.*?(?=^\t\.section|^\.Lfunc_end)", assembly, re.M | re.S)
    if not body:
        raise FileError(f"AMD assembly without the whole kernel {name}")
    lines = [(opcode, operands or "", comment or "") for opcode, operands, comment in _LINE.findall(body[0])]
    stacks = set(_stacks(lines))
    return [_instruction(opcode, operands, stacks) for opcode, operands, _ in lines if opcode != "s_nop"]


def _stacks(lines: list[tuple[str, str, str]]) -> Iterator[str]:
    """Scalar registers that describe where spilled registers go, on devices that reach it by buffer instructions."""
    for opcode, operands, comment in lines:
        if opcode.startswith("buffer_") and "Folded" in comment:
            yield from re.findall(r"off, (s\[\d+:\d+\])", operands)


def _instruction(opcode: str, operands: str, stacks: set[str]) -> Instruction:
    if _TENSOR_CORE.match(opcode):
        return Instruction(("tensor_core",))
    if opcode in ("s_barrier", "s_barrier_wait"):
        return Instruction(("barriers",))
    if shared := _SHARED.match(opcode):
        return Instruction(("shared_loads" if shared[1] in ("read", "load") else "shared_stores",))
    stack = re.search(r"off, (s\[\d+:\d+\])", operands) if opcode.startswith("buffer_") else None
    if opcode.startswith("scratch_") or (stack and stack[1] in stacks):
        return Instruction(("spill_loads" if "_load" in opcode else "spill_stores",), _bytes(opcode))
    if access := _GLOBAL.match(opcode):
        kinds = f"global_{access[1]}s", f"wide_{access[1]}s"
        return Instruction(kinds if _WIDE.search(opcode) else kinds[:1])
    return Instruction()


def _bytes(opcode: str) -> int:
    """Bytes a thread that an access moves, by its name: buffer_store_dwordx2, scratch_load_b64."""
    if words := re.search(r"dword(?:x(\d+))?$", opcode):
        return 4 * int(words[1] or 1)
    bits = re.search(r"_[biu](\d+)$", opcode)
    return int(bits[1]) // 8 if bits else 4
