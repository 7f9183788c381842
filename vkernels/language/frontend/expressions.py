"""Operators and attributes in a kernel's text, evaluated to values."""

from __future__ import annotations

import ast
from types import ModuleType
from typing import Any

from vkernels.ir.errors import TypeMismatchError, UnknownNameError, UnsupportedError

from ..dtypes import DType
from ..values import (
    AddressableValue,
    Affine,
    Axis,
    ComplexScratch,
    ComplexTensor,
    ComplexTile,
    Operand,
    PackedTensor,
    Scratch,
    Tensor,
    Tile,
)
from .arithmetic import is_number
from .describe import describe
from .frame import CallFrame, did_you_mean
from .operators import PYTHON

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], str] = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~"}


def binary_expression(frame: CallFrame, node: ast.BinOp) -> Any:
    left, right = frame.evaluate(node.left), frame.evaluate(node.right)
    return binary(frame, node, node.op, (node.left, left), (node.right, right))


def binary(
    frame: CallFrame, node: ast.AST, operator: ast.operator, left: tuple[ast.AST, Any], right: tuple[ast.AST, Any]
) -> Any:
    """A binary operator on two evaluated operands, each with its node."""
    if type(operator) not in _BINARY:
        raise frame.error(node, UnsupportedError, "`@` cannot be used in a kernel", "Write `vk.dot(a, b)`.")
    name = _BINARY[type(operator)]
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


def unary(frame: CallFrame, node: ast.UnaryOp) -> Any:
    value = frame.evaluate(node.operand)
    if isinstance(node.op, ast.Not):
        if isinstance(value, Operand):
            _need_scalar(frame, node.operand, value, "`not`", "Write `~mask`.")
            with frame.at(node):
                return frame.builder.unary("~", frame.builder.condition(frame.builder.tile(value)))
        return not value
    with frame.at(node, [(node.operand, value)]):
        if _is_built(value) or is_number(value):
            return frame.builder.unary(_UNARY[type(node.op)], value)
        if isinstance(value, complex) and not isinstance(node.op, ast.Invert):
            return -value if isinstance(node.op, ast.USub) else value
    raise frame.error(node, TypeMismatchError, f"expected a tile or a number, found {describe(value)}")


def compare(frame: CallFrame, node: ast.Compare) -> Any:
    left_node, left = node.left, frame.evaluate(node.left)
    result: Any = True
    for operator, right_node in zip(node.ops, node.comparators, strict=True):
        right = frame.evaluate(right_node)
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
    is_built, is_numeric = _is_built(a) or _is_built(b), all(_is_built(v) or is_number(v) for v in (a, b))
    with frame.at(node, (left, right)):
        if is_built and not is_numeric and name in ("==", "!="):
            other = b if _is_built(a) else a
            if isinstance(a, Axis) or isinstance(b, Axis) or other is None:
                return name == "!="
        if is_built or is_numeric:
            return frame.builder.compare(name, a, b)
        try:
            return PYTHON[name](a, b)
        except TypeError as error:
            raise frame.error(node, TypeMismatchError, f"Python cannot compare this: {error}") from None


def logical(frame: CallFrame, node: ast.BoolOp) -> Any:
    """`and` and `or`: Python's on values known while building, else of scalars in the kernel."""
    word, symbol = ("and", "&") if isinstance(node.op, ast.And) else ("or", "|")
    result: Any = None
    for operand in node.values:
        value = frame.evaluate(operand)
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
        raise frame.error(node, TypeMismatchError, f"{what} works on scalars, found {describe(value)}", help)


_ATTRIBUTES: dict[type, tuple[str, ...]] = {
    Tensor: ("dtype", "shape", "ndim"),
    PackedTensor: ("dtype", "shape", "ndim"),
    ComplexTensor: ("dtype", "shape", "ndim"),
    Scratch: ("dtype", "axes"),
    ComplexScratch: ("dtype", "axes"),
    ComplexTile: ("dtype", "axes", "real", "imag", "to"),
    Tile: ("dtype", "axes", "to"),
    Axis: ("size", "name", "dtype", "to"),
    Affine: ("dtype", "to"),
    DType: ("name", "bits", "is_float", "is_int", "is_uint", "is_bool", "is_complex"),
}


