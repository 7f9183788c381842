"""Whether plans chosen for ever smaller limits cost ever more at once: cliffs. On this CPU, one thread.

    python benchmarks/cliffs.py [--only softmax] [--seconds 160] [--data FILE] [--docs FOLDER] [--judge]

Vector registers and the share of level 2 are halved step by step. A plan keeps within limits by the planner's own
count; its time does not depend on them. So every plan is timed once, in turns with others, and limits only say which
are admitted. Seconds are those that the thread itself ran. What is measured goes to `--data`; `--judge` measures
nothing and judges what is there. Tables and plots go to `--docs`. docs/cliffs.md says what is asked and what was found.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from time import perf_counter, thread_time
from typing import Annotated, Any

import numpy as np
import typer
from cliffs_draw import write_docs
from cliffs_judge import Case, Choice, Point, Timed, case_from_json, case_to_json, judge
from cliffs_search import Search, points_of
from common import Machine
from plans import Runner, Subject, arguments_of, space_of
from rich.console import Console

import vkernels as vk
from vkernels.compiler.backends.llvm import host_features
from vkernels.ir.errors import Error
from vkernels.ir.plan import Plan
from vkernels.ir.plan_json import plan_to_json
from vkernels.runtime.dispatch import compile as compile_call
from vkernels.runtime.dispatch import limits

SUBJECTS = (
    Subject("rows", "softmax_rows", {"M": 64, "N": 32768}),
    Subject("rows", "layer_norm_rows", {"M": 128, "N": 16384}),
    Subject("dense", "matmul_bias", {"M": 512, "N": 512, "K": 512}),
    Subject("spdnn", "spdnn", {"L": 8, "N": 1024, "K": 32, "I": 512}),
)
"""Within the last cache, so that other work on the machine is in the way as little as can be."""
SEED = 20261121
LIKED = 4
"""Plans of the chooser's list that are timed at each limits."""
DRAWN, BESIDE, GENERATIONS = 140, 70, 3
SPECIFIED = 12
"""Plans that stand for what authors may have pinned."""
ASKED = 6
"""Plans close to the best whose sizes are pinned before those that stand for what authors may have pinned."""
SLOW, CLOSE = 3.0, 1.12
"""Times the best, from which on a plan is timed but once, and up to which it is timed again at last."""
TURNS, FEWEST_TURNS, LAST_TURNS = 4, 9, 25
POOL_UNTIL, BESIDE_UNTIL, PINNED_UNTIL = 0.4, 0.65, 0.85
"""Parts of the time for a kernel after which nothing more of a sort is compiled."""
console = Console(highlight=False)


@dataclass
class Entry:
    """A plan, what it takes, how to call it, and seconds so far."""

    plan: Plan
    registers: int
    shared: int
    origin: str
    run: Callable[[], object]
    seconds: list[float] = field(default_factory=list)
    final: bool = False

    @property
    def usual(self) -> float:
        """Three quarters of the turns took longer: other work on the machine only ever adds."""
        return float(np.quantile(self.seconds, 0.25))

    def fits(self, point: Point) -> bool:
        return self.registers <= point.registers and self.shared <= point.shared


class Bench:
    """Plans of one kernel, each compiled and timed once it is asked for."""

    def __init__(self, subject: Subject, seconds: float):
        self.arguments = [_aligned(value) for value in arguments_of(subject, np.random.default_rng(SEED))]
        self.points = points_of(limits())
        self.search = Search(space_of(subject, self.arguments, limits()), self.points, SEED)
        self.runner = Runner(subject, self.arguments)
        self.entries: list[Entry] = []
        self.numbers: dict[str, int | None] = {}
        self.start, self.allowed = perf_counter(), seconds

    def is_over(self, part: float) -> bool:
        return perf_counter() - self.start > part * self.allowed

    def add(self, plan: Plan, origin: str) -> int | None:
        """The plan's number; None where it cannot be run."""
        key = repr(plan)
        if key not in self.numbers:
            self.numbers[key] = None
            try:
                taken = self.search.taken(plan)
                entry = Entry(plan, taken.registers, taken.shared, origin, self.runner.by(plan))
            except Error:
                return None
            self.numbers[key] = len(self.entries)
            self.entries.append(entry)
        return self.numbers[key]

    def add_all(self, plans: Iterable[Plan], origin: str, until: float) -> None:
        """Compile what is new until the time is up, then time it in turns."""
        before = len(self.entries)
        for plan in plans:
            if self.is_over(until):
                break
            self.add(plan, origin)
        self.turns(self.entries[before:], TURNS)

    def turns(self, entries: list[Entry], rounds: int) -> None:
        for number in range(rounds):
            for entry in entries:
                if number and entry.seconds[0] > SLOW * self.least(entry):
                    continue
                start = thread_time()
                entry.run()
                entry.seconds.append(thread_time() - start)

    def least(self, entry: Entry) -> float:
        """Of the plans that take no more than another: what it would have to beat."""
        point = Point(entry.registers, entry.shared)
        return min(min(each.seconds) for each in self.entries if each.seconds and (each.fits(point) or each is entry))

    def leaders(self, point: Point, count: int) -> list[int]:
        """The fastest plans within limits, so far."""
        admitted = [n for n, entry in enumerate(self.entries) if entry.seconds and entry.fits(point)]
        return sorted(admitted, key=lambda number: self.entries[number].usual)[:count]


