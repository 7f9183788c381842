"""Decisions that are numbers: the grid of plans (`plan_grid.py`) tries them all at once."""

from __future__ import annotations

from .decision import PlanDecision

TILES = PlanDecision("tiles", "tile axis", title="tile of", entry="tile")
CHUNKS = PlanDecision("chunks", "whole axis", title="chunk of", entry="chunk")
WARPS = PlanDecision("warps", meaning="groups of threads that a program has", gpu_only=True)
STAGES = PlanDecision(
    "stages",
    meaning="chunks that are under way at once in a pipelined loop, or iterations whose loads are",
    title="pipeline stages",
    gpu_only=True,
)
RESIDENT_PROGRAMS = PlanDecision(
    "resident_programs",
    meaning="programs that are started; each goes on to the next piece of work until none is left",
    plain=0,
)
