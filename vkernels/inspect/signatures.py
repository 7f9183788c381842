"""What the command line says of a plain Triton kernel's parameters: `*fp16:16,*fp16:16,i32` and `BLOCK=128`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vkernels.ir.errors import OptionError

Value = bool | int | float | str | None
"""What a constant parameter can be given."""

NUMBERS = (
    "fp8e4nv", "fp8e4b8", "fp8e4b15", "fp8e5", "fp8e5b16", "fp16", "bf16", "fp32", "fp64", "i1", "i8", "i16", "i32",
    "i64", "u1", "u8", "u16", "u32", "u64",
)  # fmt: skip
"""Triton's names of types."""

_TYPE = re.compile(rf"(?:\*k?)?(?:{'|'.join(NUMBERS)})")
_DESCRIPTOR = re.compile(rf"tensordesc<(?:{'|'.join(NUMBERS)})\[[1-9][0-9]*(?:,[1-9][0-9]*){{0,4}}\]>")
_INTEGER = re.compile(r"[+-]?\d+")
_NAME = re.compile(r"[A-Za-z_]\w*")
_WORDS: Mapping[str, Value] = {"True": True, "False": False, "None": None}


@dataclass(frozen=True)
class TritonParameter:
    """A parameter of a plain Triton kernel. `constant`: declared `tl.constexpr`; `optional`: it has a default."""

    name: str
    constant: bool
    optional: bool = False


@dataclass(frozen=True)
class JitSignature:
    """What a plain Triton kernel is compiled for, by parameter.

    `types`: Triton's spelling of the type of each that is passed at a launch. `constants`: values of the others.
    `divisible`: those of `types` that are multiples of 16: addresses in bytes, integers as they are.
    """

    types: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, Value], ...] = ()
    divisible: tuple[str, ...] = ()


def parse_value(text: str) -> Value:
    """A constant as Python writes it: True, None, 128, 1e-5; any other text is itself, its quotes taken off."""
    if text in _WORDS:
        return _WORDS[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    quoted = re.fullmatch(r"'([^']*)'|\"([^\"]*)\"", text)
    return text if quoted is None else quoted[1] or quoted[2] or ""


def parse_assignments(text: str, option: str) -> dict[str, str]:
    """`M=1024,N=64` as names and texts. Raises `OptionError` for anything else and for a name given twice."""
    given: dict[str, str] = {}
    for entry in split_at_commas(text):
        name, equals, value = (part.strip() for part in entry.partition("="))
        if not _NAME.fullmatch(name) or not equals or not value:
            raise OptionError(f"{option}: expected NAME=VALUE, got {entry!r}")
        if name in given:
            raise OptionError(f"{option}: {name} is given twice")
        given[name] = value
    return given


def split_at_commas(text: str) -> list[str]:
    """Entries between the commas that no bracket or quote holds, without the blanks around them."""
    entries, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        depth += 0 if quote else (letter in "<[(") - (letter in ">])")
        if letter == "," and depth == 0 and not quote:
            entries.append("")
        else:
            entries[-1] += letter
    return [entry.strip() for entry in entries]


def parse_signature(text: str, parameters: Sequence[TritonParameter], constants: Mapping[str, Value]) -> JitSignature:
    """What a signature says of a kernel's parameters, in their order; the constant ones may be left out.

    An entry is a type (`*fp16`, `i32`, `tensordesc<fp16[64,32]>`), `:16` behind it where a multiple of 16 is passed,
    `:1` where a 1 is; or a constant parameter's value. `constants` gives values by name. Raises `OptionError`.
    """
    names = [parameter.name for parameter in parameters]
    for name in constants:
        if name not in names:
            raise OptionError(f"--constants: the kernel has no parameter {name}; it has {', '.join(names)}")
    types: dict[str, str] = {}
    values: dict[str, Value] = {}
    divisible: list[str] = []
    for parameter, entry in _described(text, parameters, constants):
        kind, _, hint = (part.strip() for part in entry.partition(":"))
        if parameter.constant or _INTEGER.fullmatch(entry):
            values[parameter.name] = parse_value(entry)
        elif parameter.name not in constants:
            kind = _checked(parameter.name, entry, kind.replace(" ", ""), hint)
            if hint == "1":
                values[parameter.name] = 1
                continue
            types[parameter.name] = kind
            divisible += [parameter.name] if hint else []
    return JitSignature(tuple(types.items()), tuple({**values, **constants}.items()), tuple(divisible))


def _described(
    text: str, parameters: Sequence[TritonParameter], constants: Mapping[str, Value]
) -> list[tuple[TritonParameter, str]]:
    """Each entry beside the parameter that it describes, as its number of entries tells."""
    entries = split_at_commas(text) if text.strip() else []
    plain = [p for p in parameters if not p.constant]
    passed = [p for p in plain if p.name not in constants]
    for described in (passed, plain, parameters):
        if len(described) == len(entries):
            return list(zip(described, entries, strict=True))
    names = ", ".join(p.name for p in passed) or "no parameter"
    raise OptionError(
        f"--signature has {len(entries)} entries; expected {len(passed)}, for {names}, "
        f"or one for each of the {len(parameters)} parameters"
    )


def _checked(name: str, entry: str, kind: str, hint: str) -> str:
    if not _TYPE.fullmatch(kind) and not _DESCRIPTOR.fullmatch(kind):
        raise OptionError(f"--signature: {name} is {entry!r}; expected a type such as *fp16:16, i32 or fp32")
    is_one = hint == "1" and re.fullmatch(r"[iu]\d+", kind)
    if hint not in ("", "16") and not is_one:
        raise OptionError(f"--signature: {name} is {entry!r}; expected :16, for a multiple of 16, or i32:1")
    return kind
