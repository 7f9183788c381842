"""Whether compiled code fits within limits: the binaries' own figures decide, whatever the needs predicted."""

from __future__ import annotations

from vkernels.ir.errors import FileError
from vkernels.ir.limits import Limits
from vkernels.ir.planning.shortage import ShortError, misfit, spill

from ..compile.resources import read_taken
from .compiling import CompiledGpu


def refuse_unless_fits(compiled: CompiledGpu, limits: Limits, may_spill: bool = False) -> None:
    """Raise `ShortError` where a launch does not fit within a GPU's limits, or spills more than a chosen plan may.

    Of binaries whose tables nobody can read, the device decides when they are loaded.
    """
    for launch, binary in compiled.launches:
        try:
            taken = read_taken(binary)
        except FileError:
            continue
        short = misfit(taken, limits) or (None if may_spill else spill(taken))
        if short is not None:
            raise ShortError(short, launch.name)
