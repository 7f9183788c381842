"""A farm: order of jobs and number of nodes, replayed on recorded traces, and for real on this machine.

    python benchmarks/farm.py jobs TRACE
    python benchmarks/farm.py predictions TRACE
    python benchmarks/farm.py nodes TRACE
    python benchmarks/farm.py both FOLDER
    python benchmarks/farm.py real fifo.json --policy fifo
    python benchmarks/farm.py compare fifo.json ours.json
    python benchmarks/farm.py kills [--db postgresql://USER@HOST/NAME]

`jobs`: mean and p99 completion of each policy on one server, and of ours at several bounds. `predictions`: errors of
predicted durations; up to two minutes. `nodes`: utilisation, short
slots and wake-ups of rules that release and wake nodes, over five fortnights of Philly. Both are simulated: the same
on all machines; seconds to a minute. `real`: forty submissions of three users, three of them torch models, to a farm
with a Ray node on each core, up to five minutes; `compare`: the time until each job has a plan of 0.97 of the best
known speed; `both`: two such runs and their comparison, up to ten minutes. `kills`: machines are
killed while jobs run; up to ten minutes.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import typer
from farm_kills import run_kills
from farm_real import run_real, times_to_near

from vkernels.farm.boosting import Boosted
from vkernels.farm.history import History
from vkernels.farm.nodes import SLOT_SECONDS, Ces, Demand, RecentPeak, Rule, demand_of, reactive, replay
from vkernels.farm.order import Bounded, Fifo, Qssf, Sjf, Srtf
from vkernels.farm.simulate import simulate
from vkernels.farm.traces import read_jobs, read_nodes

TURN = 10.0
BOUNDS = (30e3, 35e3, 40e3, 41e3, 41.5e3, 42e3, 43e3, 45e3, 50e3, 60e3, 1e9)
FORTNIGHTS = ("2017-10-11", "2017-10-27", "2017-11-05", "2017-11-17", "2017-12-01")
SLOTS = 14 * 24 * 3600 // SLOT_SECONDS
BUFFERS = (5, 10, 15, 20, 25, 30, 40)
OURS = (5, 6, 10, 15, 17, 20, 22, 25, 30, 34, 40, 46)
app = typer.Typer()


@app.command()
def jobs(trace: Path) -> None:
    """Print the frontier of mean and p99 on one server."""
    found = read_jobs(trace)
    first, shortest = (simulate(found, 1, policy) for policy in (Fifo(), Sjf()))
    policies = {"FIFO": Fifo(), "SJF, durations known": Sjf(), "SRTF, durations known": Srtf(TURN), "QSSF": Qssf()}
    policies |= {f"ours, bound {bound:.0f} s": Bounded(TURN, bound) for bound in BOUNDS}
    policies |= {
        f"ours, durations known, bound {bound:.0f} s": Bounded(TURN, bound, 0.0, True) for bound in BOUNDS[2:7]
    }
    typer.echo("| policy | mean s | of SJF's gain | p99 s | of FIFO's | longest s |\n|---|---|---|---|---|---|")
    for name, policy in policies.items():
        outcome = simulate(found, 1, policy)
        gain = (first.mean - outcome.mean) / (first.mean - shortest.mean)
        typer.echo(
            f"| {name} | {outcome.mean:.0f} | {gain:.3f} | {outcome.p99:.0f} | {outcome.p99 / first.p99:.3f} "
            f"| {outcome.completions.max():.0f} |"
        )


@app.command()
def predictions(trace: Path) -> None:
    """Print how well durations are predicted by averages, and by trees that correct them."""
    found = read_jobs(trace)
    typer.echo("| forecast | median error | mean of log(predicted ÷ true), absolute |\n|---|---|---|")
    for name, forecast in {"averages": History(), "averages and trees": Boosted()}.items():
        true = np.array([job.seconds for job in found])
        predicted = simulate(found, len(found), Fifo(), forecast).predicted  # nobody waits
        errors = np.abs(predicted / true - 1), np.abs(np.log(predicted / true))
        typer.echo(f"| {name} | {100 * np.median(errors[0]):.1f} % | {np.mean(errors[1]):.4f} |")


@app.command()
def nodes(trace: Path) -> None:
    """Print utilisation, short slots and wake-ups of each rule at each buffer."""
    demand = demand_of(read_nodes(trace))
    starts = [_index(demand, day) for day in FORTNIGHTS]
    typer.echo(f"| rule | buffer | five fortnights | {FORTNIGHTS[-1]} alone |\n|---|---|---|---|")
    for name, rule in _rules(demand):
        for buffer in OURS if name == "ours" else BUFFERS:
            found = [replay(demand, rule(buffer), start, SLOTS) for start in starts]
            figures = np.array([(100 * each.utilisation, each.short, each.wakes / 14) for each in found])
            cells = ["{:.2f} %, {:.1f} short, {:.2f} a day".format(*each) for each in (figures.mean(0), figures[-1])]
            typer.echo(f"| {name} | {buffer} | {' | '.join(cells)} |")


@app.command()
def real(
    file: Path, policy: str = "bounded", submissions: int = 40, seed: int = 1, turn: float = 3.0, seconds: float = 265.0
) -> None:
    """Run submissions under an order of jobs, and write what was known when."""
    with tempfile.TemporaryDirectory(prefix="vkernels-farm-") as folder:
        found = run_real(Path(folder), policy, submissions, seed, turn, seconds)
    file.write_text(json.dumps(found))
    states = ", ".join(f"{found['states'].count(state)} {state}" for state in sorted(set(found["states"])))
    typer.echo(f"{policy}, seed {seed}: {states}, {found['seconds']:.0f} s, {found['served']:.0f} s of turns, "
               f"{len(found['plans'])} plans timed")  # fmt: skip
    for reason in found["reasons"]:
        typer.echo(reason)


@app.command()
def both(folder: Path, submissions: int = 40, seed: int = 1, turn: float = 3.0, seconds: float = 265.0) -> None:
    """Run the same submissions in the order of their arrival and in ours, and compare them."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{policy}.json" for policy in ("fifo", "bounded")]
    for file in files:
        real(file, file.stem, submissions, seed, turn, seconds)
    compare(files)


