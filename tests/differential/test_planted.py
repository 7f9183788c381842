"""The tester finds faults: wrong results, memory written that is not the result's, wrong refusals, crashes, hangs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import vkernels as vk
from vkernels.library import matmul, segment_sum, softmax

from ..library.reference import fresh_seed
from .case import Argument, Case, Floats, Layout, Outcome, Starts
from .groups import Worker
from .log import Log
from .run import run_case
from .subjects import SUBJECTS

PLAIN = Layout((1, 0), (1, 1))
X = Argument("x", (5, 7), "float32", PLAIN)
OUT = replace(X, name="out", role="out", layout=Layout((0, 1), (1, 1), pad=2))
CASE = Case("softmax", "torch", (X, OUT))


def outcome_of(function: Callable[..., Any], case: Case = CASE) -> Outcome:
    """Of a function in the place of the case's own."""
    return run_case(replace(case, seed=fresh_seed()), SUBJECTS[case.function], function)


@pytest.mark.parametrize("library", ["torch", "numpy"])
def test_a_right_function_is_right(library: str) -> None:
    found = outcome_of(softmax, replace(CASE, library=library))
    assert (found.kind, found.message) == ("right", "")
    assert 0 <= found.worst <= 1


def within(units: float) -> Callable[..., Any]:
    """Softmax that errs by so many units of its dtype more, relative to the result."""

    def wrong(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        result = torch.softmax(x.double(), -1)
        return out.copy_(result * (1 + units * 2.0**-24))

    return wrong


def test_an_error_of_a_few_units_beyond_the_bound_is_found() -> None:
    assert outcome_of(within(4)).kind == "right"
    found = outcome_of(within(200))
    assert found.kind == "wrong"
    assert 1 < found.worst < 50
    assert "35 of 35" in found.message


def leave_one(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    softmax(x, out)
    out[2, 3] = float("nan")
    return out


def no_out(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    return softmax(x)


def other_dtype(x: torch.Tensor) -> torch.Tensor:
    return softmax(x).double()


def other_shape(x: torch.Tensor) -> torch.Tensor:
    return softmax(x)[None]


def other_library(x: torch.Tensor) -> np.ndarray:
    return softmax(x).numpy()


@pytest.mark.parametrize("function", [leave_one, no_out])
def test_a_wrong_result_is_found(function: Callable[..., Any]) -> None:
    assert outcome_of(function).kind == "wrong"


@pytest.mark.parametrize("function", [other_dtype, other_shape, other_library])
def test_a_result_of_another_kind_is_found(function: Callable[..., Any]) -> None:
    assert outcome_of(function, replace(CASE, arguments=(X,))).kind == "wrong"


def test_finite_results_where_infinities_and_nan_must_be_are_found() -> None:
    case = replace(CASE, values="nan")
    assert outcome_of(softmax, case).kind == "right"
    assert outcome_of(lambda x, out: out.copy_(softmax(x).nan_to_num(0.5)), case).kind == "wrong"


def change_x(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    softmax(x, out)
    x[0, 0] += 1
    return out


def write_beside(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """An element in the padding between columns of out."""
    softmax(x, out)
    out.as_strided((1,), (1,), out.storage_offset() + 5).fill_(3.0)
    return out


def write_before(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    softmax(x, out)
    beyond = (np.ctypeslib.ctypes.c_uint8).from_address(out.data_ptr() - 3)
    beyond.value ^= 1
    return out


@pytest.mark.parametrize("function", [change_x, write_beside, write_before])
def test_memory_that_must_stay_is_watched(function: Callable[..., Any]) -> None:
    assert outcome_of(function).kind == "spilled"


def test_mistakes_must_be_refused_and_nothing_else() -> None:
    start = Argument("start", (4,), "int64", Layout((0,), (1,)), Starts(9))
    value = Argument("value", (9,), "float32", Layout((0,), (1,)))
    case = Case("segment_sum", "numpy", (value, start))
    assert outcome_of(segment_sum, case).kind == "right"
    falling = replace(case, fault="start")
    assert outcome_of(lambda value, start: value[:3], falling).kind == "accepted although wrong"

    def refuse(value: Any, start: Any) -> None:
        raise vk.ArgumentError("no")

    assert outcome_of(refuse, falling).kind == "refused"
    assert outcome_of(refuse, case).kind == "refused although right"

    def fail(value: Any, start: Any) -> None:
        raise IndexError("no")

    assert outcome_of(fail, case).kind == "raised"
    assert outcome_of(fail, falling).kind == "raised"


def test_another_sum_of_products_is_found() -> None:
    a, b = (Argument(name, shape, "float16", PLAIN, Floats()) for name, shape in (("a", (3, 33)), ("b", (33, 5))))
    case = Case("matmul", "torch", (a, b), (("activation", None), ("dtype", None), ("precision", None)))
    assert outcome_of(matmul, case).kind == "right"

    def one_less(a: torch.Tensor, b: torch.Tensor, **options: Any) -> torch.Tensor:
        return matmul(a[:, :-1], b[:-1], **options)

    def added_in_16_bits(a: torch.Tensor, b: torch.Tensor, **options: Any) -> torch.Tensor:
        total = torch.zeros(3, 5, dtype=torch.float16)
        for k in range(33):
            total = total + a[:, k, None] * b[None, k]
        return total

    assert outcome_of(one_less, case).kind == "wrong"
    assert outcome_of(added_in_16_bits, case).kind == "wrong"


NOTE = "import sys, json; print(json.dumps({'note': '7 3 softmax(x)'}), flush=True); given = sys.stdin.readline()"
ANSWER = (
    "print(json.dumps(dict(counts={'softmax: right': 19},"
    " codes=[], failures=[], worst={}, loose=0, compiles=1, seconds=0)))"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "kind"),
    [("import os; os.kill(os.getpid(), 11)", "crashed"), ("import time; time.sleep(60)", "hung")],
)
def test_what_ends_a_process_is_a_failure_of_its_call_and_the_others_are_made(script: str, kind: str) -> None:
    """The worker is told the call that it is to leave out."""
    program = f"{NOTE}\nif given == '7\\n':\n    {script}\nassert given in ('7\\n', '7 3\\n')\n{ANSWER}"
    worker = Worker(3.0, (sys.executable, "-c", program))
    found = worker.run(7)
    worker.close()
    (failure,) = found["failures"]
    assert (failure["kind"], failure["call"], failure["function"]) == (kind, 3, "softmax")
    assert failure["repeat"] == "python -m tests.differential --seed 7 --call 3"
    assert found["counts"] == {"softmax: right": 19, f"softmax: {kind}": 1}


def test_a_log_remembers_seeds_counts_and_failures(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    for seed in (7, 9):
        failure = {"seed": seed, "call": 1, "kind": "wrong"}
        log.add(seed, {
            "counts": {"sum: right": 19, "sum: wrong": 1}, "codes": ["one", str(seed)], "failures": [failure],
            "worst": {"sum": 0.1 * seed}, "loose": 0.0, "compiles": 2, "seconds": 1.5,
        })  # fmt: skip
    again = Log(tmp_path / "log")
    assert again.seeds == {7, 9}
    assert again.calls == 40
    assert again.report() == log.report()
    assert "40 calls of 2 seeds, 3 distinct specialisations (4 compiled), 2 failures" in again.report()
    assert "sum: 38 right, 2 wrong; worst error 0.900 of its bound" in again.report()
