"""Plans that were tuned: asked for once in each situation, and taken where they fit what asks.

Who knows such plans says so with `ask_of`: this package knows no database.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vkernels.ir.errors import BudgetError, Error
from vkernels.ir.pin import with_pin
from vkernels.ir.plan import Plan

if TYPE_CHECKING:
    from vkernels.ir.dialect import KernelOp
    from vkernels.ir.limits import Limits

    from .protocols import KernelLike

_log = logging.getLogger(__name__)

MOST_KNOWN = 4096
"""Answers that this process remembers; all of them are forgotten when there are more."""


@dataclass(frozen=True)
class Asked:
    """`built`: the kernel's IR as written; `limits`: the slice's, within the kernel's budget; `strides`: in elements,
    None where elements of the last dimension lie side by side."""

    built: KernelOp
    sizes: Mapping[str, int]
    dtypes: Mapping[str, str]
    limits: Limits
    strides: Mapping[str, Sequence[int]] | None


Source = Callable[[Asked], Iterable[Plan]]
"""Gives the plans that were tuned for what is asked, the best first. Raises nothing, and soon gives up."""

_source: Source | None = None
_known: dict[str, Plan | None] = {}
_forgetting: list[Callable[[], None]] = []


def ask_of(source: Source | None) -> None:
    """Ask this from now on, or nobody."""
    global _source
    _source = source
    forget()


def is_asked() -> bool:
    """Whether anybody knows of tuned plans."""
    return _source is not None


def forget() -> None:
    """Ask anew, at the next call of each kernel: what is known may have changed."""
    _known.clear()
    for also in _forgetting:
        also()


def when_forgotten(also: Callable[[], None]) -> None:
    """Call this too when answers are forgotten."""
    _forgetting.append(also)


def tuned(
    kernel: KernelLike,
    built: KernelOp,
    sizes: Mapping[str, int],
    dtypes: Mapping[str, str],
    limits: Limits,
    strides: Mapping[str, Sequence[int]] | None = None,
    key: str | None = None,
) -> Plan | None:
    """The best tuned plan of a kernel, whose IR as written is `built`, that fits; None where there is none.

    `limits`: within the kernel's budget. `key`: what the answer is remembered by, where it is at hand.
    """
    if _source is None:
        return None
    if key is None:
        from .remembered import question

        key = question(built, sizes, limits, strides, kernel.pin)
    if key not in _known:
        found = _ask(_source, kernel, Asked(built, sizes, dtypes, limits, strides))
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        _known[key] = found
    return _known[key]


def _ask(source: Source, kernel: KernelLike, asked: Asked) -> Plan | None:
    for plan in source(asked):
        plan = replace(plan, warps=1) if asked.limits.warp == 1 else plan  # a CPU's programs are one thread
        reason = why_unfit(kernel, asked, plan)
        if reason is None:
            return plan
        _log.info("%s: a tuned plan is passed over: %s", kernel.name, reason)
    return None


def why_unfit(kernel: KernelLike, asked: Asked, plan: Plan) -> str | None:
    """Why a kernel cannot have a plan within limits, by its needs, its author's pin and budget; None if it can."""
    from vkernels.ir.needs import Device
    from vkernels.ir.planning.accepts import accepts
    from vkernels.ir.planning.check_budget import check_budget
    from vkernels.ir.planning.fits import why_not
    from vkernels.ir.planning.one_plan import registers_of, setting_of
    from vkernels.ir.planning.space import read_space

    if kernel.pin is not None and with_pin(plan, kernel.pin) != plan:
        return "its author pinned something else"
    try:
        space = read_space(asked.built, asked.sizes, asked.limits, None, asked.strides, kernel.pin)
        use = space.needs.evaluate(plan, asked.sizes, Device.of(asked.limits))
        if kernel.budget is not None:
            check_budget(kernel.budget, space, plan, use)
        registers = registers_of(setting_of(space, plan), use, asked.limits)
    except BudgetError:
        return "it takes more than the author's budget"
    except (Error, ArithmeticError, ValueError) as error:  # a plan that this kernel cannot have, of absurd sizes
        return str(error)
    return why_not(use, asked.limits, registers) or accepts(space, plan)
