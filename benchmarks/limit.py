"""Training steps under a limit for real: what a call takes beside what the simulator says it takes.

    python benchmarks/limit.py [--rounds 60] [--flash FOLDER] [--json FILE]

The transformer and the CNN of tests/memory/programs.py at 60 % and 40 % of their peak, with what is away on the host
and, but for an eighth of the peak, on flash. In each round the plain step, small programs that are followed (of which
the costs of following are taken), and the limited steps run in turns: whatever else the machine does meets all of them.
docs/memory-running.md says what was found.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import torch
import typer
from common import Quartiles
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import nn

from vkernels.memory import Limited, limit
from vkernels.memory.cpu_device import AT_ONCE, CpuDevice, do
from vkernels.memory.device import Lane, Transfer
from vkernels.memory.following import copied_again, simulated
from vkernels.memory.layout import MemoryLayout
from vkernels.memory.limit import LINKS
from vkernels.memory.links import MemoryMachine
from vkernels.memory.record import record

ROOT = Path(__file__).parents[1]
REMEMBERED = 7
"""Of the last times that costs were taken, the median counts."""
PARTS = (0.6, 0.4)
HOST_PART = 8
"""With flash, the host has so small a part of the peak."""
SMALL, OPERATIONS, LARGE, RESULTS = 64, 200, 1 << 18, 30
"""Of the programs that are followed for their costs: bytes of a small tensor and of a large one, and how many."""
LAYERS, WIDTH, ROWS, MOVING = 8, 128, 256, 0.4
"""Of the step that is trained for its costs, and the part of its peak that it has where it moves tensors. Its
operations are large enough to take the caches from the code that follows them, as those of programs do."""
ROOM, TRANSFER = 1 << 26, 1 << 20
"""Bytes of the memories that are copied between, and of a transfer that a lane's thread carries."""
ITSELF = {Lane.TO_HOST: 1 << 18, Lane.FROM_HOST: 1 << 18, Lane.TO_FLASH: 1 << 16, Lane.FROM_FLASH: 1 << 16}
"""Bytes of those that the program's thread carries."""
TURNS = 5
"""Of the step that moves tensors and of the same that moves none: what a move costs is the difference."""
console = Console(highlight=False, width=110)


@dataclass
class Subject:
    """A program under one limit. `calls`: of each round, seconds measured, simulated, and of its own."""

    name: str
    place: str
    part: float
    step: Limited[[], Any]
    plain: Callable[[], Any]
    plain_seconds: list[float] = field(default_factory=list)
    calls: list[tuple[float, float, float]] = field(default_factory=list)
    same: bool = True

    @property
    def ratios(self) -> Quartiles:
        """Measured ÷ simulated."""
        return Quartiles.of([measured / simulated for measured, simulated, _ in self.calls])


class Clock:
    """Seconds that the program's thread ran, or waited for a transfer: not those in which others had its core."""

    def __init__(self) -> None:
        self.waited = 0.0

    def __call__(self) -> float:
        return time.thread_time() + self.waited

    def on(self, step: Limited[[], Any]) -> None:
        """Have a step that is followed timed by this."""
        follow = step._follow
        wait, follow.clock = follow.on.wait, self

        def timed(done: Any) -> BaseException | None:
            if done.done():
                return wait(done)
            begun, ran = time.perf_counter(), time.thread_time()
            error = wait(done)
            self.waited += time.perf_counter() - begun - (time.thread_time() - ran)
            return error

        follow.on.wait = timed


