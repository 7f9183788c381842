"""The interpreter of TTIR: what the programs of a launch share."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from ..state import Handlers, InterpreterState, TileInterpreter
from .races import InterpreterClock
from .regions import AddressSpace, Region


class TtirInterpreter(TileInterpreter):
    """The interpreter with the clock, the address space and the running program's scratchpad.

    `programs`: of the launch, along the grid's first dimension. `between_programs`: whether to look for races between
    programs.
    """

    scratchpad: Region | None = None

    def __init__(
        self,
        module: ModuleOp,
        state: InterpreterState,
        handlers: Handlers,
        space: AddressSpace,
        programs: int,
        between_programs: bool,
    ):
        super().__init__(module, state, handlers)
        self.space, self.programs, self.between_programs = space, programs, between_programs
        self.clock = InterpreterClock()
