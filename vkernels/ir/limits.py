"""What a device or a slice of it physically offers, as plain numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from .core_costs import CoreCosts, default_core_costs
from .occupancy import AmdSizes, NvidiaSizes


@dataclass(frozen=True)
class Limits:
    """Sizes and rates of one target or slice, in the words that every kind of device shares.

    `registers`: the most registers a thread can have (CPU: vector registers); `register_bytes`: bytes of
    one; `shared`: the most bytes of on-chip memory one program can have, asked for where a device gives
    less unasked (CPU: a core's share of L2); `multiprocessors`: cores on a CPU; `cache`: bytes of the last
    cache all share; `threads`: the most threads a program can have; `warp`: threads that run in step. A
    CPU's programs are one thread each: `warp > 1` tells a GPU. `memory`: bytes of device memory, of which swap
    space may take what is free; `tensor_memory`: columns of a multiprocessor; `sizes`: of a multiprocessor, for
    occupancy, None on a CPU. `copies_ahead`: pipelined loads go to shared memory past the registers;
    `dots_from_shared`: tensor cores read their operands there; `tensor_copies`: a unit copies
    boxes of tensors by descriptors. `dot_units`: a CPU's instructions for dots of
    narrow elements, by the names of `DOT_UNITS`. `processor`: LLVM's name of a CPU that is not this machine's.

    Rates are those of all multiprocessors together, but for `clock`, in Hz. Bytes a second: `memory_bandwidth`,
    `cache_bandwidth` of the last cache, `shared_bandwidth` of what `shared` is. Multiply-adds a second by dtype
    (`float32`, `tf32`, `float8`, …): `multiply_adds`, and `tensor_multiply_adds` of tensor cores, accumulating in
    float32 (int8: int32); a dtype that is not there has none. `launch_seconds`: what one launch costs before and after
    its work. `core`: what a CPU's core costs, where that is known. The defaults are of no device: they only let a model
    of time work with sizes alone.
    """

    registers: int
    register_bytes: int
    shared: int
    multiprocessors: int
    cache: int
    threads: int = 1
    warp: int = 1
    memory: int = 1 << 34
    tensor_memory: int = 0
    sizes: NvidiaSizes | AmdSizes | None = None
    copies_ahead: bool = False
    dots_from_shared: bool = False
    tensor_copies: bool = False
    dot_units: tuple[str, ...] = ()
    processor: str = ""
    clock: float = 1e9
    memory_bandwidth: float = 1e10
    cache_bandwidth: float = 5e10
    shared_bandwidth: float = 1e11
    multiply_adds: Mapping[str, float] = field(
        default_factory=lambda: {"float32": 1e10, "float64": 5e9, "int32": 1e10, "int64": 2.5e9}, hash=False
    )
    tensor_multiply_adds: Mapping[str, float] = field(default_factory=dict, hash=False)
    launch_seconds: float = 1e-5
    core: CoreCosts | None = None

    @property
    def core_costs(self) -> CoreCosts:
        """What a CPU's core costs: as known, or as most do."""
        return self.core or default_core_costs(self.register_bytes)


def limits_from(plain: Mapping[str, Any]) -> Limits:
    """The limits that `dataclasses.asdict` took apart, as JSON brings them back."""
    values = dict(plain)
    values["dot_units"] = tuple(values.get("dot_units", ()))
    sizes = values.get("sizes")
    if isinstance(sizes, Mapping):
        is_nvidia = sizes.keys() == {each.name for each in fields(NvidiaSizes)}
        values["sizes"] = NvidiaSizes(**sizes) if is_nvidia else AmdSizes(**sizes)
    if isinstance(core := values.get("core"), Mapping):
        values["core"] = CoreCosts(**core)
    return Limits(**values)
