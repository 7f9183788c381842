"""As much of the ELF format as a cubin needs: sections and symbols of a 64-bit little-endian file."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from vkernels.ir.errors import FileError

_NOBITS = 8


@dataclass(frozen=True)
class Section:
    """`data` is empty where the file holds none for it; `size` is what it takes when loaded."""

    name: str
    size: int
    data: bytes


@dataclass(frozen=True)
class Elf:
    """Sections by name, where two share a name the first; names of symbols by index; the machine's number."""

    machine: int
    sections: dict[str, Section]
    symbols: tuple[str, ...]


def read_elf(data: bytes) -> Elf:
    """The parts of a file. Raises `FileError` for a file that is no such ELF file or is cut short."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise FileError("not a 64-bit little-endian ELF file")
    try:
        return _read(data)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise FileError("a damaged ELF file: it is cut short or points beyond its end") from error


def _read(data: bytes) -> Elf:
    (machine,) = struct.unpack_from("<H", data, 18)
    segments, table = struct.unpack_from("<QQ", data, 32)
    segment_size, segment_count, size, count, strings = struct.unpack_from("<HHHHH", data, 54)
    if max(segments + segment_size * segment_count, table + size * count) > len(data):
        raise IndexError
    headers = [struct.unpack_from("<IIQQQQ", data, table + i * size) for i in range(count)]
    names = _content(data, headers[strings])
    sections: dict[str, Section] = {}
    for header in headers[1:]:
        name = _string(names, header[0])
        sections.setdefault(name, Section(name, header[5], _content(data, header)))
    return Elf(machine, sections, _symbols(sections))


def _content(data: bytes, header: tuple[int, ...]) -> bytes:
    _, kind, _, _, offset, size = header
    if kind == _NOBITS:
        return b""
    if offset + size > len(data):
        raise IndexError
    return data[offset : offset + size]


def _symbols(sections: dict[str, Section]) -> tuple[str, ...]:
    if ".symtab" not in sections or ".strtab" not in sections:
        return ()
    table, names = sections[".symtab"].data, sections[".strtab"].data
    return tuple(_string(names, struct.unpack_from("<I", table, at)[0]) for at in range(0, len(table), 24))


def _string(table: bytes, at: int) -> str:
    end = table.find(b"\0", at)
    if at >= len(table) or end < 0:
        raise IndexError
    return table[at:end].decode()
