"""Whether compiled code fits within limits: the binaries' own figures decide, whatever the needs predicted."""

from __future__ import annotations

from vkernels.ir.errors import FileError
from vkernels.ir.limits import Limits
from vkernels.ir.planning.shortage import ShortError, misfit, spill

from ..compile.resources import read_taken
from ..ladder import SpillError
from .compiling import CompiledGpu


def refuse_unless_fits(compiled: CompiledGpu, limits: Limits, may_spill: bool = False) -> None:
    """Raise `ShortError` where a launch does not fit within a GPU's limits; `SpillError` where all do, but one spills
    more than a chosen plan should.

    Of binaries whose tables nobody can read, the device decides when they are loaded.
    """
    spilling: SpillError | None = None
    for launch, binary in compiled.launches:
        try:
            taken = read_taken(binary)
        except FileError:
            continue
        short = misfit(taken, limits)
        if short is not None:
            raise ShortError(short, launch.name)
        spilt = None if may_spill else spill(taken)
        if spilt is not None and spilling is None:
            spilling = SpillError(spilt, launch.name, compiled)
    if spilling is not None:
        raise spilling
