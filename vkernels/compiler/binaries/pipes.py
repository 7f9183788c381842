"""Rates of a multiprocessor's units, by architecture, for what a binary's instructions ask of them.

NVIDIA: results a clock of a multiprocessor, from "Throughput of Native Arithmetic Instructions" of the CUDA C++
Programming Guide; rates of tensor cores from the device's own table (`Limits.tensor_multiply_adds`). AMD: lanes of the
vector units from the ISA guides of CDNA 2 and 3 and RDNA 3: a wave of 64 takes a SIMD of CDNA four cycles, one of
32 a SIMD of RDNA one; transcendental functions a quarter of that rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vkernels.ir.cost_model.gpu_dots import single_warp_part
from vkernels.ir.limits import Limits

from .instructions import Kind, TensorShape

MATRIX_FLOAT = {"gfx90a": 2.0}
MATRIX_DOUBLE = {"sm_80": 2.0, "sm_90": 2.0, "gfx90a": 2.0, "gfx942": 2.0}
"""Rate of the matrix units beside the plain ones, where the device's table has none of its own: data sheets."""


@dataclass(frozen=True)
class Pipe:
    """A unit of the multiprocessor. `lanes`: results a clock by kind; the kinds take turns."""

    name: str
    lanes: Mapping[Kind, float]


@dataclass(frozen=True)
class Pipes:
    """`issue`: instructions a clock that the multiprocessor begins, of all its warps. `units`: its pipes.
    `memory_bytes`: a clock of shared memory, and of the first cache beside it."""

    issue: float
    units: tuple[Pipe, ...]
    memory_bytes: float


def _nvidia(float32: float, half: float, double: float, special: float = 16) -> tuple[Pipe, ...]:
    return (
        Pipe("floating point", {Kind.FLOAT: float32, Kind.INTEGER_MULTIPLY: float32}),
        Pipe("integer multiply", {Kind.INTEGER_MULTIPLY: 64}),
        Pipe("integer", {Kind.INTEGER: 64, Kind.MOVE: 64}),
        Pipe("half", {Kind.HALF: half}),
        Pipe("double", {Kind.DOUBLE: double}),
        Pipe("special functions", {Kind.SPECIAL: special}),
        Pipe("shuffles", {Kind.SHUFFLE: 32}),
    )


_NVIDIA = {
    "sm_80": _nvidia(64, 128, 32),
    "sm_90": _nvidia(128, 128, 64),
    "sm_100": _nvidia(128, 128, 64),
    "sm_103": _nvidia(128, 128, 2, special=32),
    "sm_70": _nvidia(64, 64, 32),
    "sm_75": _nvidia(64, 64, 2),
}
_NVIDIA_OTHERS = _nvidia(128, 64, 2)

_VECTOR = (Kind.FLOAT, Kind.HALF, Kind.INTEGER, Kind.MOVE)


def _cdna() -> tuple[Pipe, ...]:
    lanes = {**dict.fromkeys(_VECTOR, 64.0), Kind.DOUBLE: 64.0, Kind.SPECIAL: 16.0, Kind.INTEGER_MULTIPLY: 16.0}
    return (Pipe("vector", {**lanes, Kind.TENSOR: 64.0}), Pipe("scalar", {Kind.UNIFORM: 64.0}))


def _rdna(double: float) -> tuple[Pipe, ...]:
    lanes = {**dict.fromkeys(_VECTOR, 128.0), Kind.DOUBLE: double, Kind.SPECIAL: 32.0, Kind.INTEGER_MULTIPLY: 32.0}
    return (Pipe("vector", lanes), Pipe("scalar", {Kind.UNIFORM: 128.0}))


def pipes_of(architecture: str, limits: Limits) -> Pipes:
    """The units of one multiprocessor (RDNA: of one work-group processor)."""
    shared = limits.shared_bandwidth / limits.multiprocessors / limits.clock
    if architecture.startswith("sm_"):
        return Pipes(4, _NVIDIA.get(architecture, _NVIDIA_OTHERS), shared)
    if architecture.startswith("gfx9"):
        return Pipes(4, _cdna(), shared)
    return Pipes(4, _rdna(4), shared)


def tensor_rate(shape: TensorShape, architecture: str, limits: Limits) -> float:
    """Multiply-adds a clock of one multiprocessor's tensor cores; 0 where the device has none for such operands."""
    whole = limits.multiprocessors * limits.clock
    if shape.dtype == "float32":
        return limits.multiply_adds.get("float32", 0) * MATRIX_FLOAT.get(architecture, 1.0) / whole
    if shape.dtype == "float64":
        return limits.multiply_adds.get("float64", 0) * MATRIX_DOUBLE.get(architecture, 1.0) / whole
    part = single_warp_part(limits) if shape.legacy else 1.0
    return part * limits.tensor_multiply_adds.get(shape.dtype, 0) / whole
