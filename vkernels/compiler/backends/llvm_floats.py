"""Floating-point constants of LLVM IR text in the one spelling that every LLVM reads: hexadecimal.

Newer LLVMs print `float 1.000000e-01`, `float -inf` and `float f0x3DCCCCCD`, which older ones refuse; all read
`float 0x3FB99999A0000000`.
A constant's type stands before it on its line, perhaps several operands earlier.
"""

from __future__ import annotations

import re
import struct

_TOKEN = re.compile(
    r"(?P<type>(?<![\w.%@])(?:float|double|half|bfloat)(?!\w))"
    r"|(?P<text>[\"%@][\w.$-]*\"?)"
    r"|(?<![\w.])f0x(?P<bits>[0-9A-Fa-f]+)"
    r"|(?<![\w.])(?P<sign>[+-]?)(?:(?P<special>inf|qnan|s?nan\(0x(?P<payload>[0-9A-Fa-f]+)\))"
    r"|(?P<number>\d+\.\d*(?:[eE][+-]?\d+)?))(?![\w.])"
)
_MARKS = re.compile(r"\d\.|inf|nan|f0x")
"""A line with such a constant matches at least once."""

_FRACTION = {"float": 23, "double": 52, "half": 10, "bfloat": 7}
_WIDTH = {"float": 32, "double": 64, "half": 16, "bfloat": 16}


def respelled(llvm_ir: str) -> str:
    """The same module with floating-point constants in hexadecimal."""
    return "\n".join(_line(line) if _MARKS.search(line) else line for line in llvm_ir.split("\n"))


def _line(line: str) -> str:
    kind: str | None = None
    pieces, end = [], 0
    for match in _TOKEN.finditer(line):
        if match["type"]:
            kind = match["type"]
        elif not match["text"] and kind is not None:
            pieces += [line[end : match.start()], _hexadecimal(kind, match)]
            end = match.end()
    return "".join(pieces) + line[end:] if pieces else line


def _hexadecimal(kind: str, match: re.Match[str]) -> str:
    if match["bits"]:
        bits = int(match["bits"], 16)
    elif match["special"]:
        bits = _bits_of_special(kind, match)
    else:
        bits = _bits_of_number(kind, match["sign"] + match["number"])
    if kind == "half":
        return f"0xH{bits:04X}"
    if kind == "bfloat":
        return f"0xR{bits:04X}"
    return f"0x{_as_double(bits) if kind == 'float' else bits:016X}"


def _bits_of_special(kind: str, match: re.Match[str]) -> int:
    fraction, width = _FRACTION[kind], _WIDTH[kind]
    bits = ((1 << (width - 1 - fraction)) - 1) << fraction  # an exponent of ones
    if match["special"] == "qnan":
        bits |= 1 << (fraction - 1)
    elif match["payload"]:
        quiet = 0 if match["special"].startswith("s") else 1 << (fraction - 1)
        bits |= quiet | int(match["payload"], 16)
    return bits | (1 << (width - 1) if match["sign"] == "-" else 0)


def _bits_of_number(kind: str, number: str) -> int:
    import numpy as np

    if kind == "half":
        return int(np.float16(number).view(np.uint16))
    if kind == "double":
        return int(np.float64(number).view(np.uint64))
    bits = int(np.float32(number).view(np.uint32))
    return bits if kind == "float" else bits >> 16  # what prints in decimal is exact in bfloat


def _as_double(bits: int) -> int:
    """LLVM writes a float as the double of the same value; a NaN keeps its quiet bit and payload at the top."""
    sign, exponent, fraction = bits >> 31, bits >> 23 & 0xFF, bits & 0x7FFFFF
    if exponent == 0xFF:
        return sign << 63 | 0x7FF << 52 | fraction << 29
    value = struct.unpack("<f", struct.pack("<I", bits))[0]
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])
