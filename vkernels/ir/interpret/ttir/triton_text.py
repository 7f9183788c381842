"""Parse TTIR as Triton prints it: operations of the tt dialect in their custom form, and source locations by alias.

Each operation of the tt dialect is rewritten into MLIR's generic form, line by line; what is generic already, and the
other dialects, stay as they are. It is for text of Triton's own printer, whose layout of lines is fixed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.cf import Cf

from ...analysis.descriptors import MOST_POSITIONS
from ...dialect import tt
from ...errors import IRError, UnsupportedError
from ...text import parse_module
from .plain import device_function

_ALIAS = re.compile(r"^#loc(\d*) = loc\((.*)\)$", re.MULTILINE)
_PLACE = re.compile(r'^"((?:[^"\\]|\\.)*)":(\d+):(\d+)$')
_NAMED = re.compile(r'^"(?:[^"\\]|\\.)*"\(#loc(\d*)\)$')
_CALL = re.compile(r"^callsite\(#loc(\d*) at #loc(\d*)\)$")
_LOCATION = re.compile(r' loc\((?:#loc(\d*)|unknown|callsite\([^()]*\)|"(?:[^"\\]|\\.)*"\(#loc\d*\))\)')
_TT = re.compile(r"^(?P<indent>\s*)(?:(?P<results>%[\w.$#:, %-]+) = )?(?P<name>tt\.[\w.]+)(?P<rest>\b.*)$")
_DESCRIPTOR = re.compile(r"!tt\.tensordesc(<[^<>]*>)")
_FUNCTION = re.compile(r"^(\s*)tt\.func (?:public|private) @([\w.]+)\((.*)\)(?: attributes \{.*\})? \{$")
_UNREGISTERED = re.compile(r"Operation ([\w.]+) is not registered")
_ARGUMENT = re.compile(r"(%[\w.$-]+): ((?:!tt\.\w+<(?:[^<>]|<[^<>]*>)*>|[\w]+))(?: (\{[^}]*\}))?")

Place = tuple[str, int, int]

_PRECISIONS = {"tf32": 0, "ieee": 2, "tf32x3": 2}
_DIMENSIONS = {"x": 0, "y": 1, "z": 2}
_ATOMICS = {"and": 1, "or": 2, "xor": 3, "add": 4, "fadd": 5, "max": 6, "min": 7, "umax": 8, "umin": 9, "exch": 10}
_SEMANTICS = {"relaxed": 1, "acquire": 2, "release": 3, "acq_rel": 4}
_SCOPES = {"gpu": 1, "cta": 2, "sys": 3}
_ROUNDINGS = {"rtne": 1}


def parse_triton(text: str, is_own: Callable[[str], bool] = lambda file: True) -> ModuleOp:
    """The module that Triton printed. `is_own`: whether a file has the author's lines; of inlined calls, the innermost
    line of such a file is an operation's place.

    Raises `UnsupportedError` for an operation that the interpreter does not have, `IRError` for text that is not as
    Triton prints it.
    """
    places = _places(text, is_own)
    body = _DESCRIPTOR.sub(lambda found: f"!tt.tensordesc{_with_tensor(found[1])}", _ALIAS.sub("", text))
    body = body.replace("scf.while : (", "scf.while () : (")  # which is how xDSL has a loop that carries nothing
    lines = [_generic(line, places) for line in body.splitlines() if line.strip()]
    try:
        return parse_module(_with_closed_functions(lines), "Triton's IR", (tt.TT, tt.GPU, tt.LLVM, Cf))
    except IRError as error:
        if found := _UNREGISTERED.search(str(error)):
            raise UnsupportedError(f"{found[1]} is not interpreted") from error
        raise


def _places(text: str, is_own: Callable[[str], bool]) -> Mapping[str, Place]:
    """The place of each alias, by its number."""
    aliases = dict(_ALIAS.findall(text))

    def place(number: str, depth: int = 0) -> Place | None:
        said = aliases.get(number, "")
        if depth > len(aliases):
            return None
        if found := _PLACE.match(said):
            return found[1], int(found[2]), int(found[3])
        if found := _NAMED.match(said):
            return place(found[1], depth + 1)
        if found := _CALL.match(said):
            inner = place(found[1], depth + 1)
            return inner if inner is not None and is_own(inner[0]) else place(found[2], depth + 1)
        return None

    return {number: found for number in aliases if (found := place(number)) is not None}


def _generic(line: str, places: Mapping[str, Place]) -> str:
    """A line with its operation in the generic form, and its location in full."""
    numbers = _LOCATION.findall(line)
    line = _LOCATION.sub("", line).rstrip()
    place = places.get(numbers[-1]) if numbers else None
    located = "" if place is None else f' loc("{place[0]}":{place[1]}:{place[2]})'
    if function := _FUNCTION.match(line):
        return _function(*function.groups())
    if line.endswith(("({", "{")) or line.lstrip().startswith(("^", "module")):
        return line
    for pattern, write in _OTHER_FORMS:
        if found := pattern.match(line):
            return write(found) + located
    operation = _TT.match(line)
    if operation is not None and operation["name"] == "tt.print":
        return ""
    if operation is None:
        return line + (located if line.strip() not in ("}", "") else "")
    rewritten = _rewritten(operation["name"], operation["rest"])
    results = f"{operation['results']} = " if operation["results"] else ""
    return f"{operation['indent']}{results}{rewritten}{located}"


def _function(indent: str, name: str, arguments: str) -> str:
    found = _ARGUMENT.findall(arguments)
    types = ", ".join(type_ for _, type_, _ in found)
    attributes = ", ".join(given or "{}" for _, _, given in found)
    block = ", ".join(f"{value}: {type_}" for value, type_, _ in found)
    return (
        f'{indent}"tt.func"() <{{sym_name = "{name}", function_type = ({types}) -> (), sym_visibility = "public", '
        f"arg_attrs = [{attributes}]}}> ({{\n^bb0({block}):"
    )


def _with_closed_functions(lines: Sequence[str]) -> str:
    """The text; the brace that ends a function, indented as its first line, ends the generic form's region."""
    ended: list[str] = []
    indent: str | None = None
    for line in lines:
        if line.lstrip().startswith('"tt.func"'):
            indent = line[: len(line) - len(line.lstrip())]
        elif indent is not None and line == indent + "}":
            line, indent = indent + "}) : () -> ()", None
        ended.append(line)
    return "\n".join(ended)


