"""Expressions: each kind of syntax node, evaluated to a value."""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import ModuleType
from typing import Any

from vkernels.ir.errors import SourceError, TypeMismatchError, UnknownNameError, UnsupportedError

from ..dtypes import DType
from ..values import AddressableValue, Affine, Axis, Operand, Scratch, SubscriptReference, Tensor, Tile
from .arithmetic import PYTHON, is_number
from .branches import choose
from .calls import call
from .describe import describe
from .frame import CallFrame, did_you_mean

BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], str] = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~"}


def evaluate(frame: CallFrame, node: ast.expr) -> Any:
    """The value of an expression; operations that it needs are built. Raises the author's mistakes."""
    handler = _HANDLERS.get(type(node))
    if handler is None:
        kind = _UNSUPPORTED.get(type(node), f"this expression ({type(node).__name__})")
        raise frame.error(node, UnsupportedError, f"{kind} cannot be used in a kernel", _INSTEAD.get(type(node), ""))
    return handler(frame, node)


def _constant(frame: CallFrame, node: ast.Constant) -> Any:
    return node.value


def _name(frame: CallFrame, node: ast.Name) -> Any:
    return frame.lookup(node)


def _tuple(frame: CallFrame, node: ast.Tuple | ast.List) -> Any:
    return tuple(evaluate(frame, element) for element in node.elts)


def _binary(frame: CallFrame, node: ast.BinOp) -> Any:
    left, right = evaluate(frame, node.left), evaluate(frame, node.right)
    return binary(frame, node, node.op, (node.left, left), (node.right, right))


def binary(
    frame: CallFrame, node: ast.AST, operator: ast.operator, left: tuple[ast.AST, Any], right: tuple[ast.AST, Any]
) -> Any:
    """A binary operator on two evaluated operands, each with its node."""
    if type(operator) not in BINARY:
        raise frame.error(node, UnsupportedError, "`@` cannot be used in a kernel", "Write `vk.dot(a, b)`.")
    name = BINARY[type(operator)]
    a, b = left[1], right[1]
    with frame.at(node, (left, right)):
        if _is_built(a) or _is_built(b):
            return frame.builder.binary(name, a, b)
        try:
            return PYTHON[name](a, b)
        except (TypeError, ValueError, ArithmeticError) as error:
            raise frame.error(node, TypeMismatchError, f"Python cannot compute this: {error}") from None


def _is_built(value: Any) -> bool:
    return isinstance(value, Operand | AddressableValue)


def _unary(frame: CallFrame, node: ast.UnaryOp) -> Any:
    value = evaluate(frame, node.operand)
    if isinstance(node.op, ast.Not):
        if isinstance(value, Operand):
            _need_scalar(frame, node.operand, value, "`not`", "Write `~mask`.")
            with frame.at(node):
                return frame.builder.unary("~", frame.builder.condition(frame.builder.tile(value)))
        return not value
    with frame.at(node, [(node.operand, value)]):
        if _is_built(value) or is_number(value):
            return frame.builder.unary(_UNARY[type(node.op)], value)
    raise frame.error(node, TypeMismatchError, f"expected a tile or a number, found {describe(value)}")


def _compare(frame: CallFrame, node: ast.Compare) -> Any:
    left_node, left = node.left, evaluate(frame, node.left)
    result: Any = True
    for operator, right_node in zip(node.ops, node.comparators, strict=True):
        right = evaluate(frame, right_node)
        one = _compared(frame, node, operator, (left_node, left), (right_node, right))
        if result is True:
            result = one
        elif result is not False and one is not True:
            with frame.at(node):
                result = False if one is False else frame.builder.binary("&", result, one)
        left_node, left = right_node, right
    return result


