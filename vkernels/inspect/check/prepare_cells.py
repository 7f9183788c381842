"""Prepare cells in worker processes: the launches of a plan each, before anything is compiled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any

import msgspec

from vkernels.compiler.backends.triton_adapter import GpuOptions
from vkernels.compiler.plan_fallback import BOTTOM
from vkernels.compiler.workers.jobs import CompileJob
from vkernels.ir.unseen_time import NOTHING_UNSEEN, UnseenTime
from vkernels.targets import Target
from vkernels.targets.slices import planned_limits

from ..cases import Case
from ..worker_client import InspectPool, Progress, answer_of, mistake
from .cells import Cell, PlanSummary

TOGETHER = 16
"""Targets per request: many, because they share lowered plans, but far from the worker's time limit."""


@dataclass(frozen=True)
class CellRequest:
    """A case on a target.

    `unknown`: why its result cannot be known. `tried`: shortages of the plans so far. `spilling`: the first cell whose
    binaries can run, but spill. `present`: the plan that was found so. `of_use`: of the plans that were judged by
    their binaries, whether each can be taken. `judged`: these plans, if neighbours of some are wanted; `near`: of
    which; `spilling_near`: those of `near` whose loops spill.
    """

    case: Case
    target: Target
    unknown: str = ""
    tried: tuple[str, ...] = ()
    spilling: Cell | None = None
    present: Mapping[str, Any] | None = None
    of_use: tuple[bool, ...] = ()
    judged: tuple[Mapping[str, Any], ...] = ()
    near: tuple[Mapping[str, Any], ...] = ()
    spilling_near: tuple[Mapping[str, Any], ...] = ()

    def as_request(self) -> dict[str, Any]:
        """The target, as a worker takes it."""
        limits = asdict(planned_limits(self.target))
        present = {} if self.present is None else {"present": self.present}
        return {
            "architecture": self.target.architecture, "limits": limits, "tried": self.tried, "of_use": self.of_use,
            "judged": self.judged, "near": self.near, "spilling": self.spilling_near, **present,
        }  # fmt: skip

    def below(self, cell: Cell) -> CellRequest:
        """The request for the next plan down."""
        assert cell.planned is not None
        assert cell.shortage is not None
        spilling = self.spilling or (cell if cell.fits else None)
        return replace(self, tried=(*cell.planned.tried, cell.shortage.lack.value), spilling=spilling)

    def best(self, cell: Cell) -> Cell:
        """The last cell or the first that spills, because the bottom rung is slower than any spill."""
        if self.spilling is not None and (
            cell.shortage is not None or (cell.planned is not None and cell.planned.rung == BOTTOM)
        ):
            return self.spilling
        return cell


@dataclass(frozen=True)
class PreparedCell:
    """A cell before compiling: its launches and their jobs, or why it has none. `unseen`: what a call takes by what
    no binary shows."""

    want: CellRequest
    launches: tuple[Mapping[str, Any], ...] = ()
    planned: PlanSummary | None = None
    tensor_bytes: int | None = None
    own_bytes: int = 0
    misfit: str = ""
    unseen: UnseenTime = NOTHING_UNSEEN

    @property
    def jobs(self) -> tuple[CompileJob, ...]:
        architecture = self.want.target.architecture
        return tuple(CompileJob(each["text"], architecture, GpuOptions(**each["options"])) for each in self.launches)


def prepare(wants: Sequence[CellRequest], pool: InspectPool, progress: Progress) -> Iterator[PreparedCell]:
    """Prepare cells, in order. Raises mistakes that affect a case on all targets."""
    asked = list(_batches(wants))
    answers = [
        pool.submit({**batch[0].case.as_request(), "targets": [want.as_request() for want in batch]})
        if not batch[0].unknown
        else None
        for batch in asked
    ]
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


def _batches(wants: Sequence[CellRequest], most: int = TOGETHER) -> Iterator[Sequence[CellRequest]]:
    """Group consecutive requests that fit one worker request: of one case, on at most so many targets.

    A CPU's code is compiled there, too, which takes longer.
    """
    for _, group in groupby(wants, key=lambda want: (id(want.case), want.unknown, want.target.vendor == "cpu")):
        some = list(group)
        together = 1 if some[0].target.vendor == "cpu" else most
        for start in range(0, len(some), together):
            yield some[start : start + together]


def _prepared(want: CellRequest, told: Mapping[str, Any], found: Mapping[str, Any]) -> PreparedCell:
    """A cell as a worker `told` it. `found`: the rest of its answer."""
    if "error" in told:
        return PreparedCell(want, misfit=f"does not compile: {mistake(dict(told))}")
    number = told["launches"]
    planned = msgspec.convert(told.get("planned"), PlanSummary | None)
    own = found["own_bytes"][number] if "own_bytes" in found else 0
    return PreparedCell(
        want,
        tuple(found["launches"][number]),
        planned,
        found.get("tensor_bytes"),
        own,
        unseen=msgspec.convert(told.get("unseen", {}), UnseenTime),
    )


def prepare_to_judge(wants: Sequence[CellRequest], count: int, pool: InspectPool) -> Iterator[tuple[PreparedCell, ...]]:
    """The next plans to judge of each cell. Raises mistakes that affect a case on all targets."""
    asked = list(_batches(wants, max(1, TOGETHER // count)))
    answers = [
        pool.submit(
            {**batch[0].case.as_request(), "targets": [{**want.as_request(), "judge": count} for want in batch]}
        )
        for batch in asked
    ]
    for batch, answer in zip(asked, answers, strict=True):
        found = answer_of(answer.result(), batch[0].case.source.shown)
        for want, told in zip(batch, found["targets"], strict=True):
            yield tuple(_prepared(want, each, found) for each in told.get("judge", ()))
