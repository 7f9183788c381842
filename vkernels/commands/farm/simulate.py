"""`vk farm simulate`: the order of a farm's jobs, on a trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vkernels.ir.errors import OptionError

from ..options import Json
from ..results import check_writable, console_for, progress_bar, table_of, write_results

if TYPE_CHECKING:
    from vkernels.farm.order import Policy
    from vkernels.farm.simulate import Outcome

POLICIES = ("fifo", "sjf", "srtf", "qssf", "bounded")

Trace = Annotated[Path, typer.Argument(metavar="TRACE", help="Jobs as .csv or .csv.gz.")]
Cores = Annotated[int, typer.Option(min=1, help="Cores of the farm.")]
Names = Annotated[str, typer.Option("--policy", metavar="NAME,…", help="Policies: fifo, sjf, srtf, qssf, bounded.")]
Seconds = Annotated[float, typer.Option("--turn", help="Seconds after which srtf and bounded may preempt a job.")]
Bound = Annotated[float, typer.Option(help="Seconds from arrival to end that bounded keeps while it can.")]
Fairness = Annotated[float, typer.Option(min=0.0, help="How strongly bounded holds users to equal shares.")]


def simulate(
    trace: Trace,
    cores: Cores = 1,
    policy: Names = "fifo,sjf,srtf,qssf,bounded",
    turn: Seconds = 10.0,
    bound: Bound = 43200.0,
    fairness: Fairness = 0.0,
    json: Json = None,
) -> None:
    """Run the jobs of a trace under scheduling policies, and compare how long they take from arrival to end.

    sjf and srtf know durations; qssf and bounded predict them from jobs that have ended.
    """
    check_writable(json)
    named = [(name, _policy(name.strip(), turn, bound, fairness)) for name in policy.split(",")]

    from vkernels.farm.simulate import simulate as run
    from vkernels.farm.traces import read_jobs

    jobs = read_jobs(trace)
    found = {}
    with progress_bar() as report:
        for number, (name, chosen) in enumerate(named):
            report(name, number, len(named))
            found[name] = run(jobs, cores, chosen)
    _show(found, json)
    write_results(
        json,
        "farm simulate",
        jobs=len(jobs),
        cores=cores,
        turn=turn,
        bound=bound,
        fairness=fairness,
        policies=[{"policy": name, **_figures(outcome)} for name, outcome in found.items()],
    )


def _policy(name: str, turn: float, bound: float, fairness: float) -> Policy:
    from vkernels.farm.order import Bounded, Fifo, Qssf, Sjf, Srtf

    if not turn > 0:
        raise OptionError(f"--turn: expected more than 0 s, got {turn}")
    if not bound > 0:
        raise OptionError(f"--bound: expected more than 0 s, got {bound}")
    known: dict[str, Policy] = {
        "fifo": Fifo(), "sjf": Sjf(), "srtf": Srtf(turn), "qssf": Qssf(), "bounded": Bounded(turn, bound, fairness),
    }  # fmt: skip
    if name not in known:
        raise OptionError(f"--policy: expected {', '.join(POLICIES)}, got {name!r}")
    return known[name]


def _figures(outcome: Outcome) -> dict[str, float]:
    return {"mean": outcome.mean, "p99": outcome.p99, "longest": float(outcome.completions.max())}


def _show(found: dict[str, Outcome], json: Json) -> None:
    table = table_of("policy", "mean s", "p99 s", "longest s", right={"mean s", "p99 s", "longest s"})
    for name, outcome in found.items():
        table.add_row(name, *(f"{figure:.0f}" for figure in _figures(outcome).values()))
    console_for(json).print(table)
