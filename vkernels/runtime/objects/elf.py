"""Read relocatable ELF objects of 64 bits, little-endian: sections, symbols and relocations, each checked."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from vkernels.ir.errors import FileError

MACHINES: Mapping[int, str] = {62: "x86_64", 183: "aarch64"}
"""ELF's numbers of machines, and `platform`'s names of them."""

MAX_ALIGNMENT = 4096
SYMTAB, RELA, NOBITS, REL, SYMTAB_SHNDX = 2, 4, 8, 9, 18
WRITE, ALLOC, EXECUTE = 1, 2, 4
UNDEFINED, RESERVED = 0, 0xFF00
SECTION_SYMBOL, FILE_SYMBOL = 3, 4
_ELSEWHERE = ".eh_frame"
"""How exceptions unwind the stack: our code raises none, so it is not loaded."""

_HEADER = struct.Struct("<4s5B7xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")


@dataclass(frozen=True)
class Section:
    """A section that is loaded. `size` is in bytes; `data` is shorter where the rest is zeros."""

    name: str
    data: bytes
    size: int
    alignment: int
    is_code: bool


@dataclass(frozen=True)
class Symbol:
    """A place in a loaded section, by the section's number; or a name from elsewhere, whose `section` is None."""

    name: str
    section: int | None
    value: int
    is_global: bool


@dataclass(frozen=True)
class Relocation:
    """A place in a section, by its number, that depends on where a symbol is. `kind`: of the machine's ABI."""

    section: int
    offset: int
    kind: int
    symbol: int
    addend: int


@dataclass(frozen=True)
class ElfObject:
    """The parts of an object that are loaded. `sections` and `symbols`: by their numbers in the file."""

    machine: str
    sections: Mapping[int, Section] = field(repr=False)
    symbols: Mapping[int, Symbol] = field(repr=False)
    relocations: tuple[Relocation, ...] = field(repr=False)

    @property
    def imported(self) -> tuple[str, ...]:
        """Names that relocations need from elsewhere, sorted."""
        used = (self.symbols[relocation.symbol] for relocation in self.relocations)
        return tuple(sorted({symbol.name for symbol in used if symbol.section is None}))

    @property
    def exported(self) -> Mapping[str, Symbol]:
        """Global symbols that are defined here, by name."""
        return {each.name: each for each in self.symbols.values() if each.is_global and each.section is not None}


def read_object(data: bytes, where: str = "object") -> ElfObject:
    """Read an object file. `where`: its name in messages.

    Raises `FileError` for what is no such object, or is damaged, or has data that code may write.
    """
    try:
        return _read(data, where)
    except (struct.error, IndexError, OverflowError, UnicodeDecodeError) as error:
        raise FileError(f"{where}: damaged object file: {error}") from None


def _read(data: bytes, where: str) -> ElfObject:
    magic, bits, order, *_, kind, number, _, _, _, at, _, _, _, _, size, count, names_at = _HEADER.unpack_from(data)
    if magic != b"\x7fELF" or (bits, order, kind) != (2, 1, 1):
        raise FileError(f"{where}: not a relocatable object file (ELF, 64 bits, little-endian)")
    if number not in MACHINES:
        raise FileError(f"{where}: an object for machine {number} of ELF; known are {', '.join(MACHINES.values())}")
    if size != _SECTION.size:
        raise FileError(f"{where}: damaged object file: sections of {size} bytes")
    headers = [_SECTION.unpack_from(data, at + size * each) for each in range(count)]
    names = _content(data, headers[names_at], where)
    sections = {n: found for n, header in enumerate(headers) if (found := _section(data, header, names, where))}
    tables = [header for header in headers if header[1] == SYMTAB]
    if len(tables) > 1 or any(header[1] in (SYMTAB_SHNDX, REL) for header in headers):
        raise FileError(f"{where}: object file with tables that are not supported")
    symbols = _symbols(data, tables[0], headers, sections, where) if tables else {}
    relocations = [
        relocation
        for header in headers
        if header[1] == RELA and header[7] in sections
        for relocation in _relocations(data, header, sections, symbols, where)
    ]
    return ElfObject(MACHINES[number], sections, symbols, tuple(relocations))


def _content(data: bytes, header: tuple[int, ...], where: str) -> bytes:
    begin, size = header[4], header[5]
    if begin + size > len(data):
        raise FileError(f"{where}: truncated object file")
    return data[begin : begin + size]


def _text(table: bytes, at: int) -> str:
    return table[at : table.index(b"\0", at)].decode() if 0 <= at < len(table) and 0 in table[at:] else ""


def _section(data: bytes, header: tuple[int, ...], names: bytes, where: str) -> Section | None:
    """The section if it is loaded."""
    name_at, kind, flags, _, _, size, _, _, alignment, _ = header
    name = _text(names, name_at)
    if not flags & ALLOC or size == 0 or name == _ELSEWHERE:
        return None
    is_constant = name.startswith(".data.rel.ro")
    if flags & WRITE and not is_constant:
        raise FileError(f"{where}: section {name} may be written; code in bundles has constants only")
    if alignment & (alignment - 1) or alignment > MAX_ALIGNMENT:
        raise FileError(f"{where}: section {name} has alignment {alignment}")
    content = b"" if kind == NOBITS else _content(data, header, where)
    return Section(name, content, size, max(1, alignment), bool(flags & EXECUTE))


def _symbols(
    data: bytes, header: tuple[int, ...], headers: list[tuple[int, ...]], sections: Mapping[int, Section], where: str
) -> dict[int, Symbol]:
    table, names = _content(data, header, where), _content(data, headers[header[6]], where)
    found = {}
    for number in range(1, len(table) // _SYMBOL.size):
        name_at, info, _, section, value, _ = _SYMBOL.unpack_from(table, number * _SYMBOL.size)
        name, is_global = _text(names, name_at), info >> 4 != 0
        if section == UNDEFINED:
            found[number] = Symbol(name, None, 0, is_global)
        elif section in sections:
            if value > sections[section].size:
                raise FileError(f"{where}: symbol {name!r} lies outside of its section")
            found[number] = Symbol(name, section, value, is_global)
        elif section >= RESERVED and info & 15 != FILE_SYMBOL:
            raise FileError(f"{where}: symbol {name!r} has no section")
    return found


def _relocations(
    data: bytes, header: tuple[int, ...], sections: Mapping[int, Section], symbols: Mapping[int, Symbol], where: str
) -> list[Relocation]:
    table, section = _content(data, header, where), header[7]
    found = []
    for at in range(0, len(table), _RELOCATION.size):
        offset, info, addend = _RELOCATION.unpack_from(table, at)
        symbol, kind = info >> 32, info & 0xFFFFFFFF
        if symbol not in symbols:
            raise FileError(f"{where}: a relocation refers to symbol {symbol}, which is not loaded")
        if offset >= len(sections[section].data):
            raise FileError(f"{where}: a relocation lies outside of section {sections[section].name}")
        found.append(Relocation(section, offset, kind, symbol, addend))
    return found
