"""Relocations of x86-64 and AArch64 that LLVM emits for position-independent code of the small code model.

Numbers and formulas: the System V ABI for AMD64, table 4.9, and the ELF for the Arm 64-bit Architecture, section 5.7.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from vkernels.ir.errors import FileError


class Goal(Enum):
    """What a relocation refers to: the symbol's address, an entry of memory that holds it, or code to branch to."""

    ADDRESS = "address"
    ENTRY = "entry"
    BRANCH = "branch"


@dataclass(frozen=True)
class Kind:
    """One kind of relocation. `bytes`: that it changes; `patch(old, target, place)` gives them anew, as a number.

    `target` is the goal's address plus the addend, `place` the address that is changed. Raises `OverflowError`.
    """

    goal: Goal
    bytes: int
    patch: Callable[[int, int, int], int]


def _signed(value: int, bits: int) -> int:
    """A number of so many bits, in two's complement. Raises `OverflowError`."""
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise OverflowError(f"{value:#x} does not fit in {bits} bits")
    return value & ((1 << bits) - 1)


def _absolute64(old: int, target: int, place: int) -> int:
    return target & ((1 << 64) - 1)


def _relative(bits: int) -> Callable[[int, int, int], int]:
    return lambda old, target, place: _signed(target - place, bits)


def _field(old: int, value: int, at: int, bits: int) -> int:
    """An instruction with a value in some of its bits."""
    mask = ((1 << bits) - 1) << at
    return (old & ~mask) | (value << at & mask)


def _branch(bits: int, at: int) -> Callable[[int, int, int], int]:
    """A branch by so many instructions of 4 bytes."""

    def patch(old: int, target: int, place: int) -> int:
        if (target - place) % 4:
            raise OverflowError("a branch to an address that is not a multiple of 4")
        return _field(old, _signed((target - place) >> 2, bits), at, bits)

    return patch


def _adr(old: int, value: int) -> int:
    """`adr` and `adrp`: the two lowest bits stand apart."""
    return _field(_field(old, value & 3, 29, 2), value >> 2, 5, 19)


def _pages(old: int, target: int, place: int) -> int:
    return _adr(old, _signed((target >> 12) - (place >> 12), 21))


def _low12(scale: int) -> Callable[[int, int, int], int]:
    """The low 12 bits of an address, in units of `1 << scale` bytes."""

    def patch(old: int, target: int, place: int) -> int:
        low = target & 0xFFF
        if low & ((1 << scale) - 1):
            raise OverflowError(f"an access of {1 << scale} bytes at {low:#x}")
        return _field(old, low >> scale, 10, 12)

    return patch


_TO, _ENTRY, _BRANCH = Goal.ADDRESS, Goal.ENTRY, Goal.BRANCH

X86_64: Mapping[int, Kind] = {
    1: Kind(_TO, 8, _absolute64),  # R_X86_64_64
    2: Kind(_TO, 4, _relative(32)),  # PC32
    4: Kind(_BRANCH, 4, _relative(32)),  # PLT32
    9: Kind(_ENTRY, 4, _relative(32)),  # GOTPCREL
    24: Kind(_TO, 8, _relative(64)),  # PC64
    41: Kind(_ENTRY, 4, _relative(32)),  # GOTPCRELX
    42: Kind(_ENTRY, 4, _relative(32)),  # REX_GOTPCRELX
}
AARCH64: Mapping[int, Kind] = {
    257: Kind(_TO, 8, _absolute64),  # R_AARCH64_ABS64
    260: Kind(_TO, 8, _relative(64)),  # PREL64
    261: Kind(_TO, 4, _relative(32)),  # PREL32
    274: Kind(_TO, 4, lambda old, target, place: _adr(old, _signed(target - place, 21))),  # ADR_PREL_LO21
    275: Kind(_TO, 4, _pages),  # ADR_PREL_PG_HI21
    277: Kind(_TO, 4, _low12(0)),  # ADD_ABS_LO12_NC
    278: Kind(_TO, 4, _low12(0)),  # LDST8_ABS_LO12_NC
    279: Kind(_TO, 4, _branch(14, 5)),  # TSTBR14
    280: Kind(_TO, 4, _branch(19, 5)),  # CONDBR19
    282: Kind(_BRANCH, 4, _branch(26, 0)),  # JUMP26
    283: Kind(_BRANCH, 4, _branch(26, 0)),  # CALL26
    284: Kind(_TO, 4, _low12(1)),  # LDST16_ABS_LO12_NC
    285: Kind(_TO, 4, _low12(2)),  # LDST32_ABS_LO12_NC
    286: Kind(_TO, 4, _low12(3)),  # LDST64_ABS_LO12_NC
    299: Kind(_TO, 4, _low12(4)),  # LDST128_ABS_LO12_NC
    311: Kind(_ENTRY, 4, _pages),  # ADR_GOT_PAGE
    312: Kind(_ENTRY, 4, _low12(3)),  # LD64_GOT_LO12_NC
}
KINDS: Mapping[str, Mapping[int, Kind]] = {"x86_64": X86_64, "aarch64": AARCH64}

STUBS: Mapping[str, bytes] = {
    "x86_64": bytes.fromhex("ff2500000000"),  # jmp [rip + 0]
    "aarch64": bytes.fromhex("50000058 00021fd6"),  # ldr x16, 8; br x16
}
"""A jump to the address that follows: code elsewhere may be farther away than a branch reaches."""


def kind_of(machine: str, number: int, where: str) -> Kind:
    """A kind of relocation by its number. Raises `FileError` for one that is not known."""
    found = KINDS[machine].get(number)
    if found is None:
        raise FileError(f"{where}: relocation {number} of {machine} is not supported")
    return found


def patched(kind: Kind, old: bytes, target: int, place: int) -> bytes:
    """The bytes at a place, for a target. Raises `OverflowError` where they cannot hold it."""
    size = kind.bytes
    number = kind.patch(int.from_bytes(old, "little"), target, place)
    return struct.pack("<Q", number)[:size]
