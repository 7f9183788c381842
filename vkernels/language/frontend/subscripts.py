"""Subscripts in a kernel's text: loads, and places to store into or update atomically."""

from __future__ import annotations

import ast
from typing import Any

from vkernels.ir.errors import SourceError, TypeMismatchError

from ..values import AddressableValue, Operand, SubscriptReference
from .describe import PASS_IT, describe, is_outside_array
from .frame import CallFrame


def subscript(frame: CallFrame, node: ast.Subscript) -> Any:
    """The value of a subscript: a load, or Python's own subscript of a value known while building."""
    base = frame.evaluate(node.value)
    index = frame.evaluate(node.slice)
    if isinstance(base, AddressableValue):
        reference = SubscriptReference.of(base, index)
        with frame.at(node, index_nodes(node, reference)):
            return frame.builder.load(reference)
    if isinstance(base, Operand):
        raise frame.error(
            node,
            TypeMismatchError,
            f"expected a tensor, found {describe(base)}",
            "A tile has no subscripts: axes are chosen where it is loaded, and joined by name. "
            "The tile at one position of an axis: `vk.sum(vk.where(k == 4, tile, 0), axis=k)`.",
        )
    if isinstance(index, Operand) and is_outside_array(base):
        raise frame.error(node.value, TypeMismatchError, f"expected a tensor, found {describe(base)}", PASS_IT)
    if isinstance(index, Operand):
        raise frame.error(
            node.slice,
            TypeMismatchError,
            f"expected an int, found {describe(index)}",
            "Which one it is must be known when building.",
        )
    try:
        return base[index]
    except (TypeError, KeyError, IndexError) as error:
        raise frame.error(node, SourceError, f"Python cannot index this ({type(error).__name__}: {error})") from None


def reference(frame: CallFrame, node: ast.expr) -> Any:
    """A subscript of a tensor or scratchpad, not loaded; the value of any other expression."""
    if isinstance(node, ast.Subscript):
        base = frame.evaluate(node.value)
        if isinstance(base, AddressableValue):
            return SubscriptReference.of(base, frame.evaluate(node.slice))
    return frame.evaluate(node)


def stored_place(frame: CallFrame, target: ast.Subscript) -> SubscriptReference:
    """The place that an assignment to a subscript stores into."""
    base = frame.evaluate(target.value)
    if not isinstance(base, AddressableValue):
        raise frame.error(
            target.value,
            TypeMismatchError,
            f"expected a tensor or a scratchpad to store into, found {describe(base)}",
            "A tile is not changed in place: `vk.where` makes a new one." if isinstance(base, Operand) else "",
        )
    return SubscriptReference.of(base, frame.evaluate(target.slice))


def index_nodes(node: ast.Subscript, reference: SubscriptReference) -> list[tuple[ast.AST, Any]]:
    """The indices of a subscript, each with its node."""
    if isinstance(node.slice, ast.Tuple):
        return list(zip(node.slice.elts, reference.index, strict=True))
    return [(node.slice, index) for index in reference.index]
