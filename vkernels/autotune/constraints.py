"""Constraints on plans and tunable constants: functions, or texts, which are parsed and never executed by Python."""

from __future__ import annotations

import ast
import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from vkernels.inspect.task import kernel_of
from vkernels.ir.did_you_mean import did_you_mean
from vkernels.ir.errors import OptionError
from vkernels.ir.plan import Plan

from .plan_space import PlannedSpace, PlanSpace
from .plan_values import Decisions
from .space import Point

MAX_TEXT = 1000
"""Characters of a constraint's text, at most: so its nesting is bounded, too."""
PLAN = "plan"

_OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.USub: operator.neg, ast.UAdd: operator.pos,
    ast.Not: operator.not_, ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda value, group: value in group, ast.NotIn: lambda value, group: value not in group,
}  # fmt: skip
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {"min": min, "max": max, "abs": abs, "len": len, "sum": sum}
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.USub, ast.UAdd)


@dataclass(frozen=True)
class PlanConstraint:
    """`holds` gets constants, sizes and fields of a plan by the `names` that it asks for. `text`: for messages."""

    text: str
    names: tuple[str, ...]
    holds: Callable[[Mapping[str, Any]], object]

    def check(self, known: Mapping[str, Any]) -> bool:
        """Whether it holds. Raises `OptionError` for unknown names, and where it fails."""
        unknown = [name for name in self.names if name not in known]
        if unknown:
            raise OptionError(f"constraint {self.text!r}: {unknown[0]!r} is nothing that a plan has; "
                              f"{did_you_mean(unknown[0], list(known))}")  # fmt: skip
        try:
            return bool(self.holds(known))
        except OptionError:
            raise
        except KeyError as error:
            raise OptionError(f"constraint {self.text!r}: the kernel has no {error.args[0]!r} of this kind") from error
        except Exception as error:
            raise OptionError(f"constraint {self.text!r} failed: {type(error).__name__}: {error}") from error


def constraints_from(given: object) -> tuple[PlanConstraint, ...]:
    """One constraint, or several: texts, or functions of constants, sizes, plan fields and `plan`, by name.

    Raises `OptionError` for anything else, and for a text that is not an expression of the allowed kind.
    """
    if given is None:
        return ()
    several = [given] if isinstance(given, str) or callable(given) else given
    if not isinstance(several, Sequence):
        raise OptionError(f"constraints: expected texts or functions, got {given!r}")
    return tuple(_constraint(each) for each in several)


def constrained(space: PlanSpace, constraints: Sequence[PlanConstraint]) -> PlanSpace:
    """The points of a space that satisfy every constraint; and its default plan, as a reference, even if it does not.

    Raises `OptionError` if no point is left.
    """
    if not constraints:
        return space
    sizes, constants = dict(space.task.shape), _constants(space)

    def holds(point: Point) -> bool:
        version = space.variant(point)
        known = names_of(space.plan(point), version.decisions, {**constants, **version.constants}, sizes)
        return all(constraint.check(known) for constraint in constraints)

    kept = [point for point in space.space if holds(point)]
    if not kept:
        texts = " and ".join(constraint.text for constraint in constraints)
        raise OptionError(f"constraints: no plan of {space.task} on this slice satisfies {texts}")
    may_win = space.default in kept
    listed = kept if may_win else [space.default, *kept]
    seconds = {point: space.seconds(point) for point in listed}
    parameters = dict(zip(space.space.names, space.space.values, strict=True))
    return replace(
        space, space=PlannedSpace(parameters, seconds), sizes=replace(space.sizes, after=len(listed)),
        seeds=(space.default, *(point for point in space.seeds[1:] if point in seconds and point != space.default)),
        default_may_win=may_win,
    )  # fmt: skip


def names_of(
    plan: Plan, decisions: Decisions, constants: Mapping[str, Any], sizes: Mapping[str, int]
) -> dict[str, Any]:  # fmt: skip
    """What constraints may name. Constants come before sizes, and these before a plan's fields of the same name.

    The plan's mappings have all axes and values of the kernel, also those of which the plan says nothing.
    """
    found = {each.name: getattr(plan, each.name) for each in fields(plan)}
    found["tiles"] = {axis: plan.tiles.get(axis, 1) for axis in decisions.tiles}
    found["chunks"] = {axis: plan.chunks.get(axis, 1) for axis in decisions.wholes}
    found["splits"] = {axis: plan.splits.get(axis, 1) for axis in decisions.wholes}
    found["homes"] = {**decisions.homes, **plan.homes}
    return {**found, **sizes, **constants, PLAN: plan}


