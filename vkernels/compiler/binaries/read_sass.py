"""SASS: NVIDIA's instructions with their control words, from the text of `nvdisasm -hex`.

The text has the 128 bits of each instruction in two comments; it does not print the control fields, which are bits 105
to 125. Their positions are those of Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking"
(2018), which compilers keep to since: `tests/compiler/binaries` holds them against what any right reading must show.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import replace

from vkernels.ir.errors import FileError

from ..backends.triton_adapter import nvidia_disassembler
from .classify_sass import classify, wide_tensor
from .instructions import Control, Instruction, Kind

MAX_INSTRUCTIONS = 1 << 18

_ENTRY = re.compile(
    r"^[ \t]*/\*(?P<address>[0-9a-f]{4,8})\*/[ \t]+(?P<text>[^;\n]*?)[ \t]*;[ \t]*/\* 0x(?P<low>[0-9a-f]{16}) \*/\s*"
    r"/\* 0x(?P<high>[0-9a-f]{16}) \*/"
    r"|^(?P<label>\.L_x_\d+):"
    r"|^[ \t]*//## File \"(?P<file>[^\"\n]*)\", line (?P<line>\d+)"
    r"|^[ \t]*//-+ \.text\.(?P<section>\S+)",
    re.MULTILINE,
)
_TEXT = re.compile(r"(?:@(?P<predicate>!?U?P[T0-9]+)\s+)?(?P<opcode>[A-Z][A-Z0-9_]*(?:\.[\w:]+)*)\s*(?P<operands>.*)")
_TARGET = re.compile(r"`\((\.L_x_\d+)\)|\b0x([0-9a-f]+)$")
_TABLE = re.compile(r"BRANCH_TARGETS ([^\"]+)")


def disassemble(code: bytes, seconds: float) -> str:
    """The text of a cubin with encodings and lines. Raises `FileError` where the disassembler refuses or is late."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(code)
        file.flush()
        command = [nvidia_disassembler(), "-c", "-hex", "-g", file.name]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=seconds)
        except subprocess.TimeoutExpired:
            raise FileError(f"the disassembler took longer than {seconds} s") from None
    if done.returncode:
        reason = next((line for line in done.stderr.splitlines() if "warning" not in line), "it gave no reason")
        raise FileError(f"a binary that cannot be disassembled: {reason}")
    return done.stdout


def read_sass(text: str, name: str) -> list[Instruction]:
    """The instructions of the kernel `name`, in their order, without padding.

    Raises `FileError` where the text lacks the kernel, or holds what is no disassembly: no encodings, branches to
    nowhere, addresses out of order, more than 2^18 instructions.
    """
    found: list[Instruction] = []
    labels: dict[str, int] = {}
    waiting: list[str] = []
    line, is_ours = 0, False
    for match in _ENTRY.finditer(text):
        if match["section"] is not None:
            is_ours, line = match["section"] == name, 0
        elif not is_ours:
            continue
        elif match["label"] is not None:
            waiting.append(match["label"])
        elif match["line"] is not None:
            line = int(match["line"])
        else:
            instruction = _instruction(match["address"], match["text"], match["low"], match["high"], line)
            if instruction.opcode != "NOP":  # padding is left out: its label is that of what follows
                labels |= dict.fromkeys(waiting, instruction.address)
                waiting.clear()
            if found and instruction.address <= found[-1].address:
                raise FileError(f"a disassembly of {name} whose addresses are out of order")
            if len(found) >= MAX_INSTRUCTIONS:
                raise FileError(f"a disassembly of {name} with more than {MAX_INSTRUCTIONS} instructions")
            found.append(instruction)
    if not found:
        raise FileError(f"a disassembly without instructions of the kernel {name}")
    return _with_shapes([_with_target(each, labels, name) for each in found if each.opcode != "NOP"])


def _instruction(address: str, text: str, low: str, high: str, line: int) -> Instruction:
    parts = _TEXT.fullmatch(text.strip("{} \t"))
    if parts is None:
        raise FileError(f"a disassembly with an instruction that cannot be read: {text[:80]!r}")
    opcode, operands = parts["opcode"], parts["operands"]
    ends = parts["predicate"] is None and (
        opcode.split(".")[0] in ("EXIT", "RET", "BRX", "KILL")
        or (opcode.startswith(("BRA", "JMP")) and operands.startswith(("`", "0x")))
    )
    control = control_of(int(high, 16))
    return classify(Instruction(int(address, 16), opcode, operands, Kind.OTHER, line, control, falls_through=not ends))


def control_of(high: int) -> Control:
    """The control word in the upper 64 bits of an instruction."""
    word = high >> 41
    write, read = word >> 5 & 7, word >> 8 & 7
    return Control(
        word & 15, not word >> 4 & 1, None if write == 7 else write, None if read == 7 else read, word >> 11 & 63,
        word >> 17 & 15,
    )  # fmt: skip


def _with_target(instruction: Instruction, labels: dict[str, int], name: str) -> Instruction:
    if instruction.opcode.split(".")[0] not in ("BRA", "BRX", "JMP"):
        return instruction
    if table := _TABLE.search(instruction.operands):
        return replace(instruction, table=tuple(_address(label, labels, name) for label in table[1].split(",")))
    target = _TARGET.search(instruction.operands)
    if target is None:
        return instruction  # through a register: a return
    return replace(instruction, target=_address(target[1], labels, name) if target[1] else int(target[2], 16))


def _address(label: str, labels: dict[str, int], name: str) -> int:
    if label not in labels:
        raise FileError(f"a disassembly of {name} with a branch to nowhere: {label}")
    return labels[label]


_UNIFORM_MOVE = re.compile(r"(UR\d+), 0x([0-9a-f]+)$")
_DESCRIPTOR = re.compile(r"idesc\[(UR\d+)\]")


def _with_shapes(instructions: Sequence[Instruction]) -> list[Instruction]:
    """Fill in the shapes of the fifth generation's matrix instructions: a register holds a constant descriptor."""
    constants: dict[str, int] = {}
    found = []
    for each in instructions:
        if each.opcode == "UMOV" and (moved := _UNIFORM_MOVE.match(each.operands)):
            constants[moved[1]] = int(moved[2], 16)
        if each.once and each.kind is Kind.TENSOR and (used := _DESCRIPTOR.search(each.operands)):
            descriptor = constants.get(used[1])
            if descriptor is not None:
                each = replace(each, tensor=wide_tensor(each.opcode, descriptor))
        found.append(each)
    return found
