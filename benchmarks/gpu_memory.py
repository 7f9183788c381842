"""Training steps in less of a GPU's memory than they need: the stage `memory` of benchmarks/gpu_day.py.

Whether they give the same bits, then what a step takes, beside a plain one and beside what was simulated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from common import Quartiles, times_faster
from torch import nn

import vkernels.memory
from vkernels.memory.limit import LINKS
from vkernels.memory.links import MemoryMachine
from vkernels.memory.record import record

ON = "cuda"
PARTS = (0.6, 0.4)
"""Of the most bytes that are live at once."""
STEPS = 20
WARM = 3
"""Calls that run before one follows a plan."""
TRANSFER = 1 << 28
"""Bytes of a copy by which a link is measured."""


class Training:
    """A model in training, the same each time that it is made; `step` is one iteration."""

    def __init__(self, make: Callable[[], tuple[nn.Module, torch.Tensor, torch.Tensor]]):
        torch.manual_seed(20261122)
        self.model, self.x, self.y = make()
        self.model, self.x, self.y = self.model.to(ON), self.x.to(ON), self.y.to(ON)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.01, momentum=0.9)

    def step(self) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def bits(self, losses: list[torch.Tensor]) -> list[torch.Tensor]:
        """Losses, weights and statistics."""
        return [each.cpu() for each in (*losses, *self.model.state_dict().values())]


def transformer(width: int, layers: int, batch: int, tokens: int) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """Blocks with attention, and the class of a whole sequence."""
    blocks = [
        nn.TransformerEncoderLayer(width, width // 32, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        for _ in range(layers)
    ]
    model = nn.Sequential(*blocks, nn.Flatten(), nn.Linear(width * tokens, 10))
    return model, torch.randn(batch, tokens, width), torch.randint(10, (batch,))


def cnn(width: int, layers: int, batch: int, side: int) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """Convolutions with batch normalisation."""
    widths = [3, *[width] * layers]
    blocks: list[nn.Module] = []
    for before, after in pairwise(widths):
        blocks += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
    model = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))
    return model, torch.randn(batch, 3, side, side), torch.randint(10, (batch,))


PROGRAMS: dict[str, Callable[[], tuple[nn.Module, torch.Tensor, torch.Tensor]]] = {
    "transformer": lambda: transformer(1024, 12, 16, 512),
    "cnn": lambda: cnn(128, 12, 32, 112),
}


@dataclass(frozen=True)
class Check:
    """A program under a limit for `STEPS` steps. Bytes. `problem`: why it is not right; nothing where it is."""

    program: str
    part: float
    problem: str
    peak: int = 0
    arena: int = 0
    host: int = 0
    moved: int = 0

    @property
    def right(self) -> bool:
        return not self.problem


@dataclass(frozen=True)
class Timing:
    """Milliseconds of a step: plain, under a limit, and as it was simulated before any ran under it."""

    program: str
    part: float
    plain: Quartiles
    limited: Quartiles
    simulated: float
    speed: Quartiles
    """The limited step's, as a part of the plain one's."""

    @property
    def of_simulated(self) -> float:
        return self.limited.median / self.simulated


def check(name: str, make: Callable[[], Any], part: float) -> Check:
    """Losses, weights and statistics after `STEPS` steps, bit for bit."""
    expected, again = (plain_bits(make) for _ in range(2))
    if not _same(expected, again):
        return Check(name, part, "the program itself does not give the same bits twice")
    peak = record(Training(make).step).peak
    program = Training(make)
    step = vkernels.memory.limit(program.step, int(peak * part), watch=True)
    bits, report = program.bits([step() for _ in range(STEPS)]), step.report
    step.close()
    if not _same(expected, bits):
        problem = "other bits than without a limit"
    elif report.planned != STEPS - WARM:
        problem = f"{report.planned} of {STEPS - WARM} calls followed the plan: {report.why}"
    elif report.strays:
        problem = f"{report.strays} uses of tensors that were not on the device"
    else:
        problem = ""
    return Check(name, part, problem, peak, report.arena, report.host, report.out_bytes + report.back_bytes)


def plain_bits(make: Callable[[], Any]) -> list[torch.Tensor]:
    program = Training(make)
    return program.bits([program.step() for _ in range(STEPS)])


def _same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def time_program(
    name: str, make: Callable[[], Any], part: float, size: int, links: MemoryMachine, rounds: int
) -> Timing:
    """Plain and limited steps in turns, several in a row of each, after those that make the plan."""
    plain, program = Training(make), Training(make)
    step = vkernels.memory.limit(program.step, size, links=links, watch=True)
    runs: dict[str, Callable[[], object]] = {"plain": plain.step, "limited": step}
    for _ in range(WARM + 2):
        for run in runs.values():
            run()
    taken: dict[str, list[float]] = {each: [] for each in runs}
    for _ in range(rounds):
        for each, run in runs.items():
            taken[each].append(milliseconds(run))
    simulated = 1e3 * step.report.modelled_seconds
    step.close()
    return Timing(
        name, part, Quartiles.of(taken["plain"]), Quartiles.of(taken["limited"]), simulated,
        times_faster(taken["plain"], taken["limited"]),
    )  # fmt: skip


IN_A_ROW = 3
"""Steps that are timed together: the host runs ahead of the device from one to the next."""


def milliseconds(run: Callable[[], object]) -> float:
    """Of one step."""
    wait()
    begun = time.perf_counter()
    for _ in range(IN_A_ROW):
        run()
    wait()
    return 1e3 * (time.perf_counter() - begun) / IN_A_ROW


def wait() -> None:
    if ON == "cuda":
        torch.cuda.synchronize()


def measured_links() -> MemoryMachine:
    """The host's link each way, from and to pinned memory."""
    host = torch.empty(TRANSFER, dtype=torch.uint8, pin_memory=ON == "cuda")
    device = torch.empty(TRANSFER, dtype=torch.uint8, device=ON)
    rates = []
    for to, source in ((host, device), (device, host)):
        to.copy_(source, non_blocking=True)
        best = min(milliseconds(lambda to=to, source=source: to.copy_(source, non_blocking=True)) for _ in range(5))
        rates.append(TRANSFER / (best * 1e-3))
    return replace(LINKS, to_host=rates[0], from_host=rates[1])


@contextmanager
def same_algorithms() -> Iterator[None]:
    """The same kernels each time, which add up in the same order. cuBLAS also needs `CUBLAS_WORKSPACE_CONFIG` to be
    :4096:8 before its first call."""
    cudnn, deterministic = torch.backends.cudnn, torch.utils.deterministic
    before = cudnn.deterministic, cudnn.benchmark, deterministic.fill_uninitialized_memory
    enabled = torch.are_deterministic_algorithms_enabled()
    cudnn.deterministic, cudnn.benchmark, deterministic.fill_uninitialized_memory = True, False, False
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        cudnn.deterministic, cudnn.benchmark, deterministic.fill_uninitialized_memory = before
        torch.use_deterministic_algorithms(enabled)