def _compared(
    frame: CallFrame, node: ast.Compare, operator: ast.cmpop, left: tuple[ast.AST, Any], right: tuple[ast.AST, Any]
) -> Any:
    a, b = left[1], right[1]
    if isinstance(operator, ast.Is | ast.IsNot):
        return (a is b) == isinstance(operator, ast.Is)
    if isinstance(operator, ast.In | ast.NotIn):
        if _is_built(a) or _is_built(b):
            raise frame.error(node, UnsupportedError, "`in` works on what is known when building only")
        return (a in b) == isinstance(operator, ast.In)
    name = _COMPARISONS[type(operator)]
    numeric = all(isinstance(v, Operand | AddressableValue) or is_number(v) for v in (a, b))
    with frame.at(node, (left, right)):
        if numeric or ((_is_built(a) or _is_built(b)) and name not in ("==", "!=")):
            return frame.builder.compare(name, a, b)
        if _is_built(a) or _is_built(b):
            other = b if _is_built(a) else a
            if isinstance(a, Axis) or isinstance(b, Axis) or other is None:
                return name == "!="
            return frame.builder.compare(name, a, b)
        try:
            return PYTHON[name](a, b)
        except TypeError as error:
            raise frame.error(node, TypeMismatchError, f"Python cannot compare this: {error}") from None


def _logical(frame: CallFrame, node: ast.BoolOp) -> Any:
    """`and` and `or`: Python's on what is known when building, else of scalars."""
    word, symbol = ("and", "&") if isinstance(node.op, ast.And) else ("or", "|")
    result: Any = None
    for operand in node.values:
        value = evaluate(frame, operand)
        if not isinstance(value, Operand):
            if bool(value) == (word == "or"):
                return value if result is None else word == "or"
            result = value if result is None else result
            continue
        _need_scalar(frame, operand, value, f"`{word}`", f"Combine masks with `{symbol}`, each in parentheses.")
        with frame.at(node):
            value = frame.builder.condition(frame.builder.tile(value))
            result = frame.builder.binary(symbol, result, value) if isinstance(result, Tile) else value
    return result


def _need_scalar(frame: CallFrame, node: ast.AST, value: Any, what: str, help: str) -> None:
    if not isinstance(value, Tile) or value.axes:
        message = f"{what} works on scalars, found {describe(value)}"
        raise frame.error(node, TypeMismatchError, message, help)


def _conditional(frame: CallFrame, node: ast.IfExp) -> Any:
    return choose(
        frame,
        node.test,
        evaluate(frame, node.test),
        node,
        lambda: evaluate(frame, node.body),
        lambda: evaluate(frame, node.orelse),
    )


def _subscript(frame: CallFrame, node: ast.Subscript) -> Any:
    base = evaluate(frame, node.value)
    index = evaluate(frame, node.slice)
    if isinstance(base, AddressableValue):
        with frame.at(node, index_arguments(node, index)):
            return frame.builder.load(SubscriptReference(base, index if isinstance(index, tuple) else (index,)))
    if isinstance(base, Operand):
        help = "A tile has no subscripts: axes are chosen where it is loaded, and joined by name."
        raise frame.error(node, TypeMismatchError, f"expected a tensor, found {describe(base)}", help)
    if isinstance(index, Operand):
        help = "Which one it is must be known when building."
        raise frame.error(node.slice, TypeMismatchError, f"expected an int, found {describe(index)}", help)
    try:
        return base[index]
    except (TypeError, KeyError, IndexError) as error:
        text = f"{type(error).__name__}: {error}"
        raise frame.error(node, SourceError, f"Python cannot index this ({text})") from None


def reference(frame: CallFrame, node: ast.expr) -> Any:
    """A subscript of a tensor or scratchpad, neither loaded nor stored yet; the value of any other expression."""
    if isinstance(node, ast.Subscript):
        base = evaluate(frame, node.value)
        if isinstance(base, AddressableValue):
            index = evaluate(frame, node.slice)
            return SubscriptReference(base, index if isinstance(index, tuple) else (index,))
    return evaluate(frame, node)


def index_arguments(node: ast.Subscript, index: Any) -> list[tuple[ast.AST, Any]]:
    """The indices of a subscript, each with its node."""
    if isinstance(node.slice, ast.Tuple) and isinstance(index, tuple):
        return list(zip(node.slice.elts, index, strict=True))
    return [(node.slice, index)]


