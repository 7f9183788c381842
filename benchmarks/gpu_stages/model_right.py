"""Each drawn plan is compiled, its results are compared with float64, and its static bound is read from its binary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vkernels.autotune.measure.subject import WrongAnswerError
from vkernels.ir.errors import Error, OutOfMemoryError, PlanError
from vkernels.ir.planning.resources import OutOfResources, RefusedCodeError

from .case import Case, WrongResultError
from .gpu import Gpu
from .model_subjects import Subject, bound_of, candidate_of, measured, subjects
from .records import Records


def cases(gpu: Gpu) -> list[Case]:
    return [
        Case(name, lambda subject=subject, drawn=drawn: right(subject, drawn, gpu), 120.0)
        for name, subject, drawn in drawn_cases(gpu)
    ]


def drawn_cases(gpu: Gpu) -> list[tuple[str, Subject, Mapping[str, Any]]]:
    """Name, kernel and plan of each case, as the part before drew them."""
    known = Records(gpu.records).of("model: plans")
    return [
        (f"{subject.name} #{number}", subject, drawn)
        for subject in subjects(gpu)
        for number, drawn in enumerate(known.get(subject.name, {}).get("drawn", ()))
    ]


def right(subject: Subject, drawn: Mapping[str, Any], gpu: Gpu) -> dict[str, Any]:
    """Modelled time, static bound, and `fits`: why there is no code that fits; nothing where there is."""
    task, candidate = measured(subject, gpu), candidate_of(drawn)
    found = {"modelled": drawn["modelled"], "plan": drawn["plan"]}
    try:
        (call, *_) = task.compiled(candidate)
        task.check(call)
    except WrongAnswerError as error:
        raise WrongResultError(str(error)) from error
    except RefusedCodeError:
        raise  # a mistake of ours or of Triton's
    except (OutOfResources, OutOfMemoryError, PlanError) as error:
        return {**found, "fits": str(error)[:300]}
    try:
        found |= bound_of(task, candidate, gpu)
    except Error as error:
        found["unread"] = str(error)[:300]
    return found
