"""The stages of benchmarks/gpu_day.py. A stage is one part or two: what is checked comes before what is timed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """Cases of one kind. `module`: of this folder, with `cases(gpu)`. `parallel`: its cases may run beside each other,
    as nothing is timed. `after`: only cases that were right in that part are run. `judged`: its calls take the plans
    that calls of users take, judged by their binaries; others take the model's."""

    name: str
    module: str
    parallel: bool = False
    after: str = ""
    judged: bool = False


STAGES: dict[str, tuple[Part, ...]] = {
    "smoke": (Part("smoke", "smoke"), Part("smoke: dots", "smoke_dots", parallel=True)),
    "library": (Part("library", "library", parallel=True),),
    "time": (
        Part("time: right", "timed_right", parallel=True, judged=True),
        Part("time", "timed", after="time: right", judged=True),
    ),
    "model": (
        Part("model: plans", "model_plans", parallel=True),
        Part("model: right", "model_right", parallel=True),
        Part("model", "model_timed", after="model: right"),
    ),
    "sharing": (Part("sharing", "sharing", judged=True),),
    "memory": (Part("memory", "memory"),),
}
"""In the order in which a day takes them."""

PARTS = {part.name: part for parts in STAGES.values() for part in parts}
