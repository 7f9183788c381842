"""AMD's binaries: the table and the instructions of the assembly text that they are made from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from vkernels.ir.errors import FileError

from .mix import Instruction, InstructionKind


@dataclass(frozen=True)
class KernelDescriptor:
    """`vector_registers`: a thread, accumulators included where both are one file; `stack`: bytes a thread.

    `scalar_registers`: a wave. `static_shared`: bytes a program, before what a launch asks for.
    """

    vector_registers: int
    accumulators: int
    scalar_registers: int
    stack: int
    static_shared: int


_METADATA = re.compile(r"^\s*\.amdgpu_metadata\n(.*?)^\s*\.end_amdgpu_metadata\b", re.MULTILINE | re.DOTALL)
_ENTRY = re.compile(r"^ {4}(\.\w+): +(\S+)$|^  - (\.\w+): +(\S+)$", re.MULTILINE)


def table_of(assembly: str, name: str) -> KernelDescriptor:
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

    return KernelDescriptor(
        number(".vgpr_count"), number(".agpr_count", "0"), number(".sgpr_count"),
        number(".private_segment_fixed_size"), number(".group_segment_fixed_size"),
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
    return [_instruction(opcode, operands, comment, stacks) for opcode, operands, comment in lines if opcode != "s_nop"]


def _stacks(lines: list[tuple[str, str, str]]) -> Iterator[str]:
    """Scalar registers that describe where spilled registers go, on devices that reach it by buffer instructions."""
    for opcode, operands, comment in lines:
        if opcode.startswith("buffer_") and "Folded" in comment:
            yield from re.findall(r"off, (s\[\d+:\d+\])", operands)


def _instruction(opcode: str, operands: str, comment: str, stacks: set[str]) -> Instruction:
    if _TENSOR_CORE.match(opcode):
        return Instruction(frozenset({InstructionKind.TENSOR_CORE}))
    if opcode in ("s_barrier", "s_barrier_wait"):
        return Instruction(frozenset({InstructionKind.BARRIER}))
    if shared := _SHARED.match(opcode):
        return Instruction(
            frozenset({InstructionKind.SHARED_LOAD if shared[1] in ("read", "load") else InstructionKind.SHARED_STORE})
        )
    stack = re.search(r"off, (s\[\d+:\d+\])", operands) if opcode.startswith("buffer_") else None
    if opcode.startswith("scratch_") or (stack and stack[1] in stacks):
        return Instruction(
            frozenset({InstructionKind.PRIVATE_LOAD if "_load" in opcode else InstructionKind.PRIVATE_STORE}),
            _bytes(opcode),
        )
    if access := _GLOBAL.match(opcode):
        kinds = (
            (InstructionKind.GLOBAL_LOAD, InstructionKind.WIDE_LOAD)
            if access[1] == "load"
            else (InstructionKind.GLOBAL_STORE, InstructionKind.WIDE_STORE)
        )
        return Instruction(frozenset(kinds if _WIDE.search(opcode) else kinds[:1]))
    return Instruction()


def _bytes(opcode: str) -> int:
    """Bytes a thread that an access moves, by its name: buffer_store_dwordx2, scratch_load_b64."""
    if words := re.search(r"dword(?:x(\d+))?$", opcode):
        return 4 * int(words[1] or 1)
    bits = re.search(r"_[biu](\d+)$", opcode)
    return int(bits[1]) // 8 if bits else 4