def _rewritten(name: str, rest: str) -> str:
    """One operation in the generic form. `rest`: what stands behind its name."""
    said, _, types = rest.rpartition(" : ")
    if not types:
        said = rest
    write = _FORMS.get(name)
    if write is None:
        raise UnsupportedError(f"{name} is not interpreted")
    return write(name, said.strip(), types.strip())


def _operands(said: str) -> list[str]:
    return re.findall(r"%[\w.$-]+(?:#\d+)?", said)


def _attributes(said: str) -> str:
    """What stands in braces."""
    found = re.search(r"\{(.*)\}", said)
    return found[1] if found else ""


def _form(name: str, operands: Sequence[str], properties: str, taken: Sequence[str], results: str) -> str:
    shown = f" <{{{properties}}}>" if properties else ""
    return f'"{name}"({", ".join(operands)}){shown} : ({", ".join(taken)}) -> {results}'


def _unary(name: str, said: str, types: str) -> str:
    before, _, after = types.partition(" -> ")
    properties = _attributes(said)
    if rounding := re.search(r"rounding = (\w+)", said):
        if rounding[1] not in _ROUNDINGS:
            raise UnsupportedError(f"{name} with rounding {rounding[1]} is not interpreted")
        properties = f"rounding = {_ROUNDINGS[rounding[1]]} : i32"
    return _form(name, _operands(said)[:1], properties, [before], after)


def _join(name: str, said: str, types: str) -> str:
    before, _, after = types.partition(" -> ")
    return _form(name, _operands(said), "", [before, before], after)


def _split(name: str, said: str, types: str) -> str:
    before, _, after = types.partition(" -> ")
    return _form(name, _operands(said), "", [before], f"({after}, {after})")


def _gather(name: str, said: str, types: str) -> str:
    taken, _, result = types.partition(" -> ")
    axis = re.search(r"axis = \d+ : i32", said)
    return _form(name, _operands(said), axis[0] if axis else "", [taken.strip("()")], result)


def _histogram(name: str, said: str, types: str) -> str:
    before, _, after = types.partition(" -> ")
    operands = _operands(said)
    return _form(name, operands, "", [before, _of_shape(before, "i1")][: len(operands)], after)


