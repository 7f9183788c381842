"""Map an object's sections into memory, link them, and make code executable. No page is writable and executable."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from vkernels.ir.errors import FileError, SetupError

from .elf import ElfObject, Relocation, read_object
from .imports import addresses_of
from .relocate import STUBS, Goal, kind_of, patched

MAX_BYTES = 1 << 28
"""Memory that one object may take: its addresses are 32-bit offsets, and branches on AArch64 reach 128 MiB."""

STUB_BYTES = 16


@dataclass(frozen=True)
class LoadedObject:
    """Native code in memory, as long as this object lives. `addresses`: of its global functions, by name."""

    addresses: Mapping[str, int]
    size: int
    _memory: mmap.mmap = field(repr=False)

    def __getitem__(self, name: str) -> int:
        return self.addresses[name]


def load_object(data: bytes, where: str = "object", imports: Mapping[str, int] | None = None) -> LoadedObject:
    """Load an object file of this machine, and link it. `where`: its name in messages.

    `imports`: addresses of what it needs from elsewhere; those of the allowed functions of the C library unless given.
    Raises `FileError` for an object that is damaged, of another machine, or needs what is not known or not allowed,
    and `SetupError` where this system cannot load it. Nothing of it runs.
    """
    read = read_object(data, where)
    if sys.platform != "linux":
        raise SetupError(f"{where}: native code of bundles runs on Linux only, and this is {sys.platform}")
    if read.machine != platform.machine():
        raise FileError(f"{where}: code for {read.machine}; this machine is {platform.machine()}")
    if imports is None:
        imports = addresses_of(read.imported, where)
    elif missing := [name for name in read.imported if name not in imports]:
        raise FileError(f"{where}: the code needs {', '.join(missing)}, which nothing provides")
    layout = Layout.of(read, where)
    memory = mmap.mmap(-1, layout.size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    linked(read, layout, base, imports, memory, where)
    _protect(base, layout)
    exported = {
        name: base + layout.starts[symbol.section or 0] + symbol.value for name, symbol in read.exported.items()
    }
    return LoadedObject(exported, layout.size, memory)


@dataclass(frozen=True)
class Layout:
    """Where parts of an object lie, in bytes from its start: code and stubs, then from `constants` on the rest.

    `starts`: of each section; `stubs`, `entries`: of each imported or addressed symbol, by its number.
    """

    starts: Mapping[int, int]
    stubs: Mapping[int, int]
    entries: Mapping[int, int]
    constants: int
    size: int

    @staticmethod
    def of(read: ElfObject, where: str) -> Layout:
        """Lay an object out. Raises `FileError` for relocations that are not known, and for too much memory."""
        goals = {(kind_of(read.machine, each.kind, where).goal, each.symbol) for each in read.relocations}
        end, starts = 0, {}
        for is_code in (True, False):
            for number, section in read.sections.items():
                if section.is_code == is_code:
                    starts[number] = end = _up(end, section.alignment)
                    end += section.size
            if is_code:
                stubs = _placed(end, STUB_BYTES, [n for goal, n in goals if goal is Goal.BRANCH and _is_far(read, n)])
                constants = end = _up(max([end, *(at + STUB_BYTES for at in stubs.values())]), mmap.PAGESIZE)
        entries = _placed(end, 8, [number for goal, number in goals if goal is Goal.ENTRY])
        size = _up(max([end, 1, *(at + 8 for at in entries.values())]), mmap.PAGESIZE)
        if size > MAX_BYTES:
            raise FileError(f"{where}: the code takes {size} bytes; at most {MAX_BYTES} are allowed")
        return Layout(starts, stubs, entries, constants, size)


def _is_far(read: ElfObject, symbol: int) -> bool:
    return read.symbols[symbol].section is None


def _placed(start: int, size: int, symbols: list[int]) -> dict[int, int]:
    start = _up(start, size)
    return {symbol: start + size * number for number, symbol in enumerate(sorted(symbols))}


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def linked(
    read: ElfObject, layout: Layout, base: int, imports: Mapping[str, int], memory: mmap.mmap | bytearray, where: str
) -> None:
    """Write an object's sections, stubs and entries to memory, which begins at address `base`, and relocate them."""
    for number, section in read.sections.items():
        memory[layout.starts[number] : layout.starts[number] + len(section.data)] = section.data

    def address_of(number: int) -> int:
        symbol = read.symbols[number]
        return imports[symbol.name] if symbol.section is None else base + layout.starts[symbol.section] + symbol.value

    for number, at in layout.stubs.items():
        stub = STUBS[read.machine]
        memory[at : at + len(stub) + 8] = stub + address_of(number).to_bytes(8, "little")
    for number, at in layout.entries.items():
        memory[at : at + 8] = address_of(number).to_bytes(8, "little")
    for each in read.relocations:
        _relocate(read, layout, base, each, address_of(each.symbol), memory, where)


def _relocate(
    read: ElfObject, layout: Layout, base: int, each: Relocation, address: int, memory: mmap.mmap | bytearray,
    where: str,
) -> None:  # fmt: skip
    kind, section = kind_of(read.machine, each.kind, where), read.sections[each.section]
    if each.offset + kind.bytes > len(section.data):
        raise FileError(f"{where}: a relocation lies outside of section {section.name}")
    if kind.goal is Goal.ENTRY:
        address = base + layout.entries[each.symbol]
    elif kind.goal is Goal.BRANCH and each.symbol in layout.stubs:
        address = base + layout.stubs[each.symbol]
    at = layout.starts[each.section] + each.offset
    try:
        memory[at : at + kind.bytes] = patched(
            kind, bytes(memory[at : at + kind.bytes]), address + each.addend, base + at
        )
    except OverflowError as error:
        raise FileError(f"{where}: relocation {each.kind} in {section.name}: {error}") from None


def _protect(base: int, layout: Layout) -> None:
    """Make code readable and executable, the rest readable."""
    process = ctypes.CDLL(None, use_errno=True)
    change = process.mprotect
    change.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    ranges = (
        (base, layout.constants, mmap.PROT_READ | mmap.PROT_EXEC),
        (base + layout.constants, layout.size - layout.constants, mmap.PROT_READ),
    )
    for start, size, protection in ranges:
        if size and change(start, size, protection) != 0:
            why = os.strerror(ctypes.get_errno())
            raise SetupError(f"this system does not let native code be loaded (mprotect: {why})")