class Costs:
    """Small programs under a limit that is enough for them, one of them under another too, and copies: what following
    costs right now. What an operation costs is taken from a training step of linear layers: one operation again
    and again finds everything in the caches."""

    def __init__(self, folder: Path, clock: Clock | None):
        one, wide = torch.zeros(SMALL // 4), torch.zeros(LARGE // 4)

        def within() -> None:
            for _ in range(OPERATIONS):
                one.add_(1)

        def makes() -> None:
            y = one
            for _ in range(OPERATIONS):
                y = y + 1

        def makes_large() -> None:
            _ = [wide + n for n in range(RESULTS)]

        layers = [part for _ in range(LAYERS) for part in (nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.GELU())]
        model, x = nn.Sequential(*layers), torch.randn(ROWS, WIDTH)
        optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)

        def trains() -> None:
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()

        trains()
        peak = record(trains).peak
        self._steps = [limit(each, 1 << 30, strict=True) for each in (within, makes, makes_large, trains)]
        self._moves = limit(trains, int(peak * MOVING))
        self._device = CpuDevice()
        self._memories = self._device.arena(ROOM), self._device.host(ROOM)
        self._offset = 0
        self._flash = self._device.flash(folder, ROOM)
        self._seen: deque[dict[str, float]] = deque(maxlen=REMEMBERED)
        for step in (*self._steps, self._moves):
            for _ in range(5):
                step()
            if clock is not None:
                clock.on(step)

    def now(self, machine: MemoryMachine) -> MemoryMachine:
        """The machine, with what was measured just now, and a few times before."""
        self._seen.append(self._costs() | self._links())
        found = {name: median(each[name] for each in self._seen) for name in self._seen[0]}
        found["made_rate"] = 1 / max(1e-12, found.pop("made_byte"))
        at_once, flash = AT_ONCE[Lane.TO_HOST], AT_ONCE[Lane.TO_FLASH]
        return replace(machine, at_once=at_once, flash_at_once=flash, **found)

    def _costs(self) -> dict[str, float]:
        within, makes, large, trains = map(_extra, self._steps)
        more = median(_extra(self._moves, 1) - _extra(self._steps[-1], 1) for _ in range(TURNS))
        made = max(0.0, makes - within) / OPERATIONS
        byte = max(0.0, large - RESULTS * makes / OPERATIONS) / (RESULTS * LARGE)
        layout = self._moves.layout
        tensors = [each.size for each in layout.trace.tensors if not each.is_global]
        operation = (trains - made * len(tensors) - byte * sum(tensors)) / len(layout.trace.operations)
        begun = sum(1 if each.copy is None else 2 for each in layout.schedule.absences) + len([*copied_again(layout)])
        absence = (more - self._carried(layout)) / begun
        found = {"operation_seconds": operation, "made_seconds": made, "made_byte": byte, "absence_seconds": absence}
        return {name: max(0.0, each) for name, each in found.items()}

    def _carried(self, layout: MemoryLayout) -> float:
        """Seconds of the bytes that the step carries itself, which are counted apart."""
        rate = median(each["to_host"] for each in self._seen) if self._seen else LINKS.to_host
        sizes = [layout.trace.tensors[each.tensor].size for each in layout.schedule.absences]
        return 2 * sum(sizes) / rate

    def _links(self) -> dict[str, float]:
        """Rates of what the program's thread would carry itself, and how much longer a lane's thread takes for it."""
        found, handed = {}, []
        for tier, lanes in (("host", (Lane.TO_HOST, Lane.FROM_HOST)), ("flash", (Lane.TO_FLASH, Lane.FROM_FLASH))):
            later = []
            for lane in lanes:
                small = ITSELF[lane]
                rate = small / median(self._timed(do, lane, small, time.thread_time) for _ in range(5))
                carried = median(self._timed(self._carry, lane, TRANSFER, time.perf_counter) for _ in range(5))
                later.append(max(0.0, carried - TRANSFER / rate))
                found[lane.value.replace(" ", "_")] = rate
                handed.append(median(self._timed(self._carry, lane, TRANSFER, time.thread_time) for _ in range(5)))
            found[f"{tier}_seconds"] = sum(later) / 2
        return found | {"hand_over_seconds": median(handed)}

    def _timed(
        self, carry: Callable[[Lane, Transfer], object], lane: Lane, size: int, clock: Callable[[], float]
    ) -> float:
        """Of a place that was not touched for a while, as a program's tensors are when they move."""
        self._offset = (self._offset + 3 * TRANSFER) % (ROOM - TRANSFER)
        arena, host = (each.address + self._offset for each in self._memories)
        work = {
            Lane.TO_HOST: Transfer(arena, host, size), Lane.FROM_HOST: Transfer(host, arena, size),
            Lane.TO_FLASH: Transfer(arena, self._offset, size, self._flash),
            Lane.FROM_FLASH: Transfer(self._offset, arena, size, self._flash),
        }[lane]  # fmt: skip
        begun = clock()
        carry(lane, work)
        return clock() - begun

    def _carry(self, lane: Lane, work: Transfer) -> None:
        error = self._device.wait(self._device.carry(lane, None, work))
        if error is not None:
            raise error


