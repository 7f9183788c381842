"""Whatever the limits, shapes, dtypes and layouts, the chosen plan is one that fits and computes what was written.

`python -m tests.generated` runs many more; docs/measurements keeps how many.
"""

from __future__ import annotations

import json
import random
import sys

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from xdsl.dialects import arith

from ..library.reference import fresh_seed
from .children import Child, worker_of
from .kinds import KINDS
from .log import Log
from .outcome import Outcome
from .planned_cases import code
from .planned_cases.group import random_subject, run_group, run_limits
from .planned_cases.library import LibraryKernel
from .planned_cases.subjects import library_subject

QUICKLY = settings(
    max_examples=4,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cpu", "gpu"])
@pytest.mark.parametrize("source", ["library", "random"])
@QUICKLY
@given(seed=st.integers(0, (1 << 31) - 1), choose=st.randoms(use_true_random=False))
def test_a_chosen_plan_fits_and_computes_what_was_written(source, kind, seed, choose):
    """`seed`: of the kernel; `choose` draws limits, shapes, dtypes and layouts."""
    outcome = Outcome()
    subject = random_subject(random.Random(seed), source == "library")
    run_limits(subject, choose, kind == "gpu" and not subject.is_for_cpus, outcome, seed)
    assert not outcome.failures, "\n".join(f"{each.where}\n{each.message}" for each in outcome.failures)


@pytest.mark.thorough
def test_many_chosen_plans_fit_and_compute_what_was_written():
    seed = fresh_seed()
    for number in range(100):
        assert not run_group(seed + number).failures, f"python -m tests.generated --kind planned --seed {seed + number}"


@pytest.mark.parametrize("on_gpu", [False, True])
def test_another_computation_than_the_written_one_is_a_failure(monkeypatch, on_gpu):
    """So the cases above can fail: every addition is made a subtraction on the way."""

    def with_another_operation(module, plan, facts, overlap, apply_plan=code.apply_plan):
        mapped = apply_plan(module, plan, facts, overlap=overlap)
        for op in [op for op in mapped.walk() if isinstance(op, arith.AddfOp)]:
            op.parent_block().insert_op_before(made := arith.SubfOp(op.lhs, op.rhs), op)
            op.result.replace_all_uses_with(made.result)
            op.detach()
        return mapped

    monkeypatch.setattr(code, "apply_plan", with_another_operation)
    outcome = Outcome()
    for number in range(3):
        run_limits(library_subject(LibraryKernel("layer_norm_rows", "float32")), random.Random(number), on_gpu, outcome)
    assert any("wrong" in failure.message for failure in outcome.failures)


@pytest.mark.parametrize(
    ("script", "patience", "said"),
    [
        ("import os; os.kill(os.getpid(), 11)", 60, "SIGSEGV"),
        ("raise SystemExit(3)", 60, "code 3"),
        ("import time; time.sleep(60)", 2, "no answer"),
    ],
    ids=["crash", "end", "hang"],
)
def test_a_child_that_does_not_answer_is_a_failure_of_its_case(script, patience, said):
    noted = "import sys, json; print(json.dumps({'note': 'a case'}), flush=True); sys.stdin.readline()"
    (failure,) = Child(patience, [sys.executable, "-c", f"{noted}\n{script}"]).run(7)["failures"]
    assert said in failure["message"]
    assert failure["seed"] == 7
    assert failure["where"] == "a case"


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", KINDS)
def test_another_process_has_the_same_plans_and_a_log_remembers_them(tmp_path, kind):
    """Where strings and sets have other hashes."""
    seed = fresh_seed()
    first, second = (Child(command=worker_of([kind])) for _ in range(2))
    answers = [child.run(seed) for child in (first, second)]
    first.close()
    second.close()
    assert answers[0] == answers[1]
    log = Log(tmp_path / "log")
    log.add(seed, answers[0])
    again = Log(tmp_path / "log")
    assert again.seeds == {seed}
    assert str(again) == str(log)
    assert log.counts["cases"] == json.loads((tmp_path / "log").read_text())["counts"]["cases"]
    assert not log.failures, f"python -m tests.generated --kind {kind} --seeds 1 --seed {seed}"
