"""Whole axes split over programs: a launch a phase, each beginning with the combined partial results before it."""

from __future__ import annotations

from .work import Work


def emit_split(work: Work) -> None:
    pass