@app.command()
def compare(files: list[Path]) -> None:
    """Print the mean, median and p99 of the times to 0.97 of the best known speed; the first file's are 1."""
    runs = [json.loads(file.read_text()) for file in files]
    times = times_to_near(runs)
    typer.echo(
        "| order | mean s | of the first | median s | p99 s | of the first | jobs |\n|---|---|---|---|---|---|---|"
    )
    for run, each in zip(runs, times, strict=True):
        mean, tail = (float(figure(each)) / float(figure(times[0])) for figure in (np.mean, _p99))
        typer.echo(f"| {run['policy']} | {np.mean(each):.1f} | {mean:.2f} | {np.median(each):.1f} | {_p99(each):.1f} "
                   f"| {tail:.2f} | {len(each)} |")  # fmt: skip


@app.command()
def kills(count: int = 10, db: str = "", seed: int = 1, seconds: float = 480.0) -> None:
    """Kill machines while jobs run, and print what the database says."""
    with tempfile.TemporaryDirectory(prefix="vkernels-farm-") as folder:
        found = run_kills(Path(folder), count, db, seed, seconds)
    for name, value in found.items():
        typer.echo(f"{name}: {value}")


def _p99(values: Sequence[float]) -> float:
    return float(np.quantile(values, 0.99))


def _index(demand: Demand, day: str) -> int:
    slot = datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() // SLOT_SECONDS
    return int(np.searchsorted(demand.slot, slot))


def _rules(demand: Demand) -> Iterator[tuple[str, Callable[[int], Rule]]]:
    active = demand.active.astype(float)
    shifted = {"CES, as three hours ago": 18, "CES, as a day ago": 144, "CES, oracle": 0}
    for name, back in shifted.items():
        yield name, lambda buffer, back=back: Ces(demand, buffer, lambda now: active[now - back : now - back + 60])
    yield "reactive", lambda buffer: reactive(demand, buffer)
    yield "ours", lambda buffer: RecentPeak(demand, buffer)


if __name__ == "__main__":
    app()
