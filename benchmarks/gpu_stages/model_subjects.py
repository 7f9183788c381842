"""What the stage `model` runs: 150 plans of library kernels, each beside its modelled time and its static bound."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from vkernels.autotune.measure.measures import Candidate, Effort
from vkernels.autotune.measure.subject import MeasuredTask, with_plan
from vkernels.autotune.plan_space import read
from vkernels.compiler.artifact_cache import ArtifactCache
from vkernels.compiler.backends.resources import taken_by
from vkernels.compiler.backends.triton_adapter import Binary
from vkernels.compiler.binaries.launch_loops import launch_loops
from vkernels.compiler.binaries.read_code import read_binary
from vkernels.compiler.compile_gpu import CompiledGpu, Lowering
from vkernels.compiler.default_session import default_session
from vkernels.compiler.request import CompileRequest
from vkernels.compiler.workers.compile_cached import compile_cached
from vkernels.compiler.workers.compile_pool import CompilePool
from vkernels.compiler.workers.jobs import CompileFailure
from vkernels.inspect.cases import KernelSource, kernel_at
from vkernels.inspect.specialisation import SpecialisationRequest, specialise
from vkernels.inspect.task import Task
from vkernels.ir.limits import Limits
from vkernels.ir.plan_json import plan_from_json, plan_to_json
from vkernels.ir.planning.resources import held
from vkernels.library.catalogue import CATALOGUE
from vkernels.runtime.bind_arguments import bind
from vkernels.runtime.present_target import present_target

from .gpu import Gpu

DEVICE = "cuda:0"
PLANS, FEW = 19, 3
"""Of each kernel, also where the GPU is simulated."""
POINTS = 20_000
"""Plans that are modelled to draw from."""
SEED = 20261124


@dataclass(frozen=True, eq=False)
class Subject:
    """A kernel of the catalogue in a dtype. `shape`: its sizes, and in `small` those for a simulated GPU."""

    kernel: str
    dtype: str
    small: Mapping[str, int]
    shape: Mapping[str, int] | None = None

    @property
    def name(self) -> str:
        return f"{self.kernel} {self.dtype}"

    def task(self, gpu: Gpu) -> Task:
        entry = next(each for each in CATALOGUE if each.name == self.kernel)
        source = KernelSource(entry.name, entry.module)
        found = kernel_at(source)
        shape = self.small if gpu.is_simulated else (self.shape or entry.shape)
        request = SpecialisationRequest(dtype=self.dtype, shape=shape)
        return specialise(source, found.parameters, request, shape, entry.dtype, entry.computed, found.samples)


ROWS = {"M": 5, "N": 300}
SUBJECTS = (
    Subject("matmul_bias", "float16", {"M": 64, "N": 64, "K": 64}),
    Subject("matmul_bias", "float32", {"M": 64, "N": 64, "K": 64}, {"M": 2048, "N": 2048, "K": 2048}),
    Subject(
        "attention_rows", "float16", {"B": 1, "G": 1, "R": 1, "M": 32, "N": 32, "D": 16, "E": 16},
        {"B": 1, "G": 32, "R": 1, "M": 2048, "N": 2048, "D": 64, "E": 64},
    ),
    Subject("softmax_rows", "float16", ROWS),
    Subject("layer_norm_rows", "float32", ROWS),
    Subject("cumulative_sum_rows", "float32", ROWS),
    Subject("csr_times_dense", "float32", {"S": 9, "R": 8, "E": 40, "K": 8, "C": 16}),
    Subject("convolve", "float16", {}),
)  # fmt: skip


def subjects(gpu: Gpu) -> list[Subject]:
    return [each for each in SUBJECTS if each.small or not gpu.is_simulated]


def drawn_plans(subject: Subject, gpu: Gpu) -> list[dict[str, Any]]:
    """Plans that the tuner would try, the chosen one first, the others spread evenly over the logarithm of their
    modelled times."""
    space = read(subject.task(gpu), present_target(DEVICE).limits, POINTS)
    ranked = sorted(space.space.listed, key=space.seconds)
    best, worst = (space.seconds(ranked[int(part * (len(ranked) - 1))]) for part in (0.0, 0.99))
    points, count = [space.default], FEW if gpu.is_simulated else PLANS
    for number in range(1, min(count, len(ranked))):
        wanted = best * (worst / best) ** ((number - 1) / max(1, count - 2))
        others = (point for point in ranked if point not in points)
        points.append(min(others, key=lambda point: abs(math.log(space.seconds(point) / wanted))))
    return [
        {"plan": plan_to_json(space.plan(point)), "constants": space.constants(point), "modelled": space.seconds(point)}
        for point in points
    ]


@lru_cache(2)
def measured(subject: Subject, gpu: Gpu) -> MeasuredTask:
    """The kernel's arguments and right results, made once in a process."""
    effort = Effort(sets=1)
    found = MeasuredTask(subject.task(gpu), SEED, DEVICE, effort)
    if not gpu.is_simulated:
        torch.cuda.empty_cache()
    return found


