"""What lowering to TTIR gives: see "What the TTIR lowering gives the runtime" in docs/mapped-ir.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from xdsl.dialects.builtin import ModuleOp

from vkernels.ir.text import print_module

from .host import HostArguments, HostArithmetic


class ParameterKind(StrEnum):
    """What a kernel's parameter holds."""

    POINTER = "pointer"
    STRIDE = "stride"
    SCALAR = "scalar"
    SIZE = "size"
    BUFFER = "buffer"
    SWAP = "swap"
    PROGRAMS = "programs"


@dataclass(frozen=True)
class LaunchParameter:
    """One parameter of a launch's function.

    `name`: the tensor, scalar or size. `number`: a stride's dimension, or which top-level buffer.
    `type`: "ptr", "i32", "i64", "f64" or "i1".
    """

    kind: ParameterKind
    name: str = ""
    number: int = 0
    type: str = "ptr"


@dataclass(frozen=True)
class TtirLaunch:
    """One launch: a module of one `tt.func` called `name`, and what it takes.

    `scratch_bytes`: scratchpad a program. `swap_bytes`: of the swap space, what each resident program takes,
    `HostArguments.more_swap` aside.
    `is_persistent`: each program goes on to others until all are done, so any number of them may be started.
    """

    name: str
    module: ModuleOp = field(repr=False)
    parameters: tuple[LaunchParameter, ...]
    scratch_bytes: int
    swap_bytes: int
    is_persistent: bool


@dataclass(frozen=True)
class LoweredTtir:
    """A mapped kernel's launches, in order. `sizes`: names of the sizes that it reads. `buffers`: at its top level."""

    name: str
    launches: tuple[TtirLaunch, ...]
    sizes: tuple[str, ...]
    buffers: int
    host: HostArithmetic = field(repr=False)

    def prepare(self, sizes: Mapping[str, int]) -> HostArguments:
        """Bytes of each top-level buffer and programs of each launch for a call's sizes.

        Raises `ArgumentError` for a size that is missing.
        """
        return self.host.prepare(sizes)


def print_ttir(module: ModuleOp, locations: bool = False) -> str:
    """The text that Triton's MLIR parses: the generic form, with source locations if asked for."""
    return print_module(module, generic=True, locations=locations)
