"""Plans that were tuned: asked for once in each situation, and taken where they fit what asks.

Who knows such plans says so with `ask_of`: this package knows no database.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from vkernels.ir.errors import BudgetError, Error
from vkernels.ir.pin import with_pin
from vkernels.ir.plan import Plan

if TYPE_CHECKING:
    from vkernels.ir.dialect import KernelOp
    from vkernels.ir.limits import Limits

    from .protocols import Constant, KernelLike

_log = logging.getLogger(__name__)

MOST_KNOWN = 4096
"""Answers that this process remembers; all of them are forgotten when there are more."""


@dataclass(frozen=True)
class Asked:
    """`built`: the kernel's IR as written; `limits`: the slice's, within the kernel's budget; `strides`: in elements,
    None where elements of the last dimension lie side by side. `tunable`: names of the kernel's tunable constants."""

    built: KernelOp
    sizes: Mapping[str, int]
    dtypes: Mapping[str, str]
    limits: Limits
    strides: Mapping[str, Sequence[int]] | None
    tunable: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Found:
    """A tuned plan. `entry`: gives what messages call the entry that it comes from."""

    plan: Plan
    entry: Callable[[], str]


@dataclass(frozen=True)
class Version(Found):
    """A tuned plan, and what all tunable constants of the kernel were with it. `is_of`: whether that was tuned which
    some IR, as written, says."""

    constants: Mapping[str, Constant]
    is_of: Callable[[KernelOp], bool]


Source = Callable[[Asked], Iterable[Found]]
"""Gives the plans that were tuned for what is asked, the best first. Raises nothing, and soon gives up."""

Versions = Callable[[Asked], Iterable[Version]]
"""Gives what was tuned for what is asked, with any values of its tunable constants, the best first; `Asked.built` has
the first value of each. Raises nothing, and soon gives up."""

_source: Source | None = None
_versions: Versions | None = None
_known: dict[str, Plan | None] = {}
_settled: dict[str, dict[str, Constant] | None] = {}
_forgetting: list[Callable[[], None]] = []
_refused: set[tuple[str, str]] = set()


def ask_of(source: Source | None, versions: Versions | None = None) -> None:
    """Ask these from now on, or nobody."""
    global _source, _versions
    _source, _versions = source, versions
    forget()


def is_asked() -> bool:
    """Whether anybody knows of tuned plans."""
    return _source is not None


def forget() -> None:
    """Ask anew, at the next call of each kernel: what is known may have changed."""
    _known.clear()
    _settled.clear()
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
        tunable = frozenset(parameter.name for parameter in kernel.parameters if parameter.tunable is not None)
        found = _ask(_source, kernel, Asked(built, sizes, dtypes, limits, strides, tunable))
        _remember(_known, key, found)
        return found
    return _known[key]


def tuned_version(
    kernel: KernelLike,
    asked: Asked,
    key: str,
    is_one: Callable[[Version], dict[str, Constant] | None],
    built: Callable[[Mapping[str, Constant]], KernelOp],
) -> dict[str, Constant] | None:
    """The tunable constants of the best tuned version of a kernel that `is_one` gives them for, and whose plan fits;
    None where there is none. Its plan is from now on what `tuned` gives for it.

    `key`: what the answer is remembered by; `built`: the IR with these constants, as written.
    """
    if _versions is None:
        return None
    if key not in _settled:
        _remember(_settled, key, _ask_version(_versions, kernel, asked, is_one, built))
    return _settled.get(key)


def _remember(known: dict[str, Any], key: str, found: object) -> None:
    if len(known) >= MOST_KNOWN:
        known.clear()
    known[key] = found


def _ask(source: Source, kernel: KernelLike, asked: Asked) -> Plan | None:
    found = (_fitting(kernel, asked, each) for each in source(asked))
    return next((plan for plan in found if plan is not None), None)


def _ask_version(
    versions: Versions,
    kernel: KernelLike,
    asked: Asked,
    is_one: Callable[[Version], dict[str, Constant] | None],
    built: Callable[[Mapping[str, Constant]], KernelOp],
) -> dict[str, Constant] | None:
    from .remembered import question

    for version in versions(asked):
        constants = is_one(version)
        if constants is None:
            _log.info("%s: what was tuned with %r is passed over", kernel.name, dict(version.constants))
            continue
        try:
            its = replace(asked, built=built(constants))
        except Error:  # values that the author's own text refuses
            continue
        plan = _fitting(kernel, its, version) if version.is_of(its.built) else None
        if plan is not None:
            _remember(_known, question(its.built, its.sizes, its.limits, its.strides, kernel.pin), plan)
            return constants
    return None


def _fitting(kernel: KernelLike, asked: Asked, found: Found) -> Plan | None:
    """A plan as it would run, where it may."""
    plan = found.plan
    if kernel.pin is not None and with_pin(plan, kernel.pin) != plan:
        _log.info("%s: a tuned plan is passed over: its author pinned something else", kernel.name)
        return None
    if asked.limits.warp == 1:  # a CPU's programs are one thread
        plan = replace(plan, warps=1, stages=1, resident_programs=0)
        plan = plan if kernel.pin is None else with_pin(plan, kernel.pin)
    reason = why_unfit(kernel, asked, plan)
    if reason is not None:
        warn_of_refused(kernel.name, found.entry(), reason)
    return plan if reason is None else None


def why_unfit(kernel: KernelLike, asked: Asked, plan: Plan) -> str | None:
    """Why a kernel cannot run by a plan within limits, or should not, by its needs, its modelled time and its author's
    budget; None if it may."""
    from vkernels.ir.needs import Device
    from vkernels.ir.planning.check_budget import check_budget
    from vkernels.ir.planning.judge_plan import why_refused
    from vkernels.ir.planning.space import read_space

    try:
        space = read_space(asked.built, asked.sizes, asked.limits, None, asked.strides, kernel.pin)
    except Error as error:
        return f"its needs cannot be read: {error}"
    reason = why_refused(space, plan)
    if reason is None and kernel.budget is not None:
        use = space.needs.evaluate(plan, asked.sizes, Device.of(asked.limits))
        try:
            check_budget(kernel.budget, space, plan, use)
        except BudgetError:
            return "it takes more than the author's budget"
    return reason


def warn_of_refused(kernel: str, entry: str, reason: str) -> None:
    """Say once for each kernel and entry that a plan from elsewhere is not used."""
    if (kernel, entry) in _refused:
        return
    if len(_refused) >= MOST_KNOWN:
        _refused.clear()
    _refused.add((kernel, entry))
    _log.warning("%s: the plan of %s is not used: %s", kernel, entry, reason)
