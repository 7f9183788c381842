"""AMD's instructions, from the assembly text that LLVM's AMDGPU back end writes."""

from __future__ import annotations

import re
from dataclasses import replace

from vkernels.ir.errors import FileError

from .classify_amdgcn import classify
from .instructions import Instruction, Kind

MAX_INSTRUCTIONS = 1 << 18

_LINE = re.compile(
    r"^(?P<label>\.LBB\w+):"
    r"|^\t\.loc\t(?P<file>\d+) (?P<line>\d+)"
    r"|^\t(?P<opcode>[a-z][a-z0-9_]+)(?:[ \t]+(?P<operands>[^;\n]*))?(?P<comment>;[^\n]*)?$",
    re.MULTILINE,
)


def read_amdgcn(assembly: str, name: str) -> list[Instruction]:
    """The instructions of the kernel `name`, in their order; addresses are their numbers.

    Raises `FileError` where the text lacks the whole kernel, branches to nowhere, or has more than 2^18 instructions.
    """
    body = re.search(rf"^{re.escape(name)}:.*?(?=^\t\.section|^\.Lfunc_end)", assembly, re.MULTILINE | re.DOTALL)
    if body is None or "\ts_endpgm" not in body[0]:
        raise FileError(f"AMD assembly without the whole kernel {name}")
    found: list[Instruction] = []
    labels: dict[str, int] = {}
    branches: dict[int, str] = {}
    line = 0
    for match in _LINE.finditer(body[0]):
        if match["label"]:
            labels[match["label"]] = len(found)
        elif match["line"]:
            line = int(match["line"]) or line
        elif match["opcode"]:
            opcode, operands = match["opcode"], (match["operands"] or "").strip()
            if opcode.startswith(("s_branch", "s_cbranch")):
                branches[len(found)] = operands
            ends = opcode in ("s_branch", "s_endpgm", "s_setpc_b64")
            made = Instruction(len(found), opcode, operands, Kind.OTHER, line, falls_through=not ends)
            found.append(classify(made, match["comment"] or ""))
            if len(found) > MAX_INSTRUCTIONS:
                raise FileError(f"AMD assembly of {name} with more than {MAX_INSTRUCTIONS} instructions")
    return _with_targets(found, labels, branches, name)


def _with_targets(
    found: list[Instruction], labels: dict[str, int], branches: dict[int, str], name: str
) -> list[Instruction]:
    for number, label in branches.items():
        target = labels.get(label)
        if target is None or target >= len(found):
            raise FileError(f"AMD assembly of {name} with a branch to nowhere: {label[:40]!r}")
        found[number] = replace(found[number], target=target)
    return found
