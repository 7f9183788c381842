"""What running kernels on their author's own inputs found, for each of the cases that are checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from vkernels.targets import Target
from vkernels.targets.slices import planned_limits

from ..cases import Case
from ..worker_client import InspectPool, answer_of


@dataclass(frozen=True)
class InputsRun:
    """A case run on inputs. `kernel`: its name; `configuration`: a plain Triton kernel's. `programs`: how many ran;
    `finding`: a race, or an access out of bounds, which ended the run; `unknown`: why it could not be run."""

    kernel: str
    configuration: dict[str, Any]
    programs: int = 0
    finding: str = ""
    unknown: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def run_on_inputs(
    cases: Sequence[Case], inputs: str, target: Target, pool: InspectPool, grid: str | None = None
) -> tuple[InputsRun, ...]:
    """Run cases on what the function `inputs` of their files returns, or on the arrays of the file `inputs`, as
    compiled for a GPU. `grid`: of plain Triton kernels, for a file.

    Raises mistakes in the inputs, and `FileError` where a run takes too long.
    """
    limits = asdict(planned_limits(target))
    requests = [
        {"kind": "inputs", "case": case.as_request(), "inputs": inputs, "architecture": target.architecture,
         "limits": limits, "grid": grid}
        for case in cases
    ]  # fmt: skip
    answers = [pool.submit(request) for request in requests]
    return tuple(
        InputsRun(
            case.source.shown,
            dict(case.configuration),
            **answer_of(answer.result(), f"{case.source.shown} on its inputs"),
        )
        for case, answer in zip(cases, answers, strict=True)
    )
