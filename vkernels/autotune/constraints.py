"""Constraints on plans and tunable constants: functions, or texts, which are parsed and never executed by Python."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from vkernels.inspect.task import kernel_of
from vkernels.ir.did_you_mean import did_you_mean
from vkernels.ir.errors import OptionError
from vkernels.ir.plan import Plan

from .expressions import parse_expression
from .plan_space import PlannedSpace, PlanSpace
from .plan_values import Decisions
from .space import Point

PLAN = "plan"


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
        parsed = parse_expression(given, "constraint", "warps <= 8", attributes={PLAN: Plan.__dataclass_fields__})
        return PlanConstraint(given, parsed.names, parsed.value)
    if not callable(given):
        raise OptionError(f"constraints: expected a text or a function, got {given!r}")
    try:
        names = tuple(inspect.signature(given).parameters)
    except ValueError as error:
        raise OptionError(f"constraints: the parameters of {given!r} are not known: {error}") from error
    text = getattr(given, "__name__", repr(given))
    return PlanConstraint(text, names, lambda known: given(**{name: known[name] for name in names}))