def _slice(frame: CallFrame, node: ast.Slice) -> slice:
    return slice(None)


_ATTRIBUTES: dict[type, tuple[str, ...]] = {
    Tensor: ("dtype", "shape", "ndim"),
    Scratch: ("dtype", "axes"),
    Tile: ("dtype", "axes", "to"),
    Axis: ("size", "name"),
    Affine: (),
    DType: ("name", "bits", "is_float", "is_int", "is_uint", "is_bool"),
}


_FROM_TRITON: dict[str, str] = {
    "program_id": 'Programs have no numbers: `i = vk.tile("M")` spreads the positions of M over them.',
    "num_programs": 'How many programs there are is the plan\'s business; `vk.size("M")` is a size.',
    "arange": 'An axis stands for its positions: `j = vk.whole("N")`, or `vk.tile("N")`.',
    "cdiv": "Axes need no sizes that fit: whatever is outside of a tensor is left out.",
    "constexpr": "A parameter that is known when building is annotated `vk.Constant`.",
    "static_range": "A `for` over Python's own `range` is unrolled.",
}
"""What to write for names that Triton has."""


def _attribute(frame: CallFrame, node: ast.Attribute) -> Any:
    base = evaluate(frame, node.value)
    name = node.attr
    if type(base) in _ATTRIBUTES:
        known = _ATTRIBUTES[type(base)]
        if name not in known:
            help = did_you_mean(name, known) or (f"It has {', '.join(f'`{k}`' for k in known)}." if known else "")
            raise frame.error(node, UnknownNameError, f"{describe(base)} has no attribute `{name}`", help)
        with frame.at(node):
            return getattr(base, name)
    if isinstance(base, ModuleType):
        if not hasattr(base, name):
            help = _FROM_TRITON.get(name) or did_you_mean(name, dir(base), f"{ast.unparse(node.value)}.")
            raise frame.error(node, UnknownNameError, f"`{base.__name__}` has no `{name}`", help)
        return getattr(base, name)
    if is_number(base) or not hasattr(base, name):
        help = "Convert with `vk.cast(value, dtype)`." if name == "to" else ""
        raise frame.error(node, UnknownNameError, f"{describe(base)} has no attribute `{name}`", help)
    return getattr(base, name)


def _call(frame: CallFrame, node: ast.Call) -> Any:
    return call(frame, node)


_HANDLERS: dict[type[ast.AST], Callable[[CallFrame, Any], Any]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Tuple: _tuple,
    ast.List: _tuple,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.BoolOp: _logical,
    ast.IfExp: _conditional,
    ast.Subscript: _subscript,
    ast.Slice: _slice,
    ast.Attribute: _attribute,
    ast.Call: _call,
}

_UNSUPPORTED: dict[type[ast.AST], str] = {
    ast.ListComp: "a list comprehension",
    ast.SetComp: "a set comprehension",
    ast.DictComp: "a dict comprehension",
    ast.GeneratorExp: "a generator expression",
    ast.Lambda: "`lambda`",
    ast.JoinedStr: "an f-string",
    ast.Dict: "a dict",
    ast.Set: "a set",
    ast.NamedExpr: "`:=`",
    ast.Await: "`await`",
    ast.Yield: "`yield`",
    ast.YieldFrom: "`yield from`",
    ast.Starred: "`*`",
}

_INSTEAD: dict[type[ast.AST], str] = {
    ast.ListComp: "A tile operation works on every position at once; a sequential loop is `for k in vk.range(…)`.",
    ast.GeneratorExp: "A tile operation works on every position at once; a sequential loop is `for k in vk.range(…)`.",
    ast.Lambda: "Write a helper function with `@vk.function`.",
    ast.NamedExpr: "Assign on a line of its own.",
    ast.JoinedStr: '`vk.print` takes several values: `vk.print("x =", x)`.',
}
