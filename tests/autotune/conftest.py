"""A search space that tests of tuning share."""

from __future__ import annotations

import pytest

from vkernels.autotune.plan_space import PlanSpace

from .tuned_softmax import one_space


@pytest.fixture(scope="module")
def space() -> PlanSpace:
    return one_space()
