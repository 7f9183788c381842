"""Cells to be: asked of children, with the jobs of their launches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any

from vkernels.compiler.backends.triton_adapter import GpuOptions
from vkernels.compiler.plan_fallback import BOTTOM
from vkernels.compiler.workers.jobs import CompileJob
from vkernels.ir.planning.resources import Shortage
from vkernels.targets import Target
from vkernels.targets.slices import planned_limits

from ..cases import Case
from ..worker_client import InspectPool, Progress, answer_of, mistake
from .cells import Cell
from .plan_summary import CHOSEN, PlanSummary

TOGETHER = 16
"""Targets that a child is asked about at once: so many that they share what is lowered, and still far from its time
limit."""


@dataclass(frozen=True)
class CellRequest:
    """A case on a target. `unknown`: why nobody can tell. `tried`: what the plans so far took too much of.
    `spilling`: the first cell whose binaries can run, but spill."""

    case: Case
    target: Target
    unknown: str = ""
    tried: tuple[str, ...] = ()
    spilling: CellVerdict | None = None

    def below(self, verdict: CellVerdict) -> CellRequest:
        """The same for the next plan down."""
        assert verdict.cell.planned is not None
        assert verdict.shortage is not None
        spilling = self.spilling or (verdict if verdict.cell.fits else None)
        return replace(self, tried=(*verdict.cell.planned.tried, verdict.shortage.lack.value), spilling=spilling)

    def best(self, verdict: CellVerdict) -> CellVerdict:
        """Of what was found last and what spilt: the bottom rung is slower than any spills."""
        if self.spilling is not None and (verdict.shortage is not None or verdict.rung == BOTTOM):
            return self.spilling
        return verdict


@dataclass(frozen=True)
class PreparedCell:
    """A cell to be: its launches, as children give them, and the jobs of these; or why it has none."""

    want: CellRequest
    launches: tuple[Mapping[str, Any], ...] = ()
    planned: PlanSummary | None = None
    tensor_bytes: int | None = None
    own_bytes: int = 0
    misfit: str = ""

    @property
    def jobs(self) -> tuple[CompileJob, ...]:
        architecture = self.want.target.architecture
        return tuple(CompileJob(each["text"], architecture, GpuOptions(**each["options"])) for each in self.launches)


@dataclass(frozen=True)
class CellVerdict:
    """A cell, and what there was too little of for it, if anything; a spill is such too."""

    cell: Cell
    shortage: Shortage | None = None

    @property
    def rung(self) -> str | None:
        return self.cell.planned.rung if self.cell.planned is not None else None


def goes_down(verdict: CellVerdict) -> bool:
    """Whether there is a plan further down that may do better."""
    planned = verdict.cell.planned
    return verdict.shortage is not None and planned is not None and planned.origin == CHOSEN and planned.rung != BOTTOM


def prepare(wants: Sequence[CellRequest], pool: InspectPool, progress: Progress) -> Iterator[PreparedCell]:
    """Each cell to be, in order. Raises the mistakes that keep a case from every target."""
    asked = [list(batch) for batch in _batches(wants)]
    answers = [pool.submit(_request(batch)) if not batch[0].unknown else None for batch in asked]
    done = 0
    for batch, answer in zip(asked, answers, strict=True):
        progress("planning", done, len(wants))
        if answer is None:
            yield from (PreparedCell(want) for want in batch)
        else:
            found = answer_of(answer.result(), batch[0].case.source.shown)
            for want, told in zip(batch, found["targets"], strict=True):
                yield _prepared(want, told, found)
        done += len(batch)


def _batches(wants: Sequence[CellRequest]) -> Iterator[Sequence[CellRequest]]:
    """Wants one after another that a child can be asked about at once: of one case, on as many targets as go together.
    A CPU's code is compiled there too, and takes its own time."""
    for _, group in groupby(wants, key=lambda want: (id(want.case), want.unknown, want.target.vendor == "cpu")):
        some = list(group)
        together = 1 if some[0].target.vendor == "cpu" else TOGETHER
        for start in range(0, len(some), together):
            yield some[start : start + together]


def _request(batch: Sequence[CellRequest]) -> dict[str, Any]:
    targets = [
        {"architecture": want.target.architecture, "limits": asdict(planned_limits(want.target)), "tried": want.tried}
        for want in batch
    ]
    return {**batch[0].case.as_request(), "targets": targets}


def _prepared(want: CellRequest, told: Mapping[str, Any], found: Mapping[str, Any]) -> PreparedCell:
    if "error" in told:
        return PreparedCell(want, misfit=f"does not compile: {mistake(dict(told))}")
    number = told["launches"]
    planned = told.get("planned")
    if planned is not None:
        planned = PlanSummary(**{**planned, "tried": tuple(planned["tried"])})
    own = found["own_bytes"][number] if "own_bytes" in found else 0
    return PreparedCell(want, tuple(found["launches"][number]), planned, found.get("tensor_bytes"), own)
