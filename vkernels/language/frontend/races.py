"""Refuse kernels with lost updates or with races between programs, at the author's line."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.ir import Operation

from vkernels.ir.analysis.races import Race, find_races, unknown_results
from vkernels.ir.dialect import KernelOp
from vkernels.ir.errors import AxisError, RaceError, SourceError
from vkernels.ir.locations import place_of

from .frame import CallFrame

Sites = Mapping[FileLineColLoc, tuple[CallFrame, ast.AST]]
"""The frame and syntax node of each IR location."""

_ATOMIC = "`vk.atomic_add`, `vk.atomic_max` and `vk.atomic_min` update a place atomically."


def refuse_races(kernel: KernelOp, sites: Sites) -> None:
    """Raise `RaceError` for the first race of a kernel, `AxisError` for an atomic's result that only one of several
    programs would know."""
    race = next(find_races(kernel), None)
    if race is not None:
        raise _error(race, sites)
    for op, axis in unknown_results(kernel):
        message = f"the result of an atomic is used, and the updated value lacks the tile axis `{axis}`"
        help = (
            f"One of the programs along `{axis}` makes the update: the others would not know what it found. Give the "
            f"value the axis: `vk.full(({axis},), 1)` has an update for each position of `{axis}`."
        )
        raise _located(op, sites, AxisError, message, help)


def _error(race: Race, sites: Sites) -> SourceError:
    name = race.write.base.name_hint or "memory"
    site = _site(race.write.op, sites)
    if race.is_update:
        message = f"positions of `{race.axis}` may share an element of `{name}`: all but one of their updates are lost"
        help = _ATOMIC if site is None else _instead(*site)
    else:
        where = f"what may be another program's element along `{race.axis}`"
        message = f"`{name}` is written here, and {_also(race)} {where}"
        help = (
            f"Programs run in any order and at once. Use another tensor for one of the two, make `{race.axis}` a whole "
            "axis, or let all programs wait in between with `vk.phase(grid=True)`."
        )
    return _located(race.write.op, sites, RaceError, message, help)


def _located(op: Operation, sites: Sites, kind: type[SourceError], message: str, help: str) -> SourceError:
    """An error at the author's line of an operation."""
    site = _site(op, sites)
    if site is None:
        return kind(message, place_of(op), help)
    frame, node = site
    return frame.error(node, kind, message, help)


def _site(op: Operation, sites: Sites) -> tuple[CallFrame, ast.AST] | None:
    return sites.get(op.location) if isinstance(op.location, FileLineColLoc) else None


def _also(race: Race) -> str:
    place = place_of(race.other.op)
    return f"{'also' if place is None else f'line {place.line}'} {'writes' if race.other.writes else 'reads'}"


def _instead(frame: CallFrame, node: ast.AST) -> str:
    """The atomic update that replaces `out[index[i]] += x[i]`, or the list of atomic operations."""
    for statement in ast.walk(frame.source.definition):
        if isinstance(statement, ast.AugAssign) and _is_at(statement.target, node):
            place, value = ast.unparse(statement.target), ast.unparse(statement.value)
            if isinstance(statement.op, ast.Add):
                return f"Update it at once: `vk.atomic_add({place}, {value})`."
            if isinstance(statement.op, ast.Sub):
                return f"Update it at once: `vk.atomic_add({place}, -({value}))`."
    return _ATOMIC


def _is_at(one: ast.expr, other: ast.AST) -> bool:
    return (one.lineno, one.col_offset) == (getattr(other, "lineno", None), getattr(other, "col_offset", None))
