"""Rewrites of LLVM IR text: scratchpad accesses become plain loads and stores of shared memory.

In TTIR a scratchpad access is an opaque inline assembly call that every pass of Triton's leaves alone:
`vk.load.i8|i16|i32|i64` takes the i32 byte offset, `vk.store.…` the offset and the value; `vk.load.i32.16` is known to
be aligned to 16 bytes. Here, in LLVM IR, each becomes an ordinary access in address space 3, so that the back end
combines, schedules and waits for it like any other. Triton addresses all its shared memory from `@global_smem`; the
scratchpad follows what Triton uses.
"""

from __future__ import annotations

import re

ALIGNMENT = 128
"""Alignment in bytes of the scratchpad within a program's shared memory."""

_SYMBOL = "@global_smem"
_DECLARATION = f"{_SYMBOL} = external addrspace(3) global [0 x i8], align 16"

_CALL = re.compile(
    r"""^(?P<indent>\s*)(?P<result>%[-\w.$]+)\ =\ (?:tail\ |notail\ )?call\ (?P<type>i32|i64)\ asm\ sideeffect
        \ (?:alignstack\ |inteldialect\ |unwind\ )*
        "vk\.(?P<kind>load|store)\.i(?P<bits>8|16|32|64)(?:\.(?P<alignment>\d+))?",\ "[^"]*"
        \((?P<operands>[^()]*)\)(?:\ \#\d+)*(?P<metadata>(?:,\ ![^,]+)*)$""",
    re.VERBOSE,
)
_OPERAND = re.compile(r"(i32|i64) (?:(?:noundef|signext|zeroext|inreg) )*([^\s,]+)")
_PLACE = re.compile(r", !dbg !\d+")
_DEFINITION = re.compile(r"^define\b", re.MULTILINE)


def scratchpad_start(shared: int) -> int:
    """Where the scratchpad starts, in bytes, if Triton itself uses `shared` bytes of shared memory."""
    return -(-shared // ALIGNMENT) * ALIGNMENT


def place_scratchpad(llvm_ir: str, start: int) -> str:
    """The same module with each scratchpad access a plain load or store `start` bytes into shared memory, and on.

    A module without any is returned as it is. Raises `RuntimeError` for an access of an unknown form, since it
    was generated.
    """
    if '"vk.' not in llvm_ir:
        return llvm_ir
    lines = enumerate(llvm_ir.split("\n"))
    text = "\n".join(_access(line, number, start) if '"vk.' in line else line for number, line in lines)
    if f"\n{_SYMBOL} = " not in f"\n{text}":
        text = _DEFINITION.sub(f"{_DECLARATION}\n\ndefine", text, count=1)
    return text


def _access(line: str, number: int, start: int) -> str:
    """The instructions for one call. What they define has names, so unnamed values keep their numbers."""
    match = _CALL.match(line)
    operands = _OPERAND.findall(match["operands"]) if match else []
    if not match or not _fits(match, [kind for kind, _ in operands]):
        raise RuntimeError(f"a scratchpad access of unknown form in LLVM IR: {line.strip()}")
    result, wide, narrow = match["result"], match["type"], f"i{match['bits']}"
    pointer, value = f"%vk.pointer.{number}", f"%vk.value.{number}"
    place = _PLACE.search(match["metadata"])
    tail = place[0] if place else ""
    memory = f"ptr addrspace(3) {pointer}, align {match['alignment'] or int(match['bits']) // 8}{tail}"
    base = f"getelementptr (i8, ptr addrspace(3) {_SYMBOL}, i32 {start})" if start else _SYMBOL
    lines = [f"{pointer} = getelementptr i8, ptr addrspace(3) {base}, i32 {operands[0][1]}{tail}"]
    if match["kind"] == "load" and narrow == wide:
        lines += [f"{result} = load {narrow}, {memory}"]
    elif match["kind"] == "load":
        lines += [f"{value} = load {narrow}, {memory}", f"{result} = zext {narrow} {value} to {wide}{tail}"]
    else:
        stored, kind = operands[1][1], operands[1][0]
        if narrow != kind:
            lines += [f"{value} = trunc {kind} {stored} to {narrow}{tail}"]
            stored = value
        lines += [f"store {narrow} {stored}, {memory}", f"{result} = add i32 0, 0{tail}"]
    return "\n".join(match["indent"] + text for text in lines)


def _fits(match: re.Match[str], kinds: list[str]) -> bool:
    wide = "i64" if match["bits"] == "64" else "i32"
    if match["kind"] == "load":
        return kinds == ["i32"] and match["type"] == wide
    return kinds == ["i32", wide] and match["type"] == "i32"
