"""Operators: Python's own, and the IR's operations and relations for each kind of elements."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from xdsl.ir import Operation

from vkernels.ir.dialect import arith
from vkernels.ir.errors import TypeMismatchError

from ..dtypes import DType
from ..operation import Mistake

PYTHON: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "<<": operator.lshift, ">>": operator.rshift, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge, "==": operator.eq, "!=": operator.ne, "max": max, "min": min,
}  # fmt: skip
"""Python's own operators, for operands known while building."""

_INT: dict[str, type[Operation]] = {
    "+": arith.AddiOp, "-": arith.SubiOp, "*": arith.MuliOp, "//": arith.FloorDivSIOp, "&": arith.AndIOp,
    "|": arith.OrIOp, "^": arith.XOrIOp, "<<": arith.ShLIOp, ">>": arith.ShRSIOp, "max": arith.MaxSIOp,
    "min": arith.MinSIOp,
}  # fmt: skip
_OPERATIONS: dict[str, dict[str, type[Operation]]] = {
    "float": {
        "+": arith.AddfOp, "-": arith.SubfOp, "*": arith.MulfOp, "/": arith.DivfOp, "max": arith.MaximumfOp,
        "min": arith.MinimumfOp,
    },
    "int": _INT,
    "uint": {
        **_INT, "//": arith.DivUIOp, "%": arith.RemUIOp, ">>": arith.ShRUIOp, "max": arith.MaxUIOp,
        "min": arith.MinUIOp,
    },
    "bool": {
        "+": arith.OrIOp, "*": arith.AndIOp, "&": arith.AndIOp, "|": arith.OrIOp, "^": arith.XOrIOp,
        "max": arith.OrIOp, "min": arith.AndIOp,
    },
}  # fmt: skip
_UNSIGNED_RELATIONS = {"==": "eq", "!=": "ne", "<": "ult", "<=": "ule", ">": "ugt", ">=": "uge"}
_RELATIONS = {
    "float": {"==": "oeq", "!=": "une", "<": "olt", "<=": "ole", ">": "ogt", ">=": "oge"},
    "int": {"==": "eq", "!=": "ne", "<": "slt", "<=": "sle", ">": "sgt", ">=": "sge"},
    "uint": _UNSIGNED_RELATIONS,
    "bool": _UNSIGNED_RELATIONS,
}


def operation_of(name: str, dtype: DType) -> type[Operation]:
    """The IR's operation for an operator. Raises `Mistake` if it does not work on the dtype."""
    found = _OPERATIONS[_kind(dtype)].get(name)
    if found is None:
        raise Mistake(TypeMismatchError, f"`{name}` does not work on {dtype.name}", _operator_help(name, dtype))
    return found


def relation_of(name: str, dtype: DType) -> str:
    """The predicate of the IR's comparison."""
    return _RELATIONS[_kind(dtype)][name]


def _kind(dtype: DType) -> str:
    return "uint" if dtype.is_uint else dtype.kind


def _operator_help(name: str, dtype: DType) -> str:
    if dtype.is_bool and name == "-":
        return "To tell masks apart, write `a ^ b`; to invert one, `~mask`."
    if dtype.is_float and name in "&|^":
        return "Logic works on bool and integers: compare first, as in `(x > 0) & (y > 0)`."
    return ""
