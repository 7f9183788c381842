"""Cells to be: asked of children, with the jobs of their launches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any

from vkernels.ir.planning.shortage import Lack, Shortage, misfit, spill

from ..compile.jobs import CompileJob
from ..compile.resources import taken_by
from ..compile.triton_adapter import GpuOptions
from ..compile.workers import CompilePool
from ..ladder import BOTTOM
from ..slices import planned_limits
from ..targets import Target, limits_of
from .asking import Progress, answer_of, ask, mistake
from .cases import Case
from .cells import Cell, LaunchFailure, LaunchUse, judge
from .memory import swap_bytes, too_large, too_many
from .planned import CHOSEN, Planned

TOGETHER = 16
"""Targets that a child is asked about at once: so many that they share what is lowered, and still far from its time
limit."""


@dataclass(frozen=True)
class Want:
    """A case on a target. `unknown`: why nobody can tell. `tried`: what the plans so far took too much of.
    `spilling`: the first cell whose binaries can run, but spill."""

    case: Case
    target: Target
    unknown: str = ""
    tried: tuple[str, ...] = ()
    spilling: Judged | None = None

    def below(self, judged: Judged) -> Want:
        """The same for the next plan down."""
        assert judged.cell.planned is not None
        assert judged.shortage is not None
        spilling = self.spilling or (judged if judged.cell.fits else None)
        return replace(self, tried=(*judged.cell.planned.tried, judged.shortage.lack.value), spilling=spilling)

    def best(self, judged: Judged) -> Judged:
        """Of what was found last and what spilt: the bottom rung is slower than any spills."""
        if self.spilling is not None and (judged.shortage is not None or judged.rung == BOTTOM):
            return self.spilling
        return judged


@dataclass(frozen=True)
class Prepared:
    """A cell to be: its launches, as children give them, and the jobs of these; or why it has none."""

    want: Want
    launches: tuple[Mapping[str, Any], ...] = ()
    planned: Planned | None = None
    tensor_bytes: int | None = None
    own_bytes: int = 0
    misfit: str = ""

    @property
    def jobs(self) -> tuple[CompileJob, ...]:
        architecture = self.want.target.architecture
        return tuple(CompileJob(each["text"], architecture, GpuOptions(**each["options"])) for each in self.launches)


@dataclass(frozen=True)
class Judged:
    """A cell, and what there was too little of for it, if anything; a spill is such too."""

    cell: Cell
    shortage: Shortage | None = None

    @property
    def rung(self) -> str | None:
        return self.cell.planned.rung if self.cell.planned is not None else None


def goes_down(judged: Judged) -> bool:
    """Whether there is a plan further down that may do better."""
    planned = judged.cell.planned
    return judged.shortage is not None and planned is not None and planned.origin == CHOSEN and planned.rung != BOTTOM


def prepare(wants: Sequence[Want], pool: CompilePool, progress: Progress) -> Iterator[Prepared]:
    """Each cell to be, in order. Raises the mistakes that keep a case from every target."""
    asked = [list(batch) for batch in _batches(wants)]
    answers = [ask(pool, _request(batch)) if not batch[0].unknown else None for batch in asked]
    done = 0
    for batch, answer in zip(asked, answers, strict=True):
        progress("planning", done, len(wants))
        if answer is None:
            yield from (Prepared(want) for want in batch)
        else:
            found = answer_of(answer.result(), batch[0].case.source.shown)
            for want, told in zip(batch, found["targets"], strict=True):
                yield _prepared(want, told, found)
        done += len(batch)


def _batches(wants: Sequence[Want]) -> Iterator[Sequence[Want]]:
    """Wants one after another that a child can be asked about at once: of one case, on as many targets as go together.
    A CPU's code is compiled there too, and takes its own time."""
    for _, group in groupby(wants, key=lambda want: (id(want.case), want.unknown, want.target.vendor == "cpu")):
        some = list(group)
        together = 1 if some[0].target.vendor == "cpu" else TOGETHER
        for start in range(0, len(some), together):
            yield some[start : start + together]


def _request(batch: Sequence[Want]) -> dict[str, Any]:
    targets = [
        {"architecture": want.target.architecture, "limits": asdict(planned_limits(want.target)), "tried": want.tried}
        for want in batch
    ]
    return {**batch[0].case.as_request(), "targets": targets}


def _prepared(want: Want, told: Mapping[str, Any], found: Mapping[str, Any]) -> Prepared:
    if "error" in told:
        return Prepared(want, misfit=f"does not compile: {mistake(dict(told))}")
    number = told["launches"]
    planned = told.get("planned")
    if planned is not None:
        planned = Planned(**{**planned, "tried": tuple(planned["tried"])})
    own = found["own_bytes"][number] if "own_bytes" in found else 0
    return Prepared(want, tuple(found["launches"][number]), planned, found.get("tensor_bytes"), own)


def judged(prepared: Prepared, found: Sequence[LaunchUse | LaunchFailure]) -> Judged:
    """The cell, of what each of its launches takes."""
    case, target = prepared.want.case, prepared.want.target
    launches = tuple(judge(each["name"], use, target) for each, use in zip(prepared.launches, found, strict=True))
    if prepared.misfit:
        launches = (judge(case.source.name, LaunchFailure(prepared.misfit, 0.0), target),)
    swap = swap_bytes(prepared.launches, launches, prepared.own_bytes, target) if not prepared.misfit else None
    whole = None
    if swap is not None and prepared.tensor_bytes is not None:
        whole = too_many(prepared.launches) or too_large(prepared.tensor_bytes, swap, target)
    cell = Cell(
        case.source.shown, target.key, target.architecture, case.dtype, case.shape, case.configuration, launches,
        prepared.want.unknown, prepared.planned, prepared.tensor_bytes, swap, whole.reason if whole else "",
    )  # fmt: skip
    hopeless = prepared.tensor_bytes is not None and prepared.tensor_bytes > target.memory  # whatever the plan
    return Judged(cell, None if hopeless else shortage_of(found, target) or whole)


def shortage_of(found: Sequence[LaunchUse | LaunchFailure], target: Target) -> Shortage | None:
    """What the launches take too much of; a spill is told of where there is nothing worse."""
    limits = limits_of(target)
    taken = [taken_by(use.resources, use.threads) for use in found if isinstance(use, LaunchUse)]
    if len(taken) < len(found):
        reason = next(use.reason for use in found if isinstance(use, LaunchFailure))
        return Shortage(Lack.CODE, 0, 0, reason)
    reasons = [*(misfit(each, limits) for each in taken), *(spill(each) for each in taken)]
    return next((reason for reason in reasons if reason is not None), None)