def _times(step: Limited[[], Any], calls: int = 3) -> list[Any]:
    for _ in range(calls):
        step()
    return list(step.times)[-calls:]


def _extra(step: Limited[[], Any], calls: int = 3) -> float:
    """What following adds to a call, in seconds."""
    return median(each.seconds - sum(each.own) for each in _times(step, calls))


def subjects(folder: Path, clock: Clock | None) -> Iterator[Subject]:
    """Every program at every limit, planned and warm."""
    sys.path.insert(0, str(ROOT))
    from tests.memory.programs import Program, cnn, transformer

    for make in (transformer, cnn):
        peak = record(Program(make).step).peak
        for place in ("host", "flash"):
            more = {"flash": folder, "host_bytes": peak // HOST_PART} if place == "flash" else {}
            for part in PARTS:
                program, plain = Program(make), Program(make)
                step = limit(program.step, int(peak * part), links=LINKS, **more)
                for _ in range(6):
                    step()
                    plain.step()
                if clock is not None:
                    clock.on(step)
                yield Subject(make.__name__, place, part, step, plain.step)


def play(all_: Sequence[Subject], costs: Costs) -> None:
    """One round. Steps repeat, so each is timed when it has just run: after others it would find the caches empty."""
    for each in all_:
        begun = time.thread_time()
        expected = each.plain()
        each.plain_seconds.append(time.thread_time() - begun)
        machine = costs.now(each.step.layout.machine)
        planned = each.step.report.planned
        each.same = each.same and torch.equal(each.step(), expected)
        expected = each.plain()
        each.same = each.same and torch.equal(each.step(), expected)
        if each.step.report.planned != planned + 2:
            raise RuntimeError(f"{each.name}: the plan was left: {each.step.report.why}")
        times = each.step.times[-1]
        run = simulated(replace(each.step.layout, machine=machine), times.own)
        each.calls.append((times.seconds, run.seconds, sum(times.own)))


def main(
    rounds: Annotated[int, typer.Option(min=3)] = 60,
    flash: Annotated[Path | None, typer.Option(help="A folder for flash; the system's for files that go soon.")] = None,
    wall: Annotated[bool, typer.Option(help="Time by the clock on the wall, for a quiet machine.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json")] = None,
) -> None:
    """Measure, and show."""
    torch.set_num_threads(1)
    clock = None if wall else Clock()
    folder = flash or Path(tempfile.gettempdir())
    costs = Costs(folder, clock)
    all_ = list(subjects(folder, clock))
    for _ in track(range(rounds), "rounds", console=Console(stderr=True)):
        play(all_, costs)
    table = Table(box=None, pad_edge=False)
    for head in ("", "limit", "away on", "plain", "measured", "simulated", "measured ÷ simulated", "same bits"):
        table.add_column(head, justify="right" if head else "left", no_wrap=True)
    for each in all_:
        plain, (measured, simulated_, _) = median(each.plain_seconds), map(median, zip(*each.calls, strict=True))
        table.add_row(
            each.name, f"{each.part:.0%}", each.place, *(f"{s * 1e3:.2f} ms" for s in (plain, measured, simulated_)),
            str(each.ratios), "yes" if each.same else "no",
        )  # fmt: skip
    console.print(table)
    if json_file is not None:
        rows = [
            {
                "name": e.name,
                "part": e.part,
                "place": e.place,
                "same": e.same,
                "plain": e.plain_seconds,
                "calls": e.calls,
            }
            for e in all_
        ]
        json_file.write_text(json.dumps(rows))


if __name__ == "__main__":
    typer.run(main)
