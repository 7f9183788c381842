"""Calls of operations, of helper functions, and of Python functions on values known while building."""

from __future__ import annotations

import ast
import inspect
import math
import types
from functools import lru_cache
from typing import Any

from vkernels.ir.errors import SourceError, TypeMismatchError, UnknownNameError, UnsupportedError

from ..declaration import DeclaredKernel, Function
from ..dtypes import promote
from ..operation import implementation_of, operation_names, references_of
from ..values import AddressableValue, Operand
from .describe import describe
from .emitter import listed
from .frame import CallFrame, did_you_mean
from .subscripts import reference

_PYTHON = {abs, bool, divmod, float, int, len, max, min, promote, range, round, str, sum, tuple, isinstance}
"""Python's own functions, and `vk.promote`, that kernels may call with arguments known while building."""

_MAX_HELPER_DEPTH = 64
"""Nested calls of helper functions; a deeper chain counts as recursion."""


def call(frame: CallFrame, node: ast.Call, target: str | None = None) -> Any:
    """The value of a call. `target`: the variable that it is assigned to, if any."""
    function = frame.evaluate(node.func)
    if isinstance(function, Function):
        return _inline(frame, node, function)
    if (operation := implementation_of(function)) is not None:
        return _operate(frame, node, function, operation, target)
    if isinstance(function, types.MethodType) and isinstance(function.__self__, Operand):
        args, kwargs, nodes = _arguments(frame, node, ())
        _bind(frame, node, function.__func__, (function.__self__, *args), kwargs, function.__name__)
        with frame.at(node, nodes):
            return function(*args, **kwargs)
    if isinstance(function, DeclaredKernel):
        raise frame.error(
            node,
            UnsupportedError,
            f"`{function.name}` is a kernel; kernels do not call kernels",
            "To share code between kernels, write a helper with `@vk.function`.",
        )
    return _python_call(frame, node, function)


def _arguments(
    frame: CallFrame, node: ast.Call, references: tuple[int, ...]
) -> tuple[list[Any], dict[str, Any], list[tuple[ast.AST, Any]]]:
    """Positional and keyword arguments, and pairs of each argument's node and value."""
    args: list[Any] = []
    nodes: list[tuple[ast.AST, Any]] = []
    for number, argument in enumerate(node.args):
        if isinstance(argument, ast.Starred):
            value = frame.evaluate(argument.value)
            if not isinstance(value, tuple):
                raise frame.error(argument, TypeMismatchError, f"expected a tuple, found {describe(value)}")
            args.extend(value)
            continue
        value = reference(frame, argument) if number in references else frame.evaluate(argument)
        args.append(value)
        nodes.append((argument, value))
    kwargs = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise frame.error(keyword, UnsupportedError, "`**` cannot be used in a kernel")
        kwargs[keyword.arg] = frame.evaluate(keyword.value)
        nodes += [(keyword.value, kwargs[keyword.arg]), (keyword.value, keyword.arg)]
    return args, kwargs, nodes


@lru_cache(maxsize=1024)
def _signature(function: Any) -> inspect.Signature:
    return inspect.signature(function)


def _bind(
    frame: CallFrame,
    node: ast.Call,
    function: Any,
    args: tuple[Any, ...] | list[Any],
    kwargs: dict[str, Any],
    name: str,
) -> dict[str, Any]:
    """Arguments by parameter, defaults included. Raises for missing, unknown and extra arguments."""
    signature = _signature(function)
    known = [p for p in signature.parameters if p != "self"]
    for keyword in node.keywords:
        if keyword.arg not in known:
            raise frame.error(
                keyword,
                UnknownNameError,
                f"`{name}` has no parameter `{keyword.arg}`",
                did_you_mean(keyword.arg or "", known) or (f"It takes {listed(known)}." if known else ""),
            )
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise frame.error(
            node, TypeMismatchError, f"`{name}`: {error}", f"It is `{name}{_shown(signature)}`."
        ) from None
    bound.apply_defaults()
    return bound.arguments