_FROM_ELSEWHERE: dict[str, str] = {
    "program_id": 'Programs have no numbers: `i = vk.tile("M")` spreads the positions of M over them.',
    "num_programs": 'How many programs there are is the plan\'s business; `vk.size("M")` is a size.',
    "arange": 'An axis stands for its positions: `j = vk.whole("N")`, or `vk.tile("N")`.',
    "cdiv": "Axes need no sizes that fit: elements outside of a tensor are left out.",
    "constexpr": "A parameter that is known when building is annotated `vk.Constant`.",
    "static_range": "A `for` over Python's own `range` is unrolled.",
    "matmul": "Products are summed along the whole axis that two tiles share: `vk.dot(a, b)`.",
    "einsum": "Products are summed along the whole axis that two tiles share: `vk.dot(a, b)`.",
    "cumsum": "It is `vk.cumulative_sum(x, axis=j)`.",
    "cumprod": "It is `vk.cumulative_product(x, axis=j)`.",
    "cummax": "It is `vk.cumulative_max(x, axis=j)`.",
    "cummin": "It is `vk.cumulative_min(x, axis=j)`.",
    "prod": "It is `vk.product(x, axis=j)`.",
    "amax": "It is `vk.max(x, axis=j)`.",
    "amin": "It is `vk.min(x, axis=j)`.",
    "softmax": "It is `e = vk.exp(x - vk.max(x, axis=j))`, then `e / vk.sum(e, axis=j)`.",
    "concatenate": "Store both into one tensor or scratchpad, the second at an index that begins after the first.",
    "cat": "Store both into one tensor or scratchpad, the second at an index that begins after the first.",
    "stack": "Store each at its own index of a tensor or scratchpad.",
    "squeeze": "Axes are matched by name: there is nothing to remove. An index of 0 leaves an axis out.",
    "unsqueeze": "Axes are matched by name: tiles broadcast without it.",
    "expand_dims": "Axes are matched by name: tiles broadcast without it.",
    "take": "Index with a tile of integers: `x[index[i], j]`.",
    "gather": "Index with a tile of integers: `x[index[i], j]`.",
    "scatter": "Index with a tile of integers: `out[index[i]] = x[i]`.",
    "inf": "Python's and NumPy's numbers can be used: `float(\"inf\")`, `math.inf`.",
    "nan": "Python's and NumPy's numbers can be used: `float(\"nan\")`, `math.nan`.",
    "pi": "Python's and NumPy's numbers can be used: `math.pi`.",
    "ones": "It is `vk.full((i, j), 1.0)`.",
    "empty": "Scratchpad is not filled: `vk.scratch((i, j), vk.float32)`.",
    "make_block_ptr": "Tensors know their shapes: index them with axes, `x[i, j]`.",
    "sync": "`vk.phase()`: all before is complete before anything after begins.",
    "syncthreads": "`vk.phase()`: all before is complete before anything after begins.",
    "debug_barrier": "`vk.phase()`: all before is complete before anything after begins.",
    "shared_memory": "Scratchpad is `vk.scratch((i, j), vk.float32)`.",
    "logical_and": "Combine masks with `&`.",
    "logical_or": "Combine masks with `|`.",
    "logical_not": "Invert a mask with `~`.",
    "astype": "Convert: `x.to(vk.float32)`.",
}
"""Help for names that Triton, NumPy, torch and JAX have."""

_LIST_METHODS = {"append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse"}
_GROWING = (
    "A list in a kernel is a tuple, which does not grow. Add up in a value: `total = vk.zeros((i,), …)`, then "
    "`total += …` in the loop; keep a value of each step in scratchpad, `kept = vk.scratch((k, i), …)` and "
    "`kept[step, i] = …`; or join values known when building: `all = all + (x,)`."
)


def attribute(frame: CallFrame, node: ast.Attribute) -> Any:
    base = frame.evaluate(node.value)
    name = node.attr
    if type(base) in _ATTRIBUTES:
        known = _ATTRIBUTES[type(base)]
        if name not in known:
            raise frame.error(
                node,
                UnknownNameError,
                f"{describe(base)} has no attribute `{name}`",
                _FROM_ELSEWHERE.get(name) or did_you_mean(name, known) or _has(known),
            )
        with frame.at(node):
            return getattr(base, name)
    if isinstance(base, ModuleType):
        if not hasattr(base, name):
            raise frame.error(
                node,
                UnknownNameError,
                f"`{base.__name__}` has no `{name}`",
                _FROM_ELSEWHERE.get(name) or did_you_mean(name, dir(base), f"{ast.unparse(node.value)}."),
            )
        return getattr(base, name)
    if is_number(base) or not hasattr(base, name):
        raise frame.error(
            node,
            UnknownNameError,
            f"{describe(base)} has no attribute `{name}`",
            _of_value(base, name),
        )
    return getattr(base, name)


def _of_value(base: Any, name: str) -> str:
    """Help for an attribute that a value known while building does not have."""
    if isinstance(base, tuple) and name in _LIST_METHODS:
        return _GROWING
    return "Convert with `vk.cast(value, dtype)`." if name == "to" else ""


def _has(attributes: tuple[str, ...]) -> str:
    return f"It has {', '.join(f'`{one}`' for one in attributes)}." if attributes else ""
