"""Check that compiled code fits within limits, by the binaries' own figures rather than by predicted needs."""

from __future__ import annotations

from vkernels.ir.errors import FileError
from vkernels.ir.limits import Limits
from vkernels.ir.planning.resources import OutOfResources, misfit, spill

from .backends.resources import read_taken
from .compile_gpu import CompiledGpu
from .plan_fallback import SpillError


def refuse_unless_fits(compiled: CompiledGpu, limits: Limits, may_spill: bool = False) -> None:
    """Raise `OutOfResources` where a launch does not fit within a GPU's limits; `SpillError` where all do, but one
    spills more than a chosen plan should.

    Where the tables of a binary cannot be read, the device decides when it is loaded.
    """
    spilling: SpillError | None = None
    for launch, binary in compiled.launches:
        try:
            taken = read_taken(binary)
        except FileError:
            continue
        short = misfit(taken, limits)
        if short is not None:
            raise OutOfResources(short, launch.name)
        spilt = None if may_spill else spill(taken)
        if spilt is not None and spilling is None:
            spilling = SpillError(spilt, launch.name, compiled)
    if spilling is not None:
        raise spilling
