"""Plans are drawn for each kernel, with their modelled times."""

from __future__ import annotations

from .case import Case
from .gpu import Gpu
from .model_subjects import drawn_plans, subjects


def cases(gpu: Gpu) -> list[Case]:
    return [
        Case(each.name, lambda each=each: {"drawn": drawn_plans(each, gpu)}, 240.0) for each in subjects(gpu)
    ]  # fmt: skip
