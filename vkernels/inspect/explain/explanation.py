"""What is found out about one kernel on one target: plain data that the command line prints, draws or stores.

Bytes, seconds and counts are those of a whole call unless something else is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class SourceLine:
    """A line of the author's text, and the phases that it became part of."""

    number: int
    text: str
    phases: tuple[str, ...]


@dataclass(frozen=True)
class Phase:
    """One phase and what it needs under the plan.

    `does`: what it reads, computes and writes, in words. `registers`: predicted, of a thread (CPU: vector registers).
    `shared_bytes`: on-chip memory of a program while the phase runs. `tensor_memory`: columns. The rest as in
    `vkernels.ir.analysis.needs.PhaseUse`, all programs together.
    """

    name: str
    axes: tuple[str, ...]
    does: tuple[str, ...]
    registers: float = 0.0
    shared_bytes: float = 0.0
    tensor_memory: float = 0.0
    read_bytes: float = 0.0
    written_bytes: float = 0.0
    shared_moved: float = 0.0
    swap_moved: float = 0.0
    operations: float = 0.0
    tensor_operations: float = 0.0


@dataclass(frozen=True)
class AlternativeHome:
    """One home that a value could have, all else as planned, and what the kernel would then take.

    `misfit`: why that would not fit; empty where it would. `seconds`: modelled; None where no model knows.
    """

    home: str
    taken: bool
    shared_bytes: float
    swap_bytes: float
    moved_bytes: float
    read_bytes: float
    operations: float
    misfit: str
    seconds: float | None = None


@dataclass(frozen=True)
class Kept:
    """A value that crosses phases, or a scratchpad: where it lives, and why.

    `kind`: value or scratchpad. `axes`: of a scratchpad its dimensions. `bytes`: a program. `made`, `used`: phases.
    """

    label: str
    kind: str
    axes: tuple[str, ...]
    bytes: float
    made: str
    used: tuple[str, ...]
    home: str
    why: str
    alternatives: tuple[AlternativeHome, ...] = ()


@dataclass(frozen=True)
class ExplainedDecision:
    """One decision of a plan: of which field, about which axis or value, and what it means in words."""

    field: str
    about: str
    value: str
    pinned: bool
    means: str


@dataclass(frozen=True)
class Modelled:
    """A time as modelled: its `parts` overlap, `launches` come on top. `bottleneck`: the longest of them."""

    seconds: float
    parts: Mapping[str, float]
    launches: float
    bottleneck: str


@dataclass(frozen=True)
class ExplainedRejection:
    """A plan that was not taken, its modelled seconds, and why."""

    plan: Mapping[str, Any]
    seconds: float
    reason: str


@dataclass(frozen=True)
class Proposal:
    """What the planner chooses by itself. `is_taken`: that is the plan. `tried`: rejected before it, best first."""

    plan: Mapping[str, Any]
    is_taken: bool
    rung: str
    modelled: Modelled
    tried: tuple[ExplainedRejection, ...]


@dataclass(frozen=True)
class Totals:
    """What the kernel takes under the plan as needs predict it: see `vkernels.ir.analysis.needs.Use`."""

    threads: int
    registers: float
    shared_bytes: float
    scratch_bytes: float
    swap_bytes: float
    tensor_memory: float
    read_bytes: float
    distinct_read_bytes: float
    written_bytes: float
    operations: float
    tensor_operations: float
    programs: tuple[int, ...]


@dataclass(frozen=True)
class Native:
    """Code for this machine's CPU, counted in its assembly: each instruction once, however often it runs.

    `vector`: those on vector registers; `stack_vectors`: those of them that move a register to or from the stack, as
    spills do. `workspace`: bytes of a thread.
    """

    instructions: int
    vector: int
    stack_vectors: int
    workspace: int


@dataclass(frozen=True)
class LaunchText:
    """A launch as TTIR, and how it is to be compiled. `swap_bytes`: swap space of a resident program."""

    name: str
    text: str = field(repr=False)
    warps: int
    stages: int
    scratch_bytes: int
    swap_bytes: int


@dataclass(frozen=True)
class ExplainFindings:
    """What needs no compiler of GPU code: from the kernel's text to its launches.

    `origin`: who made the plan: `author`, `tuned` (in the tuning database), `chosen` (by modelled time) or `plain`
    (always applicable, seldom the fastest). `budget`: the author's, by resource. `decisions`: the plan in rows.
    `refused`: why the kernel cannot have its plan; then there are no launches. `without_needs`: why nobody can tell
    what it needs; then there are no figures. `tuned`: tunable constants that are as tuning found them best. `extents`:
    positions of each axis. `misfit`: why, by its needs, the plan does not fit. `rung`: see `choose_plan`. `is_kept`:
    the plan was tuned, or found to fit before, so that it stays where it merely spills. `tried`: what the code of each
    plan before this one took too much of.
    """

    kernel: str
    source: tuple[SourceLine, ...]
    plan: Mapping[str, Any]
    origin: str
    budget: Mapping[str, int]
    decisions: tuple[ExplainedDecision, ...]
    phases: tuple[Phase, ...]
    refused: str
    stages: Mapping[str, str] = field(repr=False)
    launches: tuple[LaunchText, ...] = ()
    native: Native | None = None
    without_needs: str = ""
    tuned: Mapping[str, Any] = field(default_factory=dict)
    extents: Mapping[str, int] = field(default_factory=dict)
    kept: tuple[Kept, ...] = ()
    totals: Totals | None = None
    misfit: str = ""
    rung: str = ""
    modelled: Modelled | None = None
    proposal: Proposal | None = None
    is_kept: bool = False
    tried: tuple[str, ...] = ()