def _aligned(value: Any) -> Any:
    """An array that begins on a line, as torch's do. NumPy's begin on any of four places, which costs up to 1.6 times
    and is not to decide between plans."""
    import torch

    return torch.from_numpy(value).clone().numpy() if isinstance(value, np.ndarray) else value


def measure(subject: Subject, seconds: float) -> Case:
    bench = Bench(subject, seconds)
    search, points = bench.search, bench.points
    found = [search.chosen(point) for point in points]
    bench.add_all([chosen.plan for chosen in found], "chosen", 1.0)
    liked = [plan for point in points for plan in search.liked(point, LIKED)]
    bench.add_all(liked, "liked", POOL_UNTIL / 2)
    bench.add_all(search.drawn(DRAWN), "drawn", POOL_UNTIL)
    for generation in range(GENERATIONS):
        until = POOL_UNTIL + (BESIDE_UNTIL - POOL_UNTIL) * (generation + 1) / GENERATIONS
        bench.add_all(_beside(bench), "beside", until)
    _turns_of_all(bench, set(), FEWEST_TURNS)
    near = [_near(bench, point) for point in points]
    authors = list(
        dict.fromkeys(some[rank] for rank in range(max(map(len, near))) for some in near if rank < len(some))
    )
    choose = np.random.default_rng(SEED)
    drawn = [n for n, entry in enumerate(bench.entries) if entry.origin == "drawn"]
    specified = sorted(choose.choice(drawn, min(SPECIFIED, len(drawn)), replace=False).tolist())
    pinned = _pinned(bench, [*authors[:ASKED], *specified, *authors[ASKED:]])
    choices = [bench.add(chosen.plan, "chosen") for chosen in found]
    if None in choices:
        raise RuntimeError(f"{subject.label}: a chosen plan cannot be run")
    matter = {n for n in choices if n is not None} | {n for plans in pinned.values() for n in plans}
    _turns_of_all(bench, matter, LAST_TURNS)
    looks = {number: _native(bench, number) for number in {n for n in choices if n is not None}}
    return Case(
        subject.label, points, [_timed(entry) for entry in bench.entries],
        [Choice(n, c.rung, c.seconds, *looks[n]) for n, c in zip(choices, found, strict=True) if n is not None],
        pinned, [n for n in specified if n in pinned], search.enumerated,
        sum(number is None for number in bench.numbers.values()),
    )  # fmt: skip


def _beside(bench: Bench) -> list[Plan]:
    """Neighbours of the two best plans at each limits, some of each."""
    choose = np.random.default_rng(SEED)
    found: dict[str, Plan] = {}
    leaders = {number: point for point in bench.points for number in bench.leaders(point, 2)}
    for number, point in leaders.items():
        found |= {repr(plan): plan for plan in bench.search.beside(bench.entries[number].plan, point)}
    plans = [plan for key, plan in found.items() if key not in bench.numbers]
    return [plans[number] for number in choose.permutation(len(plans))[:BESIDE]]


def _near(bench: Bench, point: Point) -> list[int]:
    leaders = bench.leaders(point, len(bench.entries))
    return [n for n in leaders if bench.entries[n].usual <= CLOSE * bench.entries[leaders[0]].usual]


def _pinned(bench: Bench, authors: list[int]) -> dict[int, list[int]]:
    """What the toolkit makes of the sizes of authors' plans at each limits; authors in turn, until the time is up."""
    pinned: dict[int, list[int]] = {}
    asked: dict[str, list[int | None]] = {}
    before = len(bench.entries)
    for author in authors:
        plan = bench.entries[author].plan
        key = repr((sorted(plan.tiles.items()), sorted(plan.chunks.items())))
        if key not in asked:
            if bench.is_over(PINNED_UNTIL):
                continue
            asked[key] = [bench.add(bench.search.pinned(plan, point), "pinned") for point in bench.points]
        numbers = [number for number in asked[key] if number is not None]
        if len(numbers) == len(bench.points):
            pinned[author] = numbers
    bench.turns(bench.entries[before:], TURNS)
    return pinned