def _shown(signature: inspect.Signature) -> str:
    parts = []
    for parameter in signature.parameters.values():
        if parameter.name == "self":
            continue
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
        parts.append(f"{'*' if parameter.kind is parameter.VAR_POSITIONAL else ''}{parameter.name}{default}")
    return f"({', '.join(parts)})"


def _operate(frame: CallFrame, node: ast.Call, function: Any, operation: Any, target: str | None) -> Any:
    args, kwargs, nodes = _arguments(frame, node, references_of(function))
    _bind(frame, node, operation, args, kwargs, f"vk.{function.__name__}")
    args = [_callable(frame, node, argument) for argument in args]
    kwargs = {name: _callable(frame, node, argument) for name, argument in kwargs.items()}
    builder = frame.builder
    path = builder.path
    builder.target, builder.path, builder.in_helper = target, (*path, id(node)), bool(frame.callers)
    builder.is_result_used = builder.statement is not node
    try:
        with frame.at(node, nodes):
            return operation(*args, **kwargs)
    finally:
        builder.target, builder.path = None, path


def _callable(frame: CallFrame, node: ast.Call, argument: Any) -> Any:
    """A helper function that is given to an operation as what the operation calls; other arguments unchanged."""
    if not isinstance(argument, Function):
        return argument

    plain = ast.copy_location(ast.Call(node.func, [], []), node)  # the operation's keywords are not the function's

    def combine(*values: Any) -> Any:
        return _build(frame, node, argument, _bind(frame, plain, argument.function, values, {}, argument.name))

    combine.__name__ = argument.name
    return combine


def _inline(frame: CallFrame, node: ast.Call, function: Any) -> Any:
    args, kwargs, _ = _arguments(frame, node, ())
    return _build(frame, node, function, _bind(frame, node, function.function, args, kwargs, function.name))


def _build(frame: CallFrame, node: ast.Call, function: Any, names: dict[str, Any]) -> Any:
    """Build a helper function's body in place, with its arguments by name."""
    if len(frame.callers) >= _MAX_HELPER_DEPTH:
        raise frame.error(
            node,
            UnsupportedError,
            f"`{function.name}` is nested too deeply",
            "Helper functions are built in place, so they cannot call themselves.",
        )
    builder = frame.builder
    path = builder.path
    builder.path = (*path, id(node))
    inner = frame.helper(node, function.source, function.function, dict(names))
    try:
        returned = inner.execute(function.source.definition.body)
    finally:
        builder.path = path
    return None if returned is None else returned.value


def _python_call(frame: CallFrame, node: ast.Call, function: Any) -> Any:
    known = any(function is each for each in _PYTHON) or getattr(function, "__module__", None) == math.__name__
    args, kwargs, nodes = _arguments(frame, node, ())
    built = next((n for n, v in nodes if isinstance(v, Operand | AddressableValue)), None)
    if known and built is None:
        try:
            return function(*args, **kwargs)
        except (TypeError, ValueError, ArithmeticError) as error:
            raise frame.error(
                node, SourceError, f"Python cannot compute this ({type(error).__name__}: {error})"
            ) from None
    name = ast.unparse(node.func)
    plain = getattr(function, "__name__", name).rsplit(".")[-1]
    plain = {"min": "minimum", "max": "maximum"}.get(plain, plain) if len(args) > 1 else plain
    help = f"Did you mean `vk.{plain}`?" if plain in operation_names() else ""
    if known:
        raise frame.error(
            node.func,
            UnsupportedError,
            f"`{name}` works on what is known when building, not on tiles",
            {"float": "Convert: `.to(vk.float32)`.", "int": "Convert: `.to(vk.int64)`."}.get(plain, help),
        )
    if not callable(function):
        raise frame.error(node.func, TypeMismatchError, f"expected a function, found {describe(function)}")
    if not help and isinstance(function, types.FunctionType):
        help = f"If `{name}` works on tiles, decorate it with `@vk.function`."
    raise frame.error(node.func, UnsupportedError, f"`{name}` is not an operation of vkernels", help)
