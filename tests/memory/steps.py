"""Random training steps on random machines, and a replay that shares nothing with the simulator but its results."""

from __future__ import annotations

import random

from msgspec import structs

from vkernels.memory.links import MemoryMachine, Tier
from vkernels.memory.schedule import Absence, SwapSchedule
from vkernels.memory.schedule_check import least_bytes
from vkernels.memory.simulate import SimulatedRun
from vkernels.memory.trace import MemoryTrace, Operation, TracedTensor


def step_of(seed: int) -> MemoryTrace:
    """A step: layers forward, the same backward, weights written at the end; some tensors wrap into the next."""
    draw = random.Random(seed)
    layers = draw.randint(1, 5)
    tensors: list[TracedTensor] = []
    operations: list[Operation] = []

    def tensor(name: str, is_global: bool = False) -> int:
        tensors.append(TracedTensor(name, draw.randint(0, 40), is_global))
        return len(tensors) - 1

    def operate(name: str, reads: list[int], writes: list[int]) -> None:
        scratch = draw.choice((0, 0, draw.randint(0, 20)))
        unique = tuple(dict.fromkeys(reads)), tuple(dict.fromkeys(writes))
        seconds = draw.choice((0.0, draw.uniform(0.1, 2.0), 1.0)) if operations else 0.5
        operations.append(Operation(name, seconds, *unique, scratch))

    weights = [tensor(f"w{n}", True) for n in range(layers)]
    carried = [tensor(f"kept{n}") for n in range(draw.randint(0, 1))]
    made = [tensor("data")]
    operate("load", carried, [made[0]])
    for n in range(layers):
        made.append(tensor(f"x{n}"))
        operate(f"forward{n}", [made[-2], weights[n], draw.choice(made[:-1])], [made[-1]])
    gradient = tensor("loss")
    operate("loss", [made[-1]], [gradient])
    for n in reversed(range(layers)):
        before, gradient = gradient, tensor(f"d{n}")
        operate(
            f"backward{n}", [before, weights[n], made[n], *([made[n + 1]] if draw.random() < 0.5 else [])], [gradient]
        )
        if draw.random() < 0.7:
            operate(f"update{n}", [weights[n], gradient], [weights[n]])
    operate("end", [gradient], carried)
    trace = MemoryTrace(f"step {seed}", tuple(tensors), tuple(operations))
    return _freed_later(trace, draw) if draw.random() < 0.5 else trace


def _freed_later(trace: MemoryTrace, draw: random.Random) -> MemoryTrace:
    """Some tensors are given back when the program says so, and not after their last use."""
    tensors = []
    for tensor, life in zip(trace.tensors, trace.lifetimes(), strict=True):
        latest = life.start + len(trace.operations)
        later = draw.choice((life.end, min(life.end + draw.randint(0, 3), latest)))
        tensors.append(tensor if tensor.is_global or draw.random() < 0.3 else structs.replace(tensor, freed=later))
    return MemoryTrace(trace.name, tuple(tensors), trace.operations)


def machine_of(trace: MemoryTrace, seed: int) -> MemoryMachine:
    """A device that holds less than the peak, if it can, a small host, and links of any speed."""
    draw = random.Random(seed)
    least = least_bytes(trace)[0]
    rate = draw.uniform(2, 200)
    flash = rate * draw.uniform(0.1, 0.9)
    return MemoryMachine(
        device_bytes=draw.randint(least, max(least, trace.peak)),
        host_bytes=draw.choice((0, 30, 10_000)),
        to_host=rate,
        from_host=rate * draw.uniform(0.5, 1),
        to_flash=flash,
        from_flash=flash,
        shared=draw.choice((None, rate)),
        host_seconds=draw.choice((0.0, 0.01)),
        flash_seconds=draw.choice((0.0, 0.05)),
        fault_seconds=draw.choice((0.0, 0.01)),
    )


