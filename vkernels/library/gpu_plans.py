"""Hand-written plans of the library's kernels for GPUs: sizes are powers of two, programs many."""

from __future__ import annotations

from collections.abc import Mapping

from vkernels.ir.limits import Limits
from vkernels.ir.plan import Home, Plan
from vkernels.ir.planning.powers import power_above, power_below, warps_for

HELD = 1 << 13
"""Elements of a row that a program holds in registers, at most: 32 a thread with eight warps."""

CHUNK = 1 << 12
"""Elements of a longer row that pass by at a time."""

TILE = 1 << 11
"""Elements of several short rows that a program takes together."""


def rows_on_gpu(sizes: Mapping[str, int], limits: Limits, width: int, keeps: str | None = None) -> Plan:
    """Rows of N elements, of `width` bytes each when computed; `keeps`: a value of a row worth keeping on chip."""
    rows, length = sizes["M"], max(1, sizes["N"])
    row, held = power_above(length), HELD * 4 // width
    if row <= held:
        tile = min(power_above(rows), max(1, TILE // row))
        return Plan(tiles={"i": tile}, chunks={"j": row}, lanes="j", warps=warps_for(tile * row, limits))
    splits = {}
    if rows < limits.multiprocessors and length >= 1 << 16:
        splits = {"j": power_below(min(2 * limits.multiprocessors // max(1, rows), length // CHUNK))}
    chunks = -(-length // CHUNK) + 1  # of the row, and as much for Triton to move elements between threads
    keep = keeps is not None and not splits and chunks * CHUNK * width + 1024 <= limits.shared
    homes = {keeps: Home.SHARED} if keep and keeps is not None else {}
    warps = warps_for(CHUNK, limits)
    return Plan(tiles={"i": 1}, chunks={"j": CHUNK}, homes=homes, splits=splits, lanes="j", warps=warps)


def segments_on_gpu(sizes: Mapping[str, int], dtypes: Mapping[str, str], limits: Limits) -> Plan:
    """A segment of a long row a program; the summaries of all segments pass by in chunks."""
    chunk = min(CHUNK, power_above(sizes["L"]))
    summaries = {"t": min(CHUNK // 4, power_above(sizes["S"]))} if "out" in dtypes else {}
    return Plan(
        tiles={"i": 1, "s": 1}, chunks={"j": chunk, **summaries}, lanes="j", order=("s", "i"),
        warps=warps_for(chunk, limits),
    )  # fmt: skip


MATMUL_TILES = ((128, 128), (128, 64), (64, 64), (64, 32), (32, 32), (16, 16))
MATMUL_STAGES = (4, 3, 2, 1)


def matmul_on_gpu(sizes: Mapping[str, int], limits: Limits, dtype: str) -> Plan:
    """The largest tiles that leave no multiprocessor without work and whose operands fit into shared memory, staged."""
    halves, doubles = dtype in ("float16", "bfloat16"), dtype == "float64"
    width, deep = (2, 64) if halves else (8, 16) if doubles else (4, 32)
    deep = max(16, min(deep, power_above(sizes["K"])))
    tiles = [t for t in MATMUL_TILES if halves or t[0] * t[1] <= (2048 if doubles else 8192)]
    room = [t for t in tiles if -(-sizes["M"] // t[0]) * -(-sizes["N"] // t[1]) >= limits.multiprocessors]
    down, across = next((t for t in room if t[0] <= 2 * sizes["M"] and t[1] <= 2 * sizes["N"]), tiles[-1])
    stages = next((s for s in MATMUL_STAGES if s * (down + across) * deep * width <= limits.shared * 3 // 4), 1)
    return Plan(
        tiles={"i": down, "j": across}, chunks={"k": deep}, lanes="j", order=("i", "j"),
        warps=min(max(1, down * across // 2048), 8), stages=stages,
    )  # fmt: skip


def spdnn_on_gpu(sizes: Mapping[str, int], limits: Limits) -> Plan:
    """As many images a program as keep both copies of their features in shared memory, sixteen at most; sixteen where
    not even one would, their features in memory."""
    fit = (limits.shared - 1024) // (2 * 4 * max(1, sizes["N"]))
    homes = {"features": Home.MEMORY} if fit < 1 else {}
    images = min(16, power_below(fit) if fit >= 1 else 16, power_above(sizes["I"]))
    neurons = min(power_above(sizes["N"]), TILE // images)
    return Plan(
        tiles={"i": images}, chunks={"n": neurons}, homes=homes, copies=("features",), lanes="i",
        warps=min(8, power_below(limits.threads // limits.warp)),
    )  # fmt: skip


def take_columns_on_gpu(sizes: Mapping[str, int], limits: Limits) -> Plan:
    """A stretch of a row a program."""
    chunk = min(CHUNK // 4, power_above(sizes["I"]))
    return Plan(tiles={"n": 1}, chunks={"i": chunk}, lanes="i", warps=warps_for(chunk, limits))


def stencil_on_gpu(sizes: Mapping[str, int], limits: Limits) -> Plan:
    """A few rows of a stretch of columns a program."""
    across = min(TILE // 4, power_above(sizes["N"]))
    down = min(TILE // across, power_above(sizes["M"]))
    return Plan(
        tiles={"b": 1, "i": down, "j": across}, lanes="j", order=("b", "i", "j"),
        warps=warps_for(down * across, limits),
    )  # fmt: skip


def segment_sums_on_gpu(sizes: Mapping[str, int], limits: Limits) -> Plan:
    """A few segments a program, each thirty-two values at a time."""
    tile = min(16, power_above(sizes["R"]))
    return Plan(tiles={"r": tile}, chunks={"a": 32}, lanes="a", warps=warps_for(32 * tile, limits))


def segment_columns_on_gpu(sizes: Mapping[str, int], limits: Limits) -> Plan:
    """A stretch of columns of as many segments as make two warps busy."""
    across = min(256, power_above(sizes["C"]))
    down = min(256 // across, power_above(sizes["R"]))
    return Plan(tiles={"r": down, "c": across}, lanes="c", order=("r", "c"), warps=warps_for(4 * down * across, limits))


def mlp_on_gpu(sizes: Mapping[str, int], limits: Limits, dtype: str) -> Plan:
    """Results of a few rows in registers while `hidden` passes by in chunks; where they are too many, `hidden` is kept:
    in shared memory if it fits, else in memory."""
    halves, doubles = dtype in ("float16", "bfloat16"), dtype == "float64"
    rows = min(64 if halves else 32 if not doubles else 16, max(16, power_above(sizes["M"])))
    deep = max(16, min(32 if halves else 16, power_above(sizes["K"])))
    hidden = max(16, min(64 if halves else 32, power_above(sizes["H"])))
    across, most = max(16, power_above(sizes["N"])), 8192 if halves else 4096 if not doubles else 1024
    homes = {}
    if rows * across > most:
        across = most // rows
        bytes_ = rows * -(-sizes["H"] // hidden) * hidden * (8 if doubles else 4)
        homes = {"hidden": Home.SHARED if bytes_ <= limits.shared // 2 else Home.MEMORY}
    homes = homes if sizes["H"] > hidden else {}
    return Plan(tiles={"i": rows}, chunks={"k": deep, "h": hidden, "n": across}, homes=homes, lanes="i", warps=4)


def attention_on_gpu(sizes: Mapping[str, int], limits: Limits, dtype: str) -> Plan:
    """Queries and their results in registers, keys and values passing by."""
    halves, doubles = dtype in ("float16", "bfloat16"), dtype == "float64"
    deep, across = (max(16, power_above(sizes[name])) for name in ("D", "E"))
    most = 8192 if halves else 2048 if not doubles else 1024
    rows = max(16, min(64, power_above(sizes["M"]), most // across))
    keys = max(16, min(64 if halves else 16, power_above(sizes["N"]), most // max(deep, across)))
    return Plan(
        tiles={"b": 1, "g": 1, "r": 1, "i": rows}, chunks={"j": keys, "d": deep, "e": across},
        lanes="i", order=("b", "g", "r", "i"), warps=4 if rows * across <= 8192 else 8,
    )  # fmt: skip