def _extern(name: str, said: str, types: str) -> str:
    found = re.search(r'symbol = "([^"]*)"', said)
    symbol = found[1] if found else ""
    if device_function(symbol) is None:
        raise UnsupportedError(f"{name} of {symbol or 'an unknown function'} is not interpreted")
    taken, _, result = types.partition(" -> ")
    operands = _operands(said.partition("{")[0])
    return _form(name, operands, f'symbol = "{symbol}"', [taken.removeprefix("(").removesuffix(")")], result)


def _make_descriptor(name: str, said: str, types: str) -> str:
    """Boxes of more positions than hardware copies at once are several copies: these are not interpreted."""
    if "padding" in said:
        raise UnsupportedError(f"{name} with a padding is not interpreted")
    base, _, block = types.partition(", ")
    sizes = [int(size) for size in re.findall(r"(\d+)x", block)]
    if max(sizes, default=0) > MOST_POSITIONS:
        raise UnsupportedError(f"{name} with boxes of more than {MOST_POSITIONS} positions is not interpreted")
    rank = len(sizes)
    taken = [f"!tt.ptr{base}", *["i32"] * rank, *["i64"] * rank]
    return _form(name, _operands(said), "", taken, f"!tt.tensordesc{_with_tensor(block)}")


def _descriptor_load(name: str, said: str, types: str) -> str:
    descriptor, _, result = types.partition(" -> ")
    operands = _operands(said)
    return _form(name, operands, "", [descriptor, *["i32"] * (len(operands) - 1)], result)


def _descriptor_store(name: str, said: str, types: str) -> str:
    descriptor, _, stored = types.partition(", ")
    first, *indices, value = _operands(said)
    return _form(name, [first, value, *indices], "", [descriptor, stored, *["i32"] * len(indices)], "()")


def _with_tensor(block: str) -> str:
    """The block of a descriptor as Triton 3.6 spells it: `<tensor<4x8xf32>>`, without the sign of integers."""
    inner = re.sub(r"x[su]i(\d+)$", r"xi\1", block[1:-1])
    return block if inner.startswith("tensor<") else f"<tensor<{inner}>>"


def _make_range(name: str, said: str, types: str) -> str:
    return _form(name, [], _attributes(said), [], types)


def _grid(name: str, said: str, types: str) -> str:
    return _form(name, [], f"axis = {_DIMENSIONS[said]} : i32", [], types)


def _same_type(name: str, said: str, types: str) -> str:
    operands = _operands(said)
    return _form(name, operands, "", [types] * len(operands), types)


def _add_pointer(name: str, said: str, types: str) -> str:
    pointer, _, offset = types.rpartition(", ")
    return _form(name, _operands(said), "", [pointer, offset], pointer)


def _shape(type_: str) -> str:
    """`64x32x` of a tensor; nothing of a scalar."""
    found = re.match(r"tensor<((?:\d+x)+)", type_)
    return found[1] if found else ""


def _of_shape(type_: str, element: str) -> str:
    return f"tensor<{_shape(type_)}{element}>" if _shape(type_) else element


def _pointee(type_: str) -> str:
    """The type of elements that pointers of a type point to."""
    found = re.search(r"!tt\.ptr<(.*?)(?:, \d+)?>", type_)
    if found is None:
        raise UnsupportedError(f"accesses by {type_} are not interpreted")
    return _of_shape(type_, found[1])


def _load(name: str, said: str, types: str) -> str:
    operands = _operands(said)
    taken = [types, _of_shape(types, "i1"), _pointee(types)][: len(operands)]
    segments = ", ".join(str(int(number < len(operands))) for number in range(3))
    return _form(name, operands, f"operandSegmentSizes = array<i32: {segments}>", taken, _pointee(types))


def _store(name: str, said: str, types: str) -> str:
    operands = _operands(said)
    return _form(name, operands, "", [types, _pointee(types), _of_shape(types, "i1")][: len(operands)], "()")


def _atomic(name: str, said: str, types: str) -> str:
    kind, semantics, scope = (word.strip() for word in said.split(",")[:3])
    if kind not in _ATOMICS:
        raise UnsupportedError(f"{name} {kind} is not interpreted")
    properties = f"atomic_rmw_op = {_ATOMICS[kind]} : i32, {_ordering(semantics, scope)}"
    return _update(name, said, types, properties)


