"""Times of the drawn plans that fit and were right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from common import Quartiles

from .case import Case
from .gpu import Gpu
from .model_right import drawn_cases
from .model_subjects import Subject, candidate_of, measured
from .records import Records

ROUNDS = 7


def cases(gpu: Gpu) -> list[Case]:
    before = Records(gpu.records).of("model: right")
    return [
        Case(name, lambda name=name, subject=subject, drawn=drawn: timed(subject, drawn, before[name], gpu), 60.0)
        for name, subject, drawn in drawn_cases(gpu)
        if name in before and "fits" not in before[name]
    ]


def timed(subject: Subject, drawn: Mapping[str, Any], before: Mapping[str, Any], gpu: Gpu) -> dict[str, Any]:
    """Microseconds, beside what the model and the binary say."""
    task = measured(subject, gpu)
    (call, *_) = task.compiled(candidate_of(drawn))
    rounds = [gpu.microseconds(call) for _ in range(1 if gpu.is_simulated else ROUNDS + 1)]
    known = {name: before[name] for name in ("modelled", "bound", "bottleneck", "spill_bytes") if name in before}
    return {"microseconds": asdict(Quartiles.of(rounds[-ROUNDS:])), **known}
