"""Element types of tiles and tensors, and their promotion, which is torch's; Python scalars are weak."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce


@dataclass(frozen=True, eq=False)
class DType:
    """An element type. `kind` is "bool", "int", "float" or "complex"; `bits` its size in memory, where bool takes a
    byte. `is_uint`: whether it is an unsigned integer.

    f16, bf16 and f8 are computed in f32 and rounded by stores and casts.
    """

    name: str
    kind: str
    bits: int
    is_uint: bool = False

    def __repr__(self) -> str:
        return f"vk.{self.name}"

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_int(self) -> bool:
        return self.kind == "int"

    @property
    def is_bool(self) -> bool:
        return self.kind == "bool"

    @property
    def is_complex(self) -> bool:
        return self.kind == "complex"

    @property
    def part(self) -> DType:
        """The dtype of the real and the imaginary part of a complex dtype; another dtype itself."""
        return {64: float32, 128: float64}[self.bits] if self.is_complex else self

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest value of an integer dtype."""
        if self.is_uint:
            return 0, (1 << self.bits) - 1
        return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1

    @property
    def is_f8(self) -> bool:
        return self.kind == "float" and self.bits == 8


bool_ = DType("bool", "bool", 8)
int8 = DType("int8", "int", 8)
int16 = DType("int16", "int", 16)
int32 = DType("int32", "int", 32)
int64 = DType("int64", "int", 64)
uint8 = DType("uint8", "int", 8, is_uint=True)
uint16 = DType("uint16", "int", 16, is_uint=True)
uint32 = DType("uint32", "int", 32, is_uint=True)
uint64 = DType("uint64", "int", 64, is_uint=True)
float8_e4m3fn = DType("float8_e4m3fn", "float", 8)
float8_e5m2 = DType("float8_e5m2", "float", 8)
float16 = DType("float16", "float", 16)
bfloat16 = DType("bfloat16", "float", 16)
float32 = DType("float32", "float", 32)
float64 = DType("float64", "float", 64)
complex64 = DType("complex64", "complex", 64)
complex128 = DType("complex128", "complex", 128)

DTYPES: dict[str, DType] = {
    dtype.name: dtype
    for dtype in (
        bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
        float8_e4m3fn, float8_e5m2, float16, bfloat16, float32, float64,
    )
}  # fmt: skip
"""Every dtype that the IR has, by torch's name for it. Complex numbers are pairs of float32 or float64 there."""

WEAK: dict[type, DType] = {bool: bool_, int: int64, float: float64}
"""The dtype of a Python scalar on its own."""

DEFAULT: dict[str, DType] = {"bool": bool_, "int": int64, "float": float32}
"""The strong dtype of a Python scalar of each kind: torch's defaults."""

RANK = {"bool": 0, "int": 1, "float": 2, "complex": 3}


def complex_of(part: DType) -> DType:
    """The complex dtype of parts of a dtype: complex128 for float64, else complex64."""
    return complex128 if part is float64 else complex64


def computed(dtype: DType) -> DType:
    """The dtype of arithmetic on a dtype: f32 for f16, bf16 and f8, else itself."""
    return float32 if dtype.is_float and dtype.bits < 32 else dtype


class PromotionError(TypeError):
    """Two dtypes have no common dtype: f8 with anything but itself, uint64 with signed integers."""


def promote(a: DType, b: DType) -> DType:
    """The common dtype of `a` and `b`, as `torch.promote_types`.

    A signed and an unsigned integer give the smallest integer dtype that holds both; so do unsigned integers for which
    torch has no rule. Raises `PromotionError` for f8 with another dtype, and for uint64 with a signed one.
    """
    if a is b:
        return a
    if a.is_f8 or b.is_f8:
        raise PromotionError(f"{a.name} and {b.name} do not promote")
    if a.is_complex or b.is_complex:
        return complex128 if float64 in (a.part, b.part) else complex64
    if a.kind != b.kind:
        return a if RANK[a.kind] > RANK[b.kind] else b
    if a.is_uint != b.is_uint:
        return _signed(a, b) if a.is_uint else _signed(b, a)
    if a.bits == b.bits:
        return float32  # float16 and bfloat16
    return a if a.bits > b.bits else b


def _signed(unsigned: DType, signed: DType) -> DType:
    for dtype in (int8, int16, int32, int64):
        if dtype.bits > unsigned.bits and dtype.bits >= signed.bits:
            return dtype
    raise PromotionError(f"{unsigned.name} and {signed.name} do not promote")


def result_type(tiles: Iterable[DType], scalars: Iterable[DType] = (), weak: Iterable[DType] = ()) -> DType:
    """The common dtype of tiles, values without axes and Python scalars, as `torch.result_type`.

    Values without axes (torch's tensors of rank 0) matter only if they are of a higher kind than every tile, Python
    scalars only if they are of a higher kind than both. At least one of the three is not empty.
    """
    groups = [DEFAULT[dtype.kind] for dtype in weak], list(scalars), list(tiles)
    promoted = [reduce(promote, group) for group in groups if group]
    if not promoted:
        raise PromotionError("nothing to promote")
    return reduce(lambda low, high: promote(high, low) if RANK[low.kind] > RANK[high.kind] else high, promoted)


def weak_type(weak: Iterable[DType]) -> DType:
    """The common dtype of Python scalars alone: bool, int64 or float64."""
    return max(weak, key=lambda dtype: RANK[dtype.kind])
