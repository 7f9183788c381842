"""Requests to compile workers, and their answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from vkernels.ir.errors import SetupError

from ..backends.triton_adapter import Binary, GpuOptions


@dataclass(frozen=True)
class CompileJob:
    """A TTIR module to be compiled for an architecture ("sm_90", "gfx942")."""

    text: str = field(repr=False)
    architecture: str
    options: GpuOptions


class CompileFailureReason(StrEnum):
    """Why there is no binary."""

    TIME_OUT = "time-out"
    CRASH = "crash"
    OUT_OF_MEMORY = "out of memory"
    ERROR = "error"


@dataclass(frozen=True)
class CompiledBinary:
    """A binary and the seconds that its compile took, of wall time."""

    binary: Binary
    seconds: float


@dataclass(frozen=True)
class CompileFailure:
    """Why a job gave no binary, in a line or a few, after how many seconds of wall time.

    `stderr`: beginning and end of what the compiler printed. `lasting`: the compiler refused the text, so it would
    again; whatever depends on the machine or the moment is not.
    """

    reason: CompileFailureReason
    message: str
    seconds: float
    stderr: str = field(default="", repr=False)
    lasting: bool = False


Outcome = CompiledBinary | CompileFailure


class NoBinaryError(SetupError):
    """A compiler took too long or too much memory, or died."""


@dataclass(frozen=True)
class Ready:
    """A worker's first words: `problem` is empty, or says why it cannot compile here."""

    problem: str
