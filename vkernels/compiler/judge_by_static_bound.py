"""Judge a kernel's best plans by the static bounds of their binaries: the model proposes, what compilers make decides.

The model of time counts what a plan asks for. What the loops of a binary issue is known once it is compiled, which
takes seconds, so only a few plans are judged. What no binary shows, misses of caches and waiting for memory, is taken
from the model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vkernels.ir.analysis.needs.device import UNKNOWN_TRIPS
from vkernels.ir.cost_model.plan_batch import OVERLAP
from vkernels.ir.errors import FileError
from vkernels.ir.limits import Limits
from vkernels.ir.planning.resources import held

from .artifact_cache import ArtifactCache, hash_of
from .backends.resources import taken_by
from .binaries.launch_loops import LaunchLoops, launch_loops
from .binaries.read_code import read_binary
from .binaries.static_bound import LATENCY
from .workers.compile_cached import compiler_identity

if TYPE_CHECKING:
    from vkernels.ir.unseen_time import UnseenTime

    from .compile_gpu import CompiledGpu

MOST_PART = 0.9
"""Plans with this part of the most warps are as good as the one with most. An H200 took 40.6 us for a softmax of 16384
rows of 1024 by 21 warps a multiprocessor, 35.6 by 32 and 35.4 by 64; 155 us for a layer norm of 512 rows of 131072 by
32, 135 by 48."""
SPILLED_PART = 0.01
"""A loop spills where more than this part of its instructions loads or stores spilled registers. The bound counts the
others."""
ALIKE = 0.05
"""Bounds that differ by this part are alike: then loops that spill nothing decide, after them warps, then the model."""


@dataclass(frozen=True)
class Judging:
    """How plans are judged. `count`: plans that are compiled for one choice; `architecture`: of their binaries."""

    count: int
    architecture: str

    def key(self, plans: str) -> str:
        """The key of the choice in the plan cache, which other compilers may make otherwise; once made it stays, of
        however many plans. `plans`: the key of the plans between which it is made."""
        ours = [hash_of(f"compiler/{files}") for files in ("binaries/*.py", "backends/resources/*.py")]
        parts = ["judged", plans, self.architecture, compiler_identity(), *ours]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@dataclass(frozen=True)
class PlanBound:
    """What the binaries of a plan say. `seconds`: by which plans are judged, with a share of what no binary shows.
    `spills`: whether a loop spills. `warps`: that a multiprocessor has at once, the fewest
    of a launch; 0 with tensor cores, which few warps keep busy. `busy`: seconds of the busiest units alone, which
    remain where more programs hide what each waits for. `few_spills`: whether a loop spills at all, however little."""

    seconds: float
    spills: bool
    warps: int = 0
    busy: float = 0.0
    few_spills: bool = False


def worth_neighbours(judged: Sequence[PlanBound | None]) -> tuple[int, ...]:
    """The numbers of the plans whose neighbours are judged: the best, and the one that would be if none waited."""
    best = best_by_bound(judged)
    if best is None:
        return ()
    able = {number: each.busy for number, each in enumerate(judged) if each is not None and not each.spills}
    return tuple(dict.fromkeys((best, min(able, key=lambda number: able[number], default=best))))


def spills_in_loops(bound: PlanBound | None) -> bool:
    """Whether a loop spills, however little."""
    return bound is not None and (bound.spills or bound.few_spills)


def best_by_bound(judged: Sequence[PlanBound | None]) -> int | None:
    """The number of the best of some plans, given in the order of the model; None where no bound is known.

    Plans that spill in a loop come after all others. Of those whose bounds are alike, those that spill a little come
    after the rest; the one with most warps to take turns is the best, and of several of these the first.
    """
    known = {number: each for number, each in enumerate(judged) if each is not None}
    kept = {number: each for number, each in known.items() if not each.spills} or known
    least = min((each.seconds for each in kept.values()), default=0.0)
    near = {number: each for number, each in kept.items() if each.seconds <= (1 + ALIKE) * least}
    clean = {number: each for number, each in near.items() if not each.few_spills} or near
    alike = {number: each.warps for number, each in clean.items()}
    most = max(alike.values(), default=0)
    return next((number for number, warps in alike.items() if warps >= MOST_PART * most), None)


def is_of_use(bound: PlanBound | None) -> bool:
    """Whether a plan can be taken: its code fits, and no loop spills."""
    return bound is not None and not bound.spills


def bound_of_launches(launches: Sequence[LaunchLoops], unseen: UnseenTime) -> PlanBound | None:
    """The bound of launches one after another with what units hide of other parts only in part, as the model adds its
    parts up: latencies of each launch, and what is `unseen` beside all. None where the bound of one is unknown."""
    bounds = [launch.bound for launch in launches if launch.bound is not None]
    if not launches or len(bounds) < len(launches):
        return None
    uses = [loop.use for launch in launches for loop in launch.loops]
    spills = any(use.spills > SPILLED_PART * use.instructions for use in uses)
    seen = busy = 0.0
    for bound in bounds:
        units = max((each for name, each in bound.parts.items() if name != LATENCY), default=0.0)
        busy += units
        seen += _overlapped(units, bound.parts.get(LATENCY, 0.0))
    waited = unseen.seconds([launch.resident for launch in launches])
    on_tensor_cores = any(bound.tensor_seconds for bound in bounds)
    warps = 0 if on_tensor_cores else min(launch.warps for launch in launches)
    few_spills = any(use.spills for use in uses)
    return PlanBound(_overlapped(seen, waited) + unseen.launches, spills, warps, busy, few_spills)


def unless_loops_spill(bound: PlanBound | None) -> PlanBound | None:
    """The bound of a plan that spills more than one should, which does no harm outside of loops; None if a loop does.
    What is spilled around loops is in the bound."""
    return None if bound is None or bound.spills else bound


def _overlapped(one: float, other: float) -> float:
    return max(one, other) + OVERLAP * min(one, other)


def loops_of_code(
    code: CompiledGpu,
    sizes: Mapping[str, int],
    limits: Limits,
    artifacts: ArtifactCache,
    unknown_length: float = UNKNOWN_TRIPS,
) -> tuple[LaunchLoops, ...] | None:
    """The loops of each launch of compiled code, called with these sizes; None where a binary cannot be read.

    `unknown_length`: of loops whose bounds are in memory. Raises `SetupError` without a disassembler.
    """
    from .compile_gpu import Lowering

    programs = code.lowered.prepare(sizes).programs
    jobs = Lowering(code.lowered, code.plan, code.facts).jobs(code.architecture)
    found = []
    for count, job, binary in zip(programs, jobs, code.binaries, strict=True):
        try:
            reading = read_binary(binary, artifacts)
        except FileError:
            return None
        if reading.code is None:
            return None
        resident = held(taken_by(reading.resources, binary.threads), limits).blocks
        found.append(launch_loops(reading.code, job.text, limits, resident, (count,), sizes, unknown_length))
    return tuple(found)
