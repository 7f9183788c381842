"""Decisions that are numbers: the grid of plans (`plan_grid.py`) tries them all at once."""

from __future__ import annotations

from .decision import PlanDecision


class Tiles(PlanDecision):
    """Elements of each tile axis that a program takes."""

    field = "tiles"
    subject = "tile axis"


class Chunks(PlanDecision):
    """Elements of each whole axis that are processed at once."""

    field = "chunks"
    subject = "whole axis"


class Warps(PlanDecision):
    """Warps of a program, on a GPU."""

    field = "warps"
    meaning = "groups of threads that a program has"


class Stages(PlanDecision):
    """Loads in flight ahead of a pipelined loop, on a GPU."""

    field = "stages"
    meaning = "chunks that are under way at once in a pipelined loop"


class ResidentPrograms(PlanDecision):
    """Programs that are started, each of which goes on to others; 0: one for each piece of work."""

    field = "resident_programs"
    meaning = "programs that are started; each goes on to the next piece of work until none is left"
