"""Code that a compiler refuses is shown: by a warning once for each kernel, and by an error where no plan is left."""

from __future__ import annotations

import logging
import re

import pytest

from vkernels.compiler.default_session import use_session
from vkernels.compiler.log_once import LogOnce
from vkernels.compiler.session import CompilerSession
from vkernels.compiler.workers.jobs import NoBinaryError
from vkernels.ir.plan import Plan
from vkernels.ir.planning.resources import RefusedCodeError

from ..runtime.gpu.fakes import FakeDriver
from .test_code_providers import gpu_softmax, refusing


@pytest.fixture(autouse=True)
def session():
    """A session of its own for each test: no plan is known before."""
    with use_session(CompilerSession(patience=600.0)) as session:
        yield session


def test_a_refusal_is_logged_once_for_each_kernel_with_its_reason_and_the_plan(monkeypatch, caplog, session):
    monkeypatch.setattr(session, "log_once", LogOnce())
    for _ in range(2):
        gpu_softmax(monkeypatch, refusing(1, RuntimeError("no such layout")), "refused", FakeDriver())
        session.plan_cache._plans.clear()
    (said,) = [record for record in caplog.records if "refuses" in record.getMessage()]
    assert said.levelno == logging.WARNING
    assert re.search(
        r"^refused on .*please report it\. The plan has no code: no such layout\nThe plan: \{", said.getMessage()
    )


@pytest.mark.parametrize("error", [NoBinaryError("it hangs"), MemoryError()])
def test_a_compiler_that_takes_too_much_is_no_refusal(monkeypatch, caplog, session, error):
    monkeypatch.setattr(session, "log_once", LogOnce())
    gpu_softmax(monkeypatch, refusing(1, error), "slow", FakeDriver())
    assert not [record for record in caplog.records if "refuses" in record.getMessage()]


def test_a_refused_plan_of_the_authors_is_an_error_with_the_compilers_reasons(monkeypatch):
    plan = Plan({"i": 1}, {"j": 64}, lanes="j", warps=4)
    with pytest.raises(RefusedCodeError, match=r"^softmax: the plan that its author gives has no code: no such layout"):
        gpu_softmax(monkeypatch, refusing(99, RuntimeError("no such layout")), plan=plan)
