"""Counts of instructions in native code, from its assembly."""

from __future__ import annotations

import re

from .explanation import Native

_INSTRUCTION = re.compile(r"^\t(?!\.)([a-z][\w.]*)(.*)$", re.MULTILINE)
_VECTOR = re.compile(r"%[xyz]mm\d|\b[vqz]\d+(?:\.\w+|,|$)")
_STACK = re.compile(r"\(%r[sb]p|\[(?:sp|x29)\b")


def count_native(assembly: str, workspace: int) -> Native:
    """Instructions in assembly of x86 or ARM, those on vector registers, and those of them that touch the stack."""
    operands = [match[2] for match in _INSTRUCTION.finditer(assembly)]
    vector = [text for text in operands if _VECTOR.search(text)]
    return Native(len(operands), len(vector), sum(bool(_STACK.search(text)) for text in vector), workspace)