def _turns_of_all(bench: Bench, matter: set[int], rounds: int) -> None:
    """Time anew, in turns, what matters and what is close to the best at any limits.

    In another order each time, and each after a call of its own.
    """
    close = {number for point in bench.points for number in _near(bench, point)}
    slow = {n for n in matter if bench.entries[n].usual > SLOW * bench.least(bench.entries[n])}
    entries = [bench.entries[number] for number in sorted((matter | close) - slow)]
    for entry in entries:
        entry.seconds, entry.final = [], True
    choose = np.random.default_rng(SEED)
    for number in range(rounds):
        if number >= FEWEST_TURNS and bench.is_over(1.0):
            break
        for place in choose.permutation(len(entries)):
            entry = entries[place]
            entry.run()  # not timed: what the plan before left in the caches is not to count
            start = thread_time()
            entry.run()
            entry.seconds.append(thread_time() - start)


def _timed(entry: Entry) -> Timed:
    lower, middle, upper = (float(f"{value:.4g}") for value in np.quantile(entry.seconds, [0.25, 0.5, 0.75]))
    plain = {name: value for name, value in plan_to_json(entry.plan).items() if value}
    return Timed(plain, entry.registers, entry.shared, entry.origin, entry.final, lower, middle, upper)


def _native(bench: Bench, number: int) -> tuple[int, int]:
    """The highest vector register that a plan's code names, plus one; and, where this is an x86, how many registers the
    same code stores on the stack and loads from it in 32-bit mode, which has but eight. -1: not known."""
    from vkernels.language.kernel import Kernel, Options

    kernel = Kernel(bench.runner.subject.kernel.function, Options(plan=bench.entries[number].plan))
    compiled: Any = compile_call(kernel, bench.arguments, {})
    if compiled.plan != bench.entries[number].plan:
        raise RuntimeError(f"{kernel.name}: another plan ran than was asked for")
    native = compiled.native
    named = re.findall(r"%[xyz]mm(\d+)", native.assembly)
    return max(map(int, named)) + 1 if named else -1, _spills_of_eight(native)


def _spills_of_eight(native: Any) -> int:
    import llvmlite.binding as llvm

    if "x86" not in llvm.get_default_triple():
        return -1
    features = ",".join(each for each in host_features().split(",") if each != "+64bit")
    machine = llvm.Target.from_triple("i686-unknown-linux-gnu").create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=2, reloc="static", codemodel="small"
    )
    with llvm.create_context() as context, llvm.parse_bitcode(native.bitcode, context) as module:
        module.triple, module.data_layout = machine.triple, str(machine.target_data)
        assembly = machine.emit_assembly(module)
    stored = re.findall(r"%[yz]mm\d+, -?\d*\(%e[sb]p\)", assembly)
    return len(stored) + len(re.findall(r"-?\d*\(%e[sb]p\), %[yz]mm\d+", assembly))


def pin_to_one_core() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def main(
    only: str = "",
    seconds: Annotated[float, typer.Option(help="for each kernel")] = 150,
    data: Path = Path("docs/measurements/cliffs.json"),
    docs: Path = Path("docs"),
    judge_only: Annotated[bool, typer.Option("--judge", help="measure nothing")] = False,
) -> None:
    kept: dict[str, Any] = json.loads(data.read_text()) if data.exists() else {"cases": {}}
    if not judge_only:
        pin_to_one_core()
        vk.set_threads(1)
        kept |= {"machine": Machine.here(1).as_json(), "date": str(date.today()), "seed": SEED}
        for subject in SUBJECTS:
            if only not in subject.label:
                continue
            load, start, ran = os.getloadavg()[0], perf_counter(), thread_time()
            case = measure(subject, seconds)
            took = perf_counter() - start
            kept["cases"][subject.name] = case_to_json(case) | {
                "load": round(load, 1), "took": round(took), "ran": round((thread_time() - ran) / took, 2)
            }  # fmt: skip
            data.write_text(json.dumps(kept, separators=(",", ":")) + "\n")
            _say(case)
    write_docs(kept, {name: case_from_json(_own(plain)) for name, plain in kept["cases"].items()}, docs)


def _own(plain: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in plain.items() if name not in ("load", "took", "ran")}


def _say(case: Case) -> None:
    verdict, points = judge(case), case.points
    one, other, ratio = verdict.step
    (worst, in_all), (furthest, from_best) = verdict.in_all, verdict.from_best
    console.print(f"{case.label}: {len(case.plans)} plans timed of {case.enumerated}; chosen, at worst:")
    console.print(f"  {ratio:.2f} × a step ({points[one]} → {points[other]})")
    console.print(f"  {in_all:.2f} × in all ({points[worst]}), {from_best:.2f} × the best ({points[furthest]})")


if __name__ == "__main__":
    typer.run(main)
