"""Modelled times as they are told."""

from __future__ import annotations

from vkernels.ir.cost_model.plan_batch import ModeledTimes

from .explanation import Modelled


def as_modelled(times: ModeledTimes) -> Modelled:
    """Times as plain numbers."""
    parts = {name: float(value) for name, value in times.parts.items()}
    return Modelled(float(times.seconds), parts, float(times.launches), times.bottleneck)
