"""Code for one of several parts of a GPU, and what its calls need there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil

from vkernels.compiler.arguments import Arguments
from vkernels.compiler.backends.resources import read_taken
from vkernels.compiler.backends.triton_adapter import Binary
from vkernels.compiler.background import InBackground
from vkernels.compiler.compilation import Compilation
from vkernels.compiler.compile_gpu import CompiledGpu
from vkernels.compiler.request import CompileTarget
from vkernels.compiler.size_classes import EXACT
from vkernels.ir.errors import Error, FileError
from vkernels.ir.limits import Limits
from vkernels.ir.occupancy import BinaryUse, taken_parts
from vkernels.ir.plan import Plan
from vkernels.ir.planning.beside import demand_of
from vkernels.ir.planning.needed_parts import needed_parts_of_gpu
from vkernels.ir.planning.programs_beside import HeldPrograms, Taken
from vkernels.ir.planning.space import PlanSearchSpace
from vkernels.targets import limits_of
from vkernels.targets.slices.shares import share_of

from ..coordinator.gpu_company import TaskNeeds
from .bound_executable import BoundGpuExecutable
from .device import GpuDevice
from .loading import loaded_on

_log = logging.getLogger(__name__)

NAMES = {"shared": "shared memory", "blocks": "programs"}
"""What people call the resources of a multiprocessor."""

Bind = Callable[[Arguments, CompiledGpu, Plan, str], BoundGpuExecutable]
"""Binds code to arguments; the last one is its rung."""


@dataclass(frozen=True)
class GpuShare:
    """Code for a part of a device, and what calls of it need."""

    bound: BoundGpuExecutable
    needs: TaskNeeds


class SharingCalls:
    """Calls of one kind on parts of a device. `make`: makes the code for one of so many parts, given `tasks`."""

    def __init__(self, name: str, key: str, make: Callable[..., GpuShare]):
        self.name, self.key, self._make = name, key, make
        self._shares: dict[int, InBackground[GpuShare]] = {}

    def share(self, tasks: int) -> GpuShare | None:
        """The code for one of so many parts; None until it is there, or where there is none."""
        found = self._shares.get(tasks)
        if found is None:
            made = InBackground(partial(self._make, tasks=tasks), self.name, f"one of {tasks} parts")
            found = self._shares.setdefault(tasks, made)
        return found()

    def needs(self, tasks: int) -> TaskNeeds | None:
        """What calls need on one of so many parts; None until, or where, they cannot run there."""
        share = self.share(tasks)
        return None if share is None else share.needs


def share_for(compilation: Compilation, device: GpuDevice, arguments: Arguments, tasks: int, bind: Bind) -> GpuShare:
    """The code of the plan that is tuned, or else planned, for an equal part of the multiprocessors.

    As many programs run at once as the part holds. Raises `Error` where there is no such part or plan.
    """
    part = share_of(device.target, tasks)
    target = CompileTarget(limits_of(part), compilation.request.target.architecture, part.key)
    on_share = compilation.given(arguments, compilation.request.same).of_class(EXACT).on(target)
    found = on_share.executable()
    plan, compiled = found.plan, found.code
    assert isinstance(compiled, CompiledGpu), "code for a GPU"
    if not plan.resident_programs:
        each = max(1, min(launch.resident for launch in loaded_on(device, compiled)) // device.limits.multiprocessors)
        plan = replace(plan, resident_programs=each * part.multiprocessors)
        compiled = on_share.fitting_code(plan)
        assert isinstance(compiled, CompiledGpu), "code for a GPU"
    bound = bind(arguments, compiled, plan, found.rung)
    grids = {start.function: start.grid for start in bound.packed.starts}
    at_once = [min(grids.get(each.function, 0), each.resident) for each in loaded_on(device, compiled)]
    return GpuShare(bound, needs_of(on_share.plans.space, plan, compiled, at_once, device.limits))


def needs_of(
    space: PlanSearchSpace, plan: Plan, compiled: CompiledGpu, at_once: Sequence[int], whole: Limits
) -> TaskNeeds:
    """What calls of a plan need of a device. `space`: of their part of it; `at_once`: programs of each launch.

    Of several launches, the one that takes most of the multiprocessors counts. What the model does not know is left
    out.
    """
    launches = [
        HeldPrograms(number, _taken(space, plan, binary, whole))
        for (_, binary), number in zip(compiled.launches, at_once, strict=True)
    ]
    most = max(launches, key=lambda each: max(each.parts(1).values(), default=0.0), default=HeldPrograms(0, ()))
    try:
        parts = needed_parts_of_gpu(demand_of(space, plan), space.limits, whole)
    except Error as error:
        _log.info("what a plan needs of a device cannot be modelled: %s", error)
        parts = {}
    return TaskNeeds(parts, most, whole.multiprocessors)


def _taken(space: PlanSearchSpace, plan: Plan, binary: Binary, whole: Limits) -> Taken:
    """What a program takes of a multiprocessor, as its binary says, or as modelled where that cannot be read."""
    if whole.sizes is None:
        return ()
    try:
        use = read_taken(binary).use
    except FileError:
        modelled = space.use_of(plan)
        registers = min(whole.registers, ceil(modelled.registers_a_thread))
        use = BinaryUse(binary.threads, registers, max(binary.shared, ceil(modelled.shared_bytes)))
    return tuple((NAMES.get(name, name), part) for name, part in taken_parts(whole.sizes, use).items())