def _constants(space: PlanSpace) -> dict[str, Any]:
    declared = (p for p in kernel_of(space.task).parameters if p.kind == "constant")
    return {p.name: p.default for p in declared if p.default is not p.MISSING} | dict(space.task.constants)


def _constraint(given: object) -> PlanConstraint:
    if isinstance(given, str):
        return _parsed(given)
    if not callable(given):
        raise OptionError(f"constraints: expected a text or a function, got {given!r}")
    try:
        names = tuple(inspect.signature(given).parameters)
    except ValueError as error:
        raise OptionError(f"constraints: the parameters of {given!r} are not known: {error}") from error
    text = getattr(given, "__name__", repr(given))
    return PlanConstraint(text, names, lambda known: given(**{name: known[name] for name in names}))


def _parsed(text: str) -> PlanConstraint:
    if len(text) > MAX_TEXT:
        raise OptionError(f"constraint: expected at most {MAX_TEXT} characters, got {len(text)}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise OptionError(f"constraint {text!r}: expected an expression, as warps <= 8: {error}") from None
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    named = (node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called)
    for node in ast.walk(tree):
        _refuse(node, text)
    return PlanConstraint(text, tuple(dict.fromkeys(named)), lambda known: _value(tree, known))


def _refuse(node: ast.AST, text: str) -> None:
    """Raise `OptionError` for what constraints cannot contain."""
    harmless = (ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.Compare, ast.Name, ast.Load, ast.Subscript, ast.Tuple, ast.List,
                ast.And, ast.Or)  # fmt: skip
    if isinstance(node, harmless) or type(node) in _OPERATORS:
        return
    if isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool | int | float | str)):
        return
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
        if not node.keywords:
            return
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == PLAN:
        if node.attr in Plan.__dataclass_fields__:
            return
        raise OptionError(f"constraint {text!r}: a plan has no {node.attr!r}; "
                          f"{did_you_mean(node.attr, list(Plan.__dataclass_fields__))}")  # fmt: skip
    shown = ast.unparse(node) if isinstance(node, ast.expr) else type(node).__name__
    raise OptionError(
        f"constraint {text!r}: {shown!r} is not allowed; it may have names, numbers, texts, comparisons, and, or, not, "
        f"+ - * / // %, subscripts, and {', '.join(_FUNCTIONS)}; for more, give a function"
    )


def _value(node: ast.AST, known: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            value = known[node.id]
            return MappingProxyType(value) if isinstance(value, dict) else value
        case ast.Attribute():
            return getattr(known[PLAN], node.attr)
        case ast.Tuple() | ast.List():
            return tuple(_value(each, known) for each in node.elts)
        case ast.Subscript():
            return _value(node.value, known)[_value(node.slice, known)]
        case ast.Call(func=ast.Name(id=name)):
            return _FUNCTIONS[name](*(_value(each, known) for each in node.args))
        case ast.BoolOp():
            is_and = isinstance(node.op, ast.And)
            results = (bool(_value(each, known)) for each in node.values)
            return all(results) if is_and else any(results)
        case ast.UnaryOp():
            return _applied(node.op, _value(node.operand, known))
        case ast.BinOp():
            return _applied(node.op, _value(node.left, known), _value(node.right, known))
        case ast.Compare():
            values = [_value(each, known) for each in (node.left, *node.comparators)]
            return all(_OPERATORS[type(op)](*pair) for op, pair in zip(node.ops, pairwise(values), strict=True))
    raise AssertionError("refused when it was parsed")


def _applied(op: ast.AST, *values: Any) -> Any:
    if isinstance(op, _ARITHMETIC) and not all(isinstance(value, bool | int | float) for value in values):
        raise TypeError("arithmetic is for numbers")
    return _OPERATORS[type(op)](*values)
