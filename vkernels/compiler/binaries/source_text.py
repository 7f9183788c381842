"""The operations of a TTIR text with their lines, in MLIR's generic form or in the pretty one.

It reads just what counting needs: which operation stands on which line, its operands and types, and what is in its
regions. The text was printed by MLIR, with one operation a line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import prod

from vkernels.ir.errors import FileError

MAX_LINES = 1 << 18

_OPERATION = re.compile(r"\s*(?:(?P<results>%[\w$.#:, %-]+?) = )?\"?(?P<name>[a-z_]\w*\.[\w.]+)\"?(?P<rest>.*)")
_LOCATION = re.compile(r" loc\((?:[^()]|\([^()]*\))*\)")
VALUE = re.compile(r"%[\w$.-]+(?:#\d+)?")
_ARGUMENT = re.compile(r"(%[\w$.-]+): ")
_POINTED = re.compile(r"(?:tensor<((?:\d+x)+))?!tt\.ptr<(\w+)")
_TILE = re.compile(r"tensor<((?:\d+x)+)(\w+)(?:, [^<>]*)?>")
_ITEM = re.compile(r"[a-z]+(\d+)")


@dataclass
class Operation:
    """One operation. `arguments`: of its first region's block. `last`: the line on which its regions end."""

    line: int
    name: str
    results: tuple[str, ...]
    operands: tuple[str, ...]
    rest: str
    regions: list[list[Operation]] = field(default_factory=list)
    arguments: tuple[str, ...] = ()
    last: int = 0


def read_operations(text: str) -> Operation:
    """The public function of a module. Raises `FileError` for text that has none, whose regions do not end, or that
    is longer than 2^18 lines."""
    lines = text.split("\n")
    if len(lines) > MAX_LINES:
        raise FileError(f"TTIR of more than {MAX_LINES} lines")
    top = Operation(0, "text", (), (), "", [[]])
    open_: list[Operation] = [top]
    for number, line in enumerate(lines, 1):
        bare = _LOCATION.sub("", line).rstrip()
        stripped = bare.lstrip()
        if stripped.startswith("}"):
            if len(open_) == 1:
                raise FileError(f"TTIR whose line {number} ends a region that did not begin")
            open_[-1].last = number
            if stripped.endswith("{"):
                open_[-1].regions.append([])
            else:
                open_.pop()
            continue
        if stripped.startswith("^"):
            if not open_[-1].arguments:
                open_[-1].arguments = tuple(_ARGUMENT.findall(stripped))
            continue
        found = _OPERATION.match(bare)
        if found is None:
            if stripped.startswith("module"):
                operation = Operation(number, "module", (), (), "", [[]])
                open_[-1].regions[-1].append(operation)
                open_.append(operation)
            continue
        operation = _operation(number, found)
        open_[-1].regions[-1].append(operation)
        if stripped.endswith("{"):
            operation.regions.append([])
            open_.append(operation)
    if len(open_) > 1:
        raise FileError(f"TTIR whose region of line {open_[-1].line} does not end")
    functions = [each for each in walk(top) if each.name == "tt.func" and " private " not in each.rest]
    functions = [each for each in functions if 'sym_visibility = "private"' not in each.rest]
    if len(functions) != 1:
        raise FileError(f"TTIR with {len(functions)} public functions; one is expected")
    return functions[0]


def _operation(number: int, found: re.Match[str]) -> Operation:
    results = tuple(_names(found["results"] or ""))
    name, rest = found["name"], found["rest"]
    if name == "tt.func":
        return Operation(number, name, (), (), rest, arguments=tuple(_ARGUMENT.findall(rest)))
    arguments: tuple[str, ...] = ()
    operands = tuple(VALUE.findall(rest.split(" : ")[0]))
    if name == "scf.for" and rest.lstrip().startswith("%"):  # pretty: %i = %lower to %upper step %step
        arguments, operands = operands[:1], operands[1:]
    return Operation(number, name, results, operands, rest, arguments=arguments, last=number)


def _names(results: str) -> list[str]:
    found = []
    for part in filter(None, (part.strip() for part in results.split(","))):
        name, _, count = part.partition(":")
        found += [f"{name}#{n}" for n in range(int(count))] if count.isdecimal() else [name]
    return found


def walk(operation: Operation) -> list[Operation]:
    """All operations inside one, in their order."""
    found: list[Operation] = []
    waiting = [each for region in reversed(operation.regions) for each in reversed(region)]
    while waiting:
        one = waiting.pop()
        found.append(one)
        waiting += [each for region in reversed(one.regions) for each in reversed(region)]
    return found


READS = ("tt.load", "tt.descriptor_load", "tt.experimental_descriptor_load", "tt.descriptor_gather")
WRITES = ("tt.store", "tt.descriptor_store", "tt.experimental_descriptor_store", "tt.atomic_rmw", "tt.atomic_cas")


def accessed(operation: Operation) -> tuple[int, int]:
    """Elements and bytes of device memory that a load or store names; masks are not looked at."""
    if "descriptor" in operation.name:
        tiles = _TILE.findall(operation.rest)
        if not tiles:
            return 0, 0
        count = _count(tiles[-1][0])
        return count, count * item_bytes(tiles[-1][1])
    pointed = _POINTED.search(operation.rest)
    if pointed is None:
        return 0, 0
    count = _count(pointed[1] or "")
    return count, count * item_bytes(pointed[2])


def multiply_adds(operation: Operation) -> int:
    """Multiply-adds of a `tt.dot`; 0 of anything else."""
    if operation.name not in ("tt.dot", "tt.dot_scaled"):
        return 0
    tiles = _TILE.findall(operation.rest)
    return _count(tiles[-1][0]) * int(tiles[0][0].split("x")[-2]) if len(tiles) > 2 else 0


def _count(dimensions: str) -> int:
    return prod(int(each) for each in dimensions.split("x") if each)


def item_bytes(kind: str) -> int:
    """Bytes of an element type: f16, bf16, i8, f8E4M3FN."""
    found = _ITEM.match(kind)
    return max(1, int(found[1]) // 8) if found else 4
