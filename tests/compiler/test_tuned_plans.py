"""Tuned plans that fit are checked once for a cache on disk, and those that do not in every process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from vkernels.compiler import tuned_plans
from vkernels.compiler.protocols import Signature
from vkernels.compiler.session import CompilerSession
from vkernels.compiler.specialise import kernel_in
from vkernels.compiler.tuned_plans import TunedPlan
from vkernels.ir.disk_cache import DiskCache
from vkernels.ir.limits import Limits
from vkernels.library.rows import softmax_rows

DTYPES = {"x": "float32", "out": "float32"}
SIZES = {"M": 24, "N": 1000}
LIMITS = Limits(registers=16, register_bytes=32, shared=1 << 19, multiprocessors=2, cache=1 << 23)


class Provider:
    """Gives one plan for everything."""

    def __init__(self, plan):
        self.plan = plan

    def plans(self, query):
        return [TunedPlan(self.plan, lambda: "an entry")]

    def variants(self, query):
        return []


def tuned(folder: Path | None, plan, sizes=SIZES, limits=LIMITS):
    """The tuned plan of a new session."""
    session = CompilerSession(None if folder is None else DiskCache(folder), Provider(plan))
    built = kernel_in(softmax_rows.build(Signature(tuple(DTYPES.items()))))
    return session.plans_for(softmax_rows, built, sizes, DTYPES, limits).tuned


@pytest.fixture
def checked(monkeypatch):
    """The plans that were checked."""
    found = []
    check = tuned_plans.why_unfit

    def counted(kernel, query, plan):
        found.append(plan)
        return check(kernel, query, plan)

    monkeypatch.setattr(tuned_plans, "why_unfit", counted)
    return found


@pytest.fixture(scope="module")
def plan():
    """A plan that fits."""
    session = CompilerSession()
    built = kernel_in(softmax_rows.build(Signature(tuple(DTYPES.items()))))
    return next(session.plans_for(softmax_rows, built, SIZES, DTYPES, LIMITS).ranked()).plan


def test_a_plan_that_fits_is_not_checked_again_in_a_later_process(tmp_path: Path, plan, checked):
    assert tuned(tmp_path, plan) == plan
    assert len(checked) == 1
    assert tuned(tmp_path, plan) == plan
    assert len(checked) == 1
    assert tuned(None, plan) == plan
    assert len(checked) == 2


def test_another_plan_other_sizes_and_other_limits_are_checked(tmp_path: Path, plan, checked):
    other = replace(plan, tiles={"i": 2 * plan.tiles["i"]})
    tuned(tmp_path, plan)
    for number, more in enumerate([{"plan": other}, {"sizes": {"M": 24, "N": 2000}},
                                   {"limits": replace(LIMITS, shared=1 << 18)}]):  # fmt: skip
        tuned(tmp_path, **{"plan": plan, **more})
        assert len(checked) == number + 2


def test_a_plan_that_does_not_fit_is_refused_every_time(tmp_path: Path, plan, checked):
    absurd = replace(plan, tiles={"i": 1 << 40})
    assert [tuned(tmp_path, absurd) for _ in range(2)] == [None, None]
    assert len(checked) == 2