def replay(
    trace: MemoryTrace, schedule: SwapSchedule, machine: MemoryMachine, run: SimulatedRun, seconds: list[float]
) -> None:
    """Works out, from when operations and transfers were, where every tensor was: one iteration that repeats."""
    assert run.steady
    assert run.timeline is not None
    whole, count = run.seconds, len(trace.operations)
    begins = run.timeline.starts
    slack = 1e-6 * max(1.0, whole)

    def begin(at: int) -> float:
        return begins[at % count] + at // count * whole

    def end(at: int) -> float:
        return begin(at) + seconds[at % count]

    for at in range(count):
        assert begin(at + 1) >= end(at) - slack, f"operation {at + 1} starts before {at} ends"
    links = [sorted((each.start, each.end) for each in run.timeline.transfers if each.link == n) for n in range(4)]
    for link in links:
        for (_, ended), (started, _) in zip(link, [*link[1:], *((a + whole, b) for a, b in link[:1])], strict=True):
            assert started >= ended - slack, "two transfers at once on one link"
    moved = {(each.absence, each.link >= 2): each for each in run.timeline.transfers}
    here: list[tuple[float, float, int]] = []
    away: dict[int, list[tuple[float, float]]] = {}
    for number, each in enumerate(schedule.absences):
        size = trace.tensors[each.tensor].size
        gone = end(each.leave)
        if each.copy is not None:
            copy = moved[number, False]
            later = _turns(copy.start, end(each.copy) - slack, whole)
            assert copy.end - copy.start >= machine.out_seconds(each.tier, size) - slack
            gone = max(gone, copy.end + later)
        fetch = moved[number, True]
        later = _turns(fetch.start, end(each.back - 1) - slack, whole)
        assert fetch.start + later >= gone - slack, "fetched before it has left"
        assert fetch.end + later <= begin(each.next) + slack, "used before it is back"
        assert fetch.end - fetch.start >= machine.in_seconds(each.tier, size) - slack
        away.setdefault(each.tensor, []).append((gone, fetch.start + later))
    for index, (tensor, life) in enumerate(zip(trace.tensors, trace.lifetimes(), strict=True)):
        for gone, back in away.get(index, []):
            here.append((gone, back, -tensor.size))
            for use in trace.uses[index]:
                for turn in (0, count):
                    within = begin(use + turn) < back - slack and end(use + turn) > gone + slack
                    assert not within, f"operation {use} uses tensor {index} while it is away"
        here.append(
            (0.0, whole, tensor.size) if tensor.is_global else (begin(life.start), end(life.end - 1), tensor.size)
        )
    here += [(begin(at), end(at), op.scratch) for at, op in enumerate(trace.operations)]
    moments = sorted(
        {
            (moment % whole if whole else 0.0) + nudge
            for a, b, _ in here
            for moment in (a, b)
            for nudge in (slack, -slack)
        }
    )
    for moment in moments:
        total = 0
        for a, b, size in here:
            for turn in range(-3, 3):
                total += size * (a + slack * 0.5 <= moment + turn * whole < b - slack * 0.5)
        assert total <= machine.device_bytes, f"{total} bytes at {moment}"
    assert all(0 <= size <= machine.device_bytes for _, size in run.timeline.memory)
    assert all(0 <= size <= machine.host_bytes for _, size in run.timeline.host)
    assert run.timeline.memory[0][1] == run.timeline.memory[-1][1], "what is away at the end is not away at the start"


def _turns(moment: float, at_least: float, whole: float) -> float:
    """What to add to `moment`, in whole iterations, for it to be the first that is at least so late."""
    turns = 0.0
    while moment + turns < at_least:
        turns += whole
    while moment + turns - whole >= at_least:
        turns -= whole
    return turns


def absent(
    tensor: int, leave: int, following: int, tier: Tier = Tier.HOST, copy: int | None = -99, back: int | None = None
) -> Absence:
    """An absence from right after `leave` until `following`; copied when it leaves, unless said."""
    return Absence(tensor, tier, leave if copy == -99 else copy, leave, following if back is None else back, following)
