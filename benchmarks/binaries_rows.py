"""What benchmarks/binaries.py compares: rows of kernels, by hand in some configurations, and ours for the same work.

A hand kernel's configuration is a dictionary of its constants and of `warps` and `stages`. The first of each list are
the likeliest, so that a short run has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hand_triton import attentions, convolutions, matmuls, rows, sparse

tl = matmuls.tl
Configuration = Mapping[str, Any]
UNKNOWN_LENGTH = 16.0
"""Entries of a sparse row, whose bounds are in memory."""
STEP = 64
"""Keys that a block of our attention with a band takes at once; where they end for each block is in memory."""
GRADIENT_BLOCK = 64
"""Queries or keys of a block of its gradients; where there is `ROOM` twice as many."""
ROOM = ("sm_100", "gfx950")
HAVE_ROOM = ("sm_90", "sm_100", "gfx90a", "gfx942", "gfx950")
"""Where the library takes large blocks of wide heads."""
ConfigurationsOf = Callable[[str], Iterator[Configuration]]


@dataclass(frozen=True)
class HandLaunch:
    """One launch of a hand-written kernel. `types`: Triton's, by parameter. `numbers`: integers that it is passed."""

    kernel: Any
    types: Mapping[str, str]
    constants: Mapping[str, Any]
    grid: tuple[int, ...]
    numbers: Mapping[str, int]
    warps: int
    stages: int
    divisible: tuple[str, ...] = ()


LaunchOf = Callable[[Configuration, str], HandLaunch | None]


@dataclass(frozen=True)
class OurKernel:
    """A kernel with sizes, of the catalogue or of a `file` of this folder. `dtypes`: by tensor; `constants`: that
    differ from the defaults. `length`: of loops whose bounds are in memory, on average; several, of those loops in
    turn. `elsewhere`: what the library calls in its place on some architectures."""

    name: str
    shape: Mapping[str, int]
    dtype: str
    dtypes: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    length: float | tuple[float, ...] = UNKNOWN_LENGTH
    file: str = ""
    elsewhere: Mapping[str, OurKernel] = field(default_factory=dict)

    def on(self, architecture: str) -> OurKernel:
        return self.elsewhere.get(architecture, self)


@dataclass(frozen=True)
class Row:
    """A kernel's work. `moved`: bytes of all tensors, each once. `ours`: kernels that do it, one after another.
    `parts`: of the work by hand: how a configuration is launched, and the configurations; the best of each counts.
    `without`: architectures that lack the unit."""

    name: str
    moved: float
    ours: tuple[OurKernel, ...]
    parts: Mapping[
        str, tuple[Callable[[Configuration, str], HandLaunch | None], Callable[[str], Iterator[Configuration]]]
    ]
    without: tuple[str, ...] = ()


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


BYTES = {"fp16": 2, "bf16": 2, "fp32": 4, "fp8e4nv": 1, "i8": 1, "i32": 4}
OURS = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp8e4nv": "float8_e4m3fn"}


_PLAIN = (
    "128x128x16/8/3 128x64x16/4/3 64x64x16/4/3 128x128x32/8/2 64x128x16/4/2 256x64x16/8/2 128x256x16/16/2 32x64x32/4/2"
)
_TILES = {  # depths are those of operands of two bytes
    "sm_100": "128x256x64/8/3 128x256x64/4/3 128x128x64/4/4 128x128x64/8/3 256x128x64/8/3 256x256x32/8/3 "
    "128x128x128/4/2 128x64x64/4/4",
    "sm_90": "128x256x64/8/3 128x256x64/8/4 256x128x64/8/3 128x128x64/8/4 128x128x64/4/3 64x256x64/4/3 128x128x128/8/2 "
    "64x128x64/4/4",
    "sm": "128x256x32/8/3 128x128x32/4/4 128x256x64/8/2 128x128x64/8/2 256x128x32/8/3 128x64x32/4/4 64x128x64/4/3 "
    "64x64x64/4/3",
    "gfx11": "128x128x32/8/1 128x128x32/4/1 64x128x32/4/1 128x64x32/4/2 64x64x32/4/1 256x128x32/8/1 128x128x64/8/1 "
    "128x256x32/8/2",
    "gfx9": "256x256x32/8/2 256x256x64/8/2 256x128x64/8/2 128x128x64/8/2 128x128x64/4/2 128x256x32/8/2 256x256x32/16/2 "
    "128x128x32/4/2",
}
"""Tiles of a matrix product by how the architecture's name begins: rows x columns x depth / warps / stages."""