def _compare_and_swap(name: str, said: str, types: str) -> str:
    semantics, scope = (word.strip() for word in said.split(",")[:2])
    return _update(name, said, types, _ordering(semantics, scope))


def _ordering(semantics: str, scope: str) -> str:
    return f"sem = {_SEMANTICS[semantics]} : i32, scope = {_SCOPES[scope]} : i32"


def _update(name: str, said: str, types: str, properties: str) -> str:
    taken, _, result = types.partition(" -> ")
    return f'"{name}"({", ".join(_operands(said))}) <{{{properties}}}> : {taken} -> {result}'


def _dot(name: str, said: str, types: str) -> str:
    operands, _, result = types.partition(" -> ")
    left, _, right = operands.partition(" * ")
    found = re.search(r"inputPrecision = (\w+)", said)
    precision = _PRECISIONS[found[1]] if found and found[1] in _PRECISIONS else 2
    properties = f"inputPrecision = {precision} : i32, maxNumImpreciseAcc = 0 : i32"
    return _form(name, _operands(said), properties, [left, right, result], result)


def _return(name: str, said: str, types: str) -> str:
    return _form(name, _operands(said), "", [types] if types else [], "()")


def _constant_of_bits(found: re.Match[str]) -> str:
    """A constant tensor of an infinity or of NaN: xDSL takes the bits of scalars only."""
    indent, name, bits, type_, element = found.groups()
    return (
        f"{indent}{name}_bits = arith.constant {bits} : {element}\n"
        f'{indent}{name} = "tt.splat"({name}_bits) : ({element}) -> {type_}'
    )


def _clamp(found: re.Match[str]) -> str:
    indent, name, value, low, high, propagates, type_ = found.groups()
    most, least = ("maxnumf", "minnumf") if propagates == "none" else ("maximumf", "minimumf")
    first = f"{indent}{name}_low = arith.{most} {value}, {low} : {type_}"
    return f"{first}\n{indent}{name} = arith.{least} {name}_low, {high} : {type_}"


def _high_product(found: re.Match[str]) -> str:
    indent, name, left, right, type_ = found.groups()
    both = f"({type_}, {type_})"
    return f'{indent}{name}_low, {name} = "arith.mului_extended"({left}, {right}) : {both} -> {both}'


_OTHER_FORMS: Sequence[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]] = (
    (
        re.compile(r"^(\s*)(\S+) = arith\.constant dense<(0x[0-9A-F]+)> : (tensor<(?:\d+x)+(b?f\d+)>)$"),
        _constant_of_bits,
    ),
    (re.compile(r"^(\s*)(\S+) = tt\.clampf (\S+), (\S+), (\S+), propagateNan = (\w+) : (.*)$"), _clamp),
    (re.compile(r"^(\s*)(\S+) = tt\.mulhiui (\S+), (\S+) : (.*)$"), _high_product),
    (re.compile(r"^(\s*)(?:ttg\.barrier [\w|]+|gpu\.barrier)$"), lambda found: f'{found[1]}"gpu.barrier"() : () -> ()'),
)
"""Lines that become operations of other dialects."""

_FORMS: Mapping[str, Callable[[str, str, str], str]] = {
    "tt.get_program_id": _grid, "tt.get_num_programs": _grid, "tt.make_range": _make_range,
    **dict.fromkeys(
        ("tt.splat", "tt.unsplat", "tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans", "tt.bitcast",
         "tt.ptr_to_int", "tt.fp_to_fp"), _unary,
    ),
    "tt.join": _join, "tt.precise_sqrt": _same_type, "tt.precise_divf": _same_type, "tt.addptr": _add_pointer,
    "tt.load": _load, "tt.store": _store, "tt.atomic_rmw": _atomic, "tt.dot": _dot, "tt.return": _return,
    "tt.atomic_cas": _compare_and_swap,
    "tt.reduce.return": _return, "tt.scan.return": _return, "tt.split": _split, "tt.cat": _join,
    "tt.make_tensor_descriptor": _make_descriptor, "tt.descriptor_load": _descriptor_load,
    "tt.descriptor_store": _descriptor_store, "tt.gather": _gather, "tt.histogram": _histogram,
    "tt.extern_elementwise": _extern,
}  # fmt: skip
