"""The findings about one kernel on one target: plain data that the command line prints, draws or stores."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vkernels.ir.cost_model.plan_batch import ModeledTimes


@dataclass(frozen=True)
class SourceLine:
    """A line of the author's source, and its phases."""

    number: int
    text: str
    phases: tuple[str, ...]


@dataclass(frozen=True)
class Phase:
    """One phase and its needs under the plan.

    `does`: its actions, in words. `registers`: predicted, of a thread (CPU: vector registers). `shared_bytes`: on-chip
    memory of a program during the phase. `tensor_memory`: columns. The rest as in
    `vkernels.ir.analysis.needs.PhaseUse`, for all programs together.
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
    """A possible home of a value, and the needs of the kernel with it.

    `misfit`: why it does not fit, or empty. `seconds`: modelled; None if unknown.
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
    """A value that crosses phases, or a scratchpad: its home, and the reason.

    `kind`: value or scratchpad. `axes`: or dimensions of a scratchpad. `bytes`: per program. `made`, `used`: phases.
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
    """One decision of a plan: its field, its axis or value, and its meaning in words."""

    field: str
    about: str
    value: str
    pinned: bool
    means: str


@dataclass(frozen=True)
class Modelled:
    """A modelled time: its `parts` overlap, `launches` are added. `bottleneck`: the longest of them."""

    seconds: float
    parts: Mapping[str, float]
    launches: float
    bottleneck: str


@dataclass(frozen=True)
class ExplainedRejection:
    """A rejected plan, its modelled seconds, and the reason."""

    plan: Mapping[str, Any]
    seconds: float
    reason: str


@dataclass(frozen=True)
class Proposal:
    """The planner's own choice. `is_taken`: it is the plan. `tried`: plans rejected before it, best first."""

    plan: Mapping[str, Any]
    is_taken: bool
    rung: str
    modelled: Modelled
    tried: tuple[ExplainedRejection, ...]


@dataclass(frozen=True)
class CostOfPhase:
    """The share of a phase in a part of the modelled time, in seconds."""

    phase: str
    seconds: float


@dataclass(frozen=True)
class CostOfLine:
    """The share of a line of the author's text in a part of the modelled time, in seconds."""

    file: str
    line: int
    text: str
    seconds: float


@dataclass(frozen=True)
class ResourceCost:
    """A part of the modelled time: its seconds, and the shares of phases and lines in it, the largest first."""

    resource: str
    seconds: float
    phases: tuple[CostOfPhase, ...]
    lines: tuple[CostOfLine, ...]


@dataclass(frozen=True)
class HeldByLine:
    """Bytes a thread of the values that a line of the author's text computes, where a phase holds the most."""

    file: str
    line: int
    text: str
    bytes: float


@dataclass(frozen=True)
class RegisterCost:
    """The phase that holds the most bytes a thread, and the lines that compute them, the largest first."""

    phase: str
    bytes: float
    lines: tuple[HeldByLine, ...]


@dataclass(frozen=True)
class SupposedPlan:
    """A plan under limits that are supposed. `misfit`: why it does not fit, or empty. `modelled`: None if unknown or it
    does not fit. `rung`: of a plan that the planner chose."""

    plan: Mapping[str, Any]
    misfit: str
    modelled: Modelled | None
    rung: str = ""


@dataclass(frozen=True)
class Supposed:
    """What would change under other limits. `same`: the explained plan; `anew`: the plan chosen for these limits."""

    text: str
    same: SupposedPlan
    anew: SupposedPlan


@dataclass(frozen=True)
class SmallChange:
    """What changes with one limit or decision. `what`: its name; `factor`: by which it grows. `seconds`: the modelled
    time relative to that before, None if unknown; `registers` of a thread and `shared_bytes` of a program, afterwards;
    `misfit`: why the plan does not fit then, or empty."""

    what: str
    factor: float
    seconds: float | None
    registers: float
    shared_bytes: float
    misfit: str = ""


@dataclass(frozen=True)
class Totals:
    """The predicted needs of the kernel under the plan: see `vkernels.ir.analysis.needs.NeedsUse`."""

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
    """Instructions in the assembly for this machine's CPU, without repetitions in loops.

    `vector`: on vector registers; `stack_vectors`: of these, moves to or from the stack, as for spills. `workspace`:
    bytes of a thread.
    """

    instructions: int
    vector: int
    stack_vectors: int
    workspace: int


@dataclass(frozen=True)
class LaunchText:
    """A launch as Triton IR, and its compile options. `swap_bytes`: swap space of a resident program."""

    name: str
    text: str = field(repr=False)
    warps: int
    stages: int
    scratch_bytes: int
    swap_bytes: int


@dataclass(frozen=True)
class ExplainFindings:
    """All findings that need no compiler of GPU code, from the kernel's source to its launches.

    `origin` of the plan: `author`, `tuned` (in the tuning database), `chosen` (by modelled time) or `plain` (always
    applicable, seldom the fastest). `budget`: the author's, by resource. `decisions`: the plan in rows. `refused`: why
    the plan is impossible; then there are no launches. `without_needs`: why its needs are unknown; then there are no
    figures. `tuned`: constants with tuned values. `extents`: length of each axis. `misfit`: why the plan does not fit
    by its needs. `rung`: see `choose_plan`. `is_kept`: the plan was tuned, or fitted before, so that it stays even
    if it spills. `tried`: the shortages of the plans before this one. `deterministic`: calls are. `to_judge`: calls
    compile several plans and take the best by its binaries, which was not done yet. `judged`: of so many plans this one
    is the best; 0: none were compiled. `costs`: of the modelled time; `held`: of registers, on a GPU. `supposed`: what
    would change, question by question; `unchanged`: the same for the limits as they are, and `small_changes`: of each
    rate and of each size of the plan, one at a time, if there are questions.
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
    deterministic: bool = False
    to_judge: bool = False
    judged: int = 0
    costs: tuple[ResourceCost, ...] = ()
    held: RegisterCost | None = None
    supposed: tuple[Supposed, ...] = ()
    unchanged: Supposed | None = None
    small_changes: tuple[SmallChange, ...] = ()


def as_modelled(times: ModeledTimes) -> Modelled:
    """Modelled times as plain numbers."""
    parts = {name: float(value) for name, value in times.parts.items()}
    return Modelled(float(times.seconds), parts, float(times.launches), times.bottleneck)


_INSTRUCTION = re.compile(r"^\t(?!\.)([a-z][\w.]*)(.*)$", re.MULTILINE)
_VECTOR = re.compile(r"%[xyz]mm\d|\b[vqz]\d+(?:\.\w+|,|$)")
_STACK = re.compile(r"\(%r[sb]p|\[(?:sp|x29)\b")


def count_native(assembly: str, workspace: int) -> Native:
    """Count instructions in x86 or ARM assembly, those on vector registers, and of these those that use the stack."""
    operands = [match[2] for match in _INSTRUCTION.finditer(assembly)]
    vector = [text for text in operands if _VECTOR.search(text)]
    return Native(len(operands), len(vector), sum(bool(_STACK.search(text)) for text in vector), workspace)