def candidate_of(drawn: Mapping[str, Any]) -> Candidate:
    return Candidate(plan_from_json(drawn["plan"]), drawn["constants"])


def bound_of(task: MeasuredTask, candidate: Candidate, gpu: Gpu) -> dict[str, Any]:
    """The static bound of a plan's launches in seconds, with registers and spills of the worst of them."""
    kernel, target = with_plan(task.kernel, candidate.plan), present_target(DEVICE)
    constants = {**task.constants, **candidate.constants}
    values = [constants[p.name] if p.kind == "constant" else task.sets[0][p.name] for p in kernel.parameters]
    request = CompileRequest(kernel, bind(kernel, values), target)
    code = default_session().compile(request).executable().code
    if not isinstance(code, CompiledGpu):
        raise TypeError(f"{kernel.name} was compiled to {type(code).__name__}")
    binaries = compiled_for_real(code) if gpu.is_simulated else code.binaries
    sizes = request.arguments.sizes
    programs, seconds, parts, taken = code.lowered.prepare(sizes).programs, 0.0, [], []
    for number, (launch, binary) in enumerate(zip(code.lowered.launches, binaries, strict=True)):
        reading = read_binary(binary, ArtifactCache(default_session().disk))
        if reading.code is None:
            return {"unread": reading.unread}
        resident = held(taken_by(reading.resources, binary.threads), target.limits).blocks
        text = Lowering(code.lowered, code.plan, code.facts).jobs(code.architecture)[number].text
        found = launch_loops(reading.code, text, target.limits, resident, (programs[number],), sizes).bound
        if found is None:
            return {"unread": launch.name}
        seconds += found.seconds
        parts.append(found.bottleneck)
        taken.append(reading.resources)
    return {
        "bound": max(seconds, least_seconds(task, target.limits)), "loops": seconds, "bottleneck": parts,
        "registers": max(each.registers for each in taken), "spill_bytes": max(each.spill_bytes for each in taken),
    }  # fmt: skip


def least_seconds(task: MeasuredTask, limits: Limits) -> float:
    """What moving each tensor once takes."""
    return task.bytes / limits.memory_bandwidth


def compiled_for_real(code: CompiledGpu) -> tuple[Binary, ...]:
    """Binaries for the simulated device. Raises `RuntimeError` where Triton gives none."""
    jobs, found = Lowering(code.lowered, code.plan, code.facts).jobs(code.architecture), {}
    with CompilePool(1) as pool:
        for finished in compile_cached(jobs, pool):
            if isinstance(finished.outcome, CompileFailure):
                raise RuntimeError(finished.outcome.message)
            found[finished.index] = finished.outcome.binary
    return tuple(found[number] for number in range(len(jobs)))
