"""The process that runs cases of one part: names come on standard input, what came of each goes to standard output."""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import pytest

from . import Part
from .case import ERROR, RIGHT, SKIPPED, WRONG, Case, WrongResultError

MOST = 2000
"""Characters of an error."""


def work(part: Part, simulated: bool, records: Path) -> None:
    """Answer until there are no more names. `records`: what earlier parts found."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what others print is no answer

    def say(answer: dict[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    gpu = _gpu(part, simulated, records)
    if isinstance(gpu, str):
        say({"no_gpu": gpu})
        return
    cases: dict[str, Case] = {
        case.name: case for case in importlib.import_module(f".{part.module}", __package__).cases(gpu)
    }
    say({"machine": gpu.machine(), "cases": [[case.name, case.limit] for case in cases.values()]})
    import vkernels as vk

    with vk.patient():
        for line in sys.stdin:
            say(answer_of(cases[json.loads(line)], gpu))


def _gpu(part: Part, simulated: bool, records: Path) -> Any:
    """The GPU, or why there is none."""
    if simulated:
        from .simulated import SimulatedGpu

        return SimulatedGpu(records)
    import torch

    if not torch.cuda.is_available():
        return f"torch {torch.__version__} finds none here"
    from vkernels.compiler.judged_plans import JUDGED

    from .present import PresentGpu

    return PresentGpu(records, JUDGED if part.judged else 1)


def answer_of(case: Case, gpu: Any) -> dict[str, Any]:
    """What came of a case; `lost`: the device does not work any more."""
    begun = time.perf_counter()
    answer: dict[str, Any]
    try:
        details = case.run()
        gpu.synchronize()
        answer = {"status": RIGHT, **(details or {})}
    except (WrongResultError, AssertionError, pytest.fail.Exception) as error:
        answer = {"status": WRONG, "why": str(error)[:MOST]}
    except pytest.skip.Exception as error:
        answer = {"status": SKIPPED, "why": str(error)[:MOST]}
    except Exception as error:
        lines = traceback.format_exception(error, limit=-6)
        answer = {"status": ERROR, "why": f"{type(error).__name__}: {error}"[:MOST], "trace": "".join(lines)[-MOST:]}
    if gpu.works():
        gpu.release()
    else:
        answer["lost"] = True
    answer["inside"] = round(time.perf_counter() - begun, 3)
    return answer
