"""Element types of tiles and tensors, and how they promote: exactly as torch's, Python scalars being weak."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class DType:
    """An element type. `kind` is "bool", "int" or "float"; `bits` its size in memory (bool takes a byte there).
    `is_uint`: an integer without a sign.

    f16, bf16 and f8 are computed in f32 and rounded when stored, or where the author casts.
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

DTYPES: dict[str, DType] = {
    dtype.name: dtype
    for dtype in (
        bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
        float8_e4m3fn, float8_e5m2, float16, bfloat16, float32, float64,
    )
}  # fmt: skip
"""Every dtype, by torch's name for it."""

WEAK: dict[type, DType] = {bool: bool_, int: int64, float: float64}
"""What a Python scalar is computed in while nothing else says."""

DEFAULT: dict[str, DType] = {"bool": bool_, "int": int64, "float": float32}
"""What a Python scalar of a kind becomes where a dtype of its own is needed: torch's defaults."""

_RANK = {"bool": 0, "int": 1, "float": 2}


class PromotionError(TypeError):
    """Two dtypes that have no common one: f8 with anything but itself, uint64 with signed integers."""


def promote(a: DType, b: DType) -> DType:
    """The dtype of `a` and `b` together, as `torch.promote_types`. Integers of both signs, and the unsigned integers
    for which torch has no rule, take the smallest integer dtype that holds both. Raises `PromotionError` for f8 with
    another dtype, and for uint64 with a signed one."""
    if a is b:
        return a
    if a.is_f8 or b.is_f8:
        raise PromotionError(f"{a.name} and {b.name} do not promote")
    if a.kind != b.kind:
        return a if _RANK[a.kind] > _RANK[b.kind] else b
    if a.is_uint != b.is_uint:
        return _signed(a, b) if a.is_uint else _signed(b, a)
    if a.bits == b.bits:
        return float32  # float16 and bfloat16
    return a if a.bits > b.bits else b


def _signed(unsigned: DType, signed: DType) -> DType:
    """The smallest signed integer that holds the values of both."""
    for dtype in (int8, int16, int32, int64):
        if dtype.bits > unsigned.bits and dtype.bits >= signed.bits:
            return dtype
    raise PromotionError(f"{unsigned.name} and {signed.name} do not promote")


def result_type(tiles: Iterable[DType], scalars: Iterable[DType] = (), weak: Iterable[DType] = ()) -> DType:
    """The dtype in which tiles, values without axes and Python scalars meet, as `torch.result_type`.

    Values without axes (torch's tensors of rank 0) decide only where they are of a higher kind than every tile,
    Python scalars only where they are of a higher kind than both. At least one of the three is not empty.
    """
    defaults = [DEFAULT[dtype.kind] for dtype in weak]
    result: DType | None = None
    for group in (defaults, list(scalars), list(tiles)):
        higher: DType | None = None
        for dtype in group:
            higher = dtype if higher is None else promote(higher, dtype)
        if higher is not None:
            result = higher if result is None else _higher_wins(higher, result)
    if result is None:
        raise PromotionError("nothing to promote")
    return result


def _higher_wins(higher: DType, lower: DType) -> DType:
    return promote(higher, lower) if _RANK[lower.kind] > _RANK[higher.kind] else higher


def weak_type(weak: Iterable[DType]) -> DType:
    """The dtype in which Python scalars alone meet: bool, int64 or float64."""
    return max(weak, key=lambda dtype: _RANK[dtype.kind])