def _tiles(architecture: str, item: int, plain: bool = False) -> Iterator[Configuration]:
    """Configurations of a matrix product of operands of `item` bytes. `plain`: without tensor cores."""
    text = _PLAIN if plain else next(each for name, each in _TILES.items() if architecture.startswith(name))
    for one in text.split():
        sides, warps, stages = one.split("/")
        m, n, k = map(int, sides.split("x"))
        deep = k if plain else max(16, k * 2 // item)
        yield {"BM": m, "BN": n, "BK": deep, "warps": int(warps), "stages": int(stages)}


def _matmul(
    kind: str, size: int, *, out: str = "", precision: str = "ieee", ours: OurKernel | None = None,
    without: tuple[str, ...] = (), name: str = "",
) -> Row:  # fmt: skip
    item, out = BYTES[kind], out or kind
    whole = size % 128 == 0
    total = tl.int32 if kind == "i8" else tl.float32
    plain = kind == "fp32" and precision == "ieee"
    numbers = dict.fromkeys(("M", "N", "K", "stride_a", "stride_b", "stride_c"), size)
    pointers = {"a": f"*{kind}", "b": f"*{kind}", "c": f"*{out}"}

    def launch(given: Configuration, architecture: str) -> HandLaunch | None:
        sides = {side: given[side] for side in ("BM", "BN", "BK")}
        grid = (ceil_div(size, given["BM"]) * ceil_div(size, given["BN"]),)
        constants = {**sides, "GROUP": 8, "WHOLE": whole, "PRECISION": precision, "SUM": total}
        types = {**pointers, **dict.fromkeys(numbers, "i32")}
        divisible = tuple(types) if size % 16 == 0 else tuple(pointers)
        return HandLaunch(matmuls.matmul, types, constants, grid, numbers, given["warps"], given["stages"], divisible)

    def described(given: Configuration, architecture: str) -> HandLaunch | None:
        if architecture not in ("sm_90", "sm_100", "sm_120") or size * item % 16 or plain or precision == "tf32":
            return None
        sides = {side: given[side] for side in ("BM", "BN", "BK")}
        grid = (ceil_div(size, given["BM"]) * ceil_div(size, given["BN"]),)
        types = {**pointers, **dict.fromkeys("MNK", "i32")}
        return HandLaunch(
            matmuls.matmul_by_descriptors, types, {**sides, "GROUP": 8, "SUM": total}, grid, numbers, given["warps"],
            given["stages"], tuple(types),
        )  # fmt: skip

    def either(given: Configuration, architecture: str) -> HandLaunch | None:
        return (described if given.get("descriptors") else launch)(given, architecture)

    def configurations(architecture: str) -> Iterator[Configuration]:
        tiles = list(_tiles(architecture, item, plain))
        by_descriptors = [{**each, "descriptors": True} for each in tiles[:4]]
        yield from tiles[:2]
        yield from by_descriptors[:2]
        yield from tiles[2:]
        yield from by_descriptors[2:]

    mine = ours or OurKernel(
        "matmul_bias", dict.fromkeys("MNK", size), OURS[kind],
        {"bias": "float32", "out": "float32"} if kind == "fp8e4nv" else {},
        {"precision": "tf32" if kind == "fp8e4nv" else precision},  # by hand, too, sm_90 adds f8 in fewer bits
    )  # fmt: skip
    return Row(
        name or f"matmul {kind} {size}³", size * size * (2 * item + BYTES[out]), (mine,),
        {"": (either, configurations)}, without,
    )  # fmt: skip


HEADS, LENGTH = 32, 4096


_BLOCKS = {
    "forward": "128x64/4/3 128x64/8/3 128x128/8/3 64x64/4/3 128x32/4/3 128x32/8/3 128x64/8/2 64x32/4/2 128x128/4/2 "
    "256x64/8/2 64x64/8/2 64x32/8/1",
    "wide": "128x64/8/2 128x32/8/2 64x64/4/2 64x32/4/2 128x64/8/1 64x64/8/2 64x32/8/2 128x32/8/1",
    "backward": "64x32/4/2 128x32/4/3 128x64/8/2 64x64/4/2 128x32/8/2 128x64/8/1 64x64/8/2 64x32/4/1 128x128/8/1 "
    "128x128/8/2",
}
"""Blocks of attention: rows that a program has x rows that it goes over / warps / stages."""


def _blocks(kind: str, architecture: str) -> Iterator[Configuration]:
    for one in _BLOCKS[kind].split():
        sides, warps, stages = one.split("/")
        m, n = map(int, sides.split("x"))
        most = 2 if architecture.startswith("gfx") else 4
        yield {"BM": m, "BN": n, "warps": int(warps), "stages": min(int(stages), most)}


def _tensors(names: str, kind: str = "fp16") -> dict[str, str]:
    return dict.fromkeys(names.split(), f"*{kind}")


def _attention(width: int, causal: bool, heads: int = HEADS, length: int = LENGTH) -> Row:
    def launch(given: Configuration, architecture: str) -> HandLaunch | None:
        types = {**_tensors("q k v out"), "norms": "*fp32", "scale": "fp32", "N": "i32"}
        constants = {"D": width, "BM": given["BM"], "BN": given["BN"], "CAUSAL": causal}
        return HandLaunch(
            attentions.attention, types, constants, (length // given["BM"], heads), {"N": length}, given["warps"],
            given["stages"], ("q", "k", "v", "out", "norms", "N"),
        )  # fmt: skip

    def configurations(architecture: str) -> Iterator[Configuration]:
        return _blocks("wide" if width == 256 else "forward", architecture)

    shape = {"B": 1, "G": heads, "R": 1, "M": length, "N": length, "D": width, "E": width}
    name = f"attention d = {width}{' causal' if causal else ''}"
    if causal:

        def in_blocks(block: int, step: int) -> OurKernel:
            blocks, inside = length // block, block / step
            return OurKernel(
                "attention_blocks", {**shape, "P": blocks}, "float16",
                constants={"kept": True, "size": block, "keys": step}, length=((blocks - 1) / 2 * inside, inside),
            )  # fmt: skip

        large = dict.fromkeys(HAVE_ROOM, in_blocks(128, 32)) if width > 128 else {"sm_100": in_blocks(128, width)}
        ours = replace(in_blocks(128 if width <= 128 else 64, STEP), elsewhere=large)  # as the library's
    else:
        ours = OurKernel("attention_rows", shape, "float16")
    moved = 4 * 2 * heads * length * width
    return Row(name, moved, (ours,), {"": (launch, configurations)})


def _backward(width: int) -> Row:
    types = {
        **_tensors("q k v gradient"), "norms": "*fp32", "delta": "*fp32", "scale": "fp32", "N": "i32",
    }  # fmt: skip
    pointers = ("q", "k", "v", "gradient", "norms", "delta", "N")

    def products(given: Configuration, architecture: str) -> HandLaunch | None:
        kinds = {**_tensors("out gradient"), "delta": "*fp32", "N": "i32"}
        return HandLaunch(
            attentions.output_products, kinds, {"D": width, "BM": given["BM"]}, (HEADS * LENGTH // given["BM"],),
            {"N": LENGTH}, given["warps"], 1, tuple(kinds),
        )  # fmt: skip

    def of_keys(given: Configuration, architecture: str) -> HandLaunch | None:
        constants = {"D": width, "BM": given["BN"], "BN": given["BM"], "CAUSAL": False}
        return HandLaunch(
            attentions.key_gradients, {**types, **_tensors("dk dv")}, constants, (LENGTH // given["BM"], HEADS),
            {"N": LENGTH}, given["warps"], given["stages"], (*pointers, "dk", "dv"),
        )  # fmt: skip

    def of_queries(given: Configuration, architecture: str) -> HandLaunch | None:
        constants = {"D": width, "BM": given["BM"], "BN": given["BN"], "CAUSAL": False}
        return HandLaunch(
            attentions.query_gradient, {**types, **_tensors("dq")}, constants, (LENGTH // given["BM"], HEADS),
            {"N": LENGTH}, given["warps"], given["stages"], (*pointers, "dq"),
        )  # fmt: skip

    def few(architecture: str) -> Iterator[Configuration]:
        for rows_ in (32, 64, 128):
            yield {"BM": rows_, "warps": 4, "stages": 1}

    def blocks(architecture: str) -> Iterator[Configuration]:
        return _blocks("backward", architecture)

    sizes = {"B": 1, "G": HEADS, "R": 1, "M": LENGTH, "N": LENGTH, "D": width, "E": width}

    def in_blocks(name: str, block: int) -> OurKernel:
        constants = {"kept": True, "masks": False, "size": block}
        return OurKernel(name, {**sizes, "P": LENGTH // block}, "float16", constants=constants, length=LENGTH / STEP)

    ours = tuple(
        replace(in_blocks(name, GRADIENT_BLOCK), elsewhere={each: in_blocks(name, 2 * GRADIENT_BLOCK) for each in ROOM})
        for name in ("attention_query_gradient", "attention_key_gradients")
    )
    parts = {"products": (products, few), "keys": (of_keys, blocks), "queries": (of_queries, blocks)}
    return Row(f"attention backward d = {width}", 8 * 2 * HEADS * LENGTH * width, ours, parts)


def _rows(name: str, rows_: int, columns: int) -> Row:
    def launch(given: Configuration, architecture: str) -> HandLaunch | None:
        chunked = given["BN"] < columns
        types = {**_tensors("x out"), "N": "i32"}
        if name == "layer_norm":
            types = {**_tensors("x weight bias out"), "N": "i32", "eps": "fp32"}
        kernel = rows.layer_norm if name == "layer_norm" else rows.softmax_in_chunks if chunked else rows.softmax
        divisible = tuple(each for each in types if each != "eps")
        return HandLaunch(kernel, types, {"BN": given["BN"]}, (rows_,), {"N": columns}, given["warps"], 2, divisible)

    def configurations(architecture: str) -> Iterator[Configuration]:
        whole = 1 << (columns - 1).bit_length()
        for warps in (4, 8, 2, 16, 1, 32):
            if 1 <= whole // (warps * 32) <= 128:
                yield {"BN": whole, "warps": warps}
        if name == "softmax":
            for chunk, warps in ((2048, 4), (4096, 8), (8192, 16), (1024, 2), (4096, 4), (8192, 8)):
                if chunk < columns:
                    yield {"BN": chunk, "warps": warps}

    kernel = {"softmax": "softmax_rows", "layer_norm": "layer_norm_rows"}[name]
    ours = OurKernel(kernel, {"M": rows_, "N": columns}, "float16")
    return Row(f"{name} {rows_} × {columns}", 2 * 2 * rows_ * columns, (ours,), {"": (launch, configurations)})


def _convolution() -> Row:
    batch, channels, side, filters = 32, 256, 56, 256
    out = side - 2
    numbers = {"B": batch, "H": side, "W": side, "C": channels, "O": filters, "Y": out, "X": out}

    def launch(given: Configuration, architecture: str) -> HandLaunch | None:
        types = {**_tensors("x weight out"), **dict.fromkeys(numbers, "i32")}
        constants = {"R": 3, "S": 3, "BM": given["BM"], "BN": given["BN"], "BK": given["BK"], "GROUP": 8}
        grid = (ceil_div(batch * out * out, given["BM"]) * (filters // given["BN"]),)
        divisible = ("x", "weight", "out", "B", "C", "O")
        return HandLaunch(
            convolutions.convolution, types, constants, grid, numbers, given["warps"], given["stages"], divisible
        )

    moved = 2 * (batch * channels * side * side + 9 * channels * filters + batch * filters * out * out)
    shape = {**numbers, "G": 1, "R": 3, "S": 3}
    ours = OurKernel("convolve", shape, "float16")
    return Row("convolution 3×3", moved, (ours,), {"": (launch, lambda architecture: _tiles(architecture, 2))})


def _csr() -> Row:
    rows_, entries, columns = 1 << 18, 1 << 22, 256

    def launch(given: Configuration, architecture: str) -> HandLaunch | None:
        types = {"starts": "*i32", "columns": "*i32", **_tensors("values dense out", "fp32"), "C": "i32"}
        return HandLaunch(
            sparse.csr_times_dense, types, {"BE": given["BE"], "BC": given["BC"]}, (rows_, columns // given["BC"]),
            {"C": columns}, given["warps"], 2, tuple(types),
        )  # fmt: skip

    def configurations(architecture: str) -> Iterator[Configuration]:
        for at_once, wide, warps in ((4, 256, 2), (8, 256, 4), (16, 256, 4), (1, 256, 2), (2, 256, 2), (16, 128, 2),
                                     (8, 128, 2), (4, 128, 1), (16, 256, 8), (1, 128, 1)):  # fmt: skip
            yield {"BE": at_once, "BC": wide, "warps": warps}

    shape = {"S": rows_ + 1, "R": rows_, "E": entries, "K": rows_, "C": columns}
    moved = 4 * (rows_ + 2 * entries + 2 * rows_ * columns)
    return Row("csr product", moved, (OurKernel("csr_times_dense", shape, "float32"),), {"": (launch, configurations)})


def _spdnn() -> Row:
    layers, neurons, inputs, images = 120, 1024, 32, 60000

    def launch(given: Configuration, architecture: str) -> HandLaunch | None:
        types = {
            **_tensors("first other", "fp32"), "column": "*i32", "weight": "*fp32", "bias": "fp32", "L": "i32",
            "N": "i32", "I": "i32",
        }  # fmt: skip
        constants = {"K": inputs, "BN": given["BN"], "BI": given["BI"]}
        return HandLaunch(
            sparse.sparse_layers, types, constants, (ceil_div(images, given["BI"]),),
            {"L": layers, "N": neurons, "I": images}, given["warps"], 1,
            ("first", "other", "column", "weight", "N", "I"),
        )  # fmt: skip

    def configurations(architecture: str) -> Iterator[Configuration]:
        for neurons_, images_, warps in ((32, 32, 4), (64, 32, 4), (16, 32, 4), (32, 32, 8), (64, 32, 8), (16, 16, 2),
                                         (128, 16, 4), (8, 32, 2), (64, 16, 4), (128, 32, 8)):  # fmt: skip
            yield {"BN": neurons_, "BI": images_, "warps": warps}

    shape = {"L": layers, "N": neurons, "K": inputs, "I": images}
    moved = 8 * neurons * images + 8 * layers * neurons * inputs
    return Row("spdnn 1024 × 120", moved, (OurKernel("spdnn", shape, "float32"),), {"": (launch, configurations)})


NO_FLOAT8 = ("sm_80", "gfx90a", "gfx942", "gfx1100")
"""Without tensor cores for e4m3 as NVIDIA has it."""

INT8_DTYPES = {"a": "int8", "b": "int8", "out": "int32"}
INT8 = OurKernel("int8_matmul", dict.fromkeys("MNK", 4096), "int8", INT8_DTYPES, file="units.py")

ROWS = (
    _matmul("fp16", 4096),
    _attention(64, False),
    _attention(128, False),
    _rows("softmax", 4096, 1024),
    _rows("layer_norm", 8192, 8192),
    _matmul("bf16", 8192),
    _matmul("fp32", 4096),
    _matmul("fp32", 4096, precision="tf32", name="matmul tf32 4096³", without=("gfx90a", "gfx950", "gfx1100")),
    _matmul("fp16", 4095),
    _csr(),
    _spdnn(),
    _convolution(),
    _attention(256, False),
    _attention(64, True),
    _attention(128, True),
    _attention(256, True),
    _rows("softmax", 4096, 32768),
    _matmul("fp8e4nv", 4096, out="fp32", without=NO_FLOAT8),
    _matmul("i8", 4096, out="i32", ours=INT8),
    _backward(64),
    _backward(128),
)
"""In the order in which a run takes them."""

SMALL = {
    "matmul fp16 256³": lambda: _matmul("fp16", 256),
    "attention d = 32": lambda: _attention(32, False, 2, 128),
    "softmax 5 × 256": lambda: _rows("softmax", 5, 256),
    "layer_norm 5 × 256": lambda: _rows("layer_norm", 5, 256),
}
"""Rows that a simulated GPU can run."""
