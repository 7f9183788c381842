"""What the library's kernels are called with: sizes that go together, indices that are valid, numbers that mean
something, and how tensors lie in memory where the library's functions lay them out otherwise than row after row."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .attention_calls import UNLIMITED, Band, table_of_blocks
from .experts import BLOCK

Array = np.ndarray[Any, Any]
Sizes = Mapping[str, int]
Constants = Mapping[str, Any]
Numbers = Mapping[str, bool | int | float]
Arrays = Mapping[str, Array]


@dataclass(frozen=True)
class Recipe:
    """How a kernel is called.

    `sizes`: by name, that follow from the others and the constants. `constants`: that follow from the sizes.
    `numbers`: scalars by name. `arrays`: those tensors that are not just normal numbers; integers as int64, floats as
    float64, for the caller to round. `layout`: of a tensor, its sizes' names from the slowest to the fastest in memory,
    where that is not their order; names that stand twice and numbers are left out if they keep their places.
    """

    sizes: Mapping[str, Callable[[Sizes, Constants], int]] = field(default_factory=dict)
    constants: Callable[[Sizes], Constants] = lambda sizes: {}
    numbers: Callable[[Sizes], Numbers] = lambda sizes: {}
    arrays: Callable[[Sizes, Constants, np.random.Generator], Arrays] = lambda sizes, constants, random: {}
    layout: Mapping[str, str] = field(default_factory=dict)


def recipe_of(kernel: str) -> Recipe:
    """A kernel's recipe; a plain one where nothing is to be said."""
    return _RECIPES.get(kernel, Recipe())


# Indices


def _starts(rows: int, elements: int, random: np.random.Generator) -> Array:
    """Where rows begin, and the last ends: elements fall into rows by chance."""
    lengths = random.multinomial(elements, np.full(max(1, rows), 1 / max(1, rows)))[:rows]
    starts: Array = np.cumsum([0, *lengths])
    return starts


def _below(most: int, shape: int | tuple[int, ...], random: np.random.Generator) -> Array:
    found: Array = random.integers(0, max(1, most), shape)
    return found


def _rows(**index: str) -> Recipe:
    """Rows of elements, each with indices below a size."""

    def arrays(sizes: Sizes, constants: Constants, random: np.random.Generator) -> Arrays:
        start = _starts(sizes["R"], sizes["E"], random)
        return {"start": start, **{name: _below(sizes[most], sizes["E"], random) for name, most in index.items()}}

    return Recipe(sizes={"S": lambda sizes, constants: sizes["R"] + 1}, arrays=arrays)


def _spread(random_rows: bool = False, columns: str | None = None) -> Recipe:
    """Elements, each in a row; in their order unless `random_rows`."""

    def arrays(sizes: Sizes, constants: Constants, random: np.random.Generator) -> Arrays:
        row = _below(sizes["R"], sizes["E"], random)
        beside = {} if columns is None else {"column": _below(sizes[columns], sizes["E"], random)}
        return {"row": row if random_rows else np.sort(row), **beside}

    return Recipe(arrays=arrays)


def _bags_gradient(sizes: Sizes, constants: Constants, random: np.random.Generator) -> Arrays:
    """Bags of rows of a table, and for each row of the table the elements of bags that it is in."""
    start, index = _starts(sizes["R"], sizes["E"], random), _below(sizes["V"], sizes["E"], random)
    order = np.argsort(index, kind="stable")
    bag = np.repeat(np.arange(sizes["R"]), np.diff(start))
    lengths = np.maximum(1, np.diff(start))
    place = (start[:-1] + _below(1 << 30, sizes["R"], random) % lengths)[:, None] + np.zeros((1, sizes["C"]), int)
    first = np.cumsum([0, *np.bincount(index, minlength=sizes["V"])])
    return {"start": start, "first": first, "bag": bag[order], "order": order, "place": place}


def _group_ends(rows: int, groups: int) -> Array:
    """Ends of groups of unlike lengths, as routed tokens have: the last is three times as long as the first."""
    shares = np.linspace(1, 3, max(1, groups))
    ends: Array = np.floor(np.cumsum(shares) / shares.sum() * rows + 0.5).astype(np.int64)[:groups]
    return ends


def _group_blocks(sizes: Sizes) -> Array:
    """Of each block of rows of one group: the group, its first row, and where the group ends."""
    ends = _group_ends(sizes["S"], sizes["G"])
    begins = [0, *ends[:-1]]
    blocks = [(g, first, ends[g]) for g in range(len(ends)) for first in range(begins[g], ends[g], BLOCK)]
    return np.array(blocks, np.int64).reshape(-1, 3)


def _multiply_blocks(sizes: Sizes, constants: Constants, random: np.random.Generator) -> Arrays:
    group, first, end = _group_blocks(sizes).T
    return {"row": _below(sizes["T"], sizes["S"], random), "group": group, "first": first, "end": end}


def _group_gradient(sizes: Sizes, constants: Constants, random: np.random.Generator) -> Arrays:
    start = np.array([0, *_group_ends(sizes["E"], sizes["G"])], np.int64)
    return {"row": _below(sizes["T"], sizes["E"], random), "start": start}


# Attention by blocks


def _blocks(along: str, across: str) -> Callable[[Sizes, Constants], int]:
    def count(sizes: Sizes, constants: Constants) -> int:
        return -(-sizes[along] // int(constants["size"]))

    return count


def _block_table(along: str, across: str) -> Callable[[Sizes, Constants, np.random.Generator], Arrays]:
    def arrays(sizes: Sizes, constants: Constants, random: np.random.Generator) -> Arrays:
        start, other = (np.array([0, sizes[name]], np.int64) for name in (along, across))
        given: dict[str, Array] = {"block": table_of_blocks(start, other, Band(), int(constants["size"]))}
        heads = tuple(sizes[name] for name in "BGRM")
        given["normaliser"] = math.log(max(1, sizes["N"])) + 0.5 + 0.1 * random.standard_normal(heads)
        return given

    return arrays


def _scale(sizes: Sizes) -> Numbers:
    return {"scale": 1 / max(1, sizes["D"]) ** 0.5}


def _banded(sizes: Sizes) -> Numbers:
    return {**_scale(sizes), "back": UNLIMITED, "ahead": UNLIMITED}


_BY_HEADS = {name: f"B G R M {depth}" for name, depth in (("q", "D"), ("out", "E"), ("grad", "E"), ("dq", "D"))}

# Rows, classes, numbers


def _classes(sizes: Sizes, constants: Constants, random: np.random.Generator) -> Arrays:
    normaliser = math.log(max(1, sizes.get("V", 1))) + 0.5 + 0.1 * random.standard_normal(sizes["M"])
    return {"target": _below(sizes.get("V", 10), sizes["M"], random), "normaliser": normaliser}


def _positive(*names: str) -> Callable[[Sizes, Constants, np.random.Generator], Arrays]:
    """Tensors M × S of positive numbers."""

    def arrays(sizes: Sizes, constants: Constants, random: np.random.Generator) -> Arrays:
        return {name: 1 + np.abs(random.standard_normal((sizes["M"], sizes["S"]))) for name in names}

    return arrays


def _eps(sizes: Sizes) -> Numbers:
    return {"eps": 1e-5}


def _in_parts(sizes: Sizes) -> Numbers:
    return {**_eps(sizes), "each": -(-sizes["M"] // max(1, sizes["P"]))}


def _adamw(sizes: Sizes) -> Numbers:
    return {"keep": 0.99999, "rate": 0.003, "beta1": 0.9, "beta2": 0.999, "correction": 18.27, "eps": 1e-8}


def _squares(sizes: Sizes, constants: Constants, random: np.random.Generator) -> Arrays:
    return {"square": 0.01 + np.abs(random.standard_normal((sizes["M"], sizes["N"])))}


def _sorting(sizes: Sizes) -> Constants:
    """The rows' length as a power of two, and the steps of a bitonic network of that length."""
    bits = max(0, sizes["N"] - 1).bit_length()
    return {"room": 1 << bits, "steps": bits * (bits + 1) // 2}


# Images


def _side(image: str, weight: str, step: str, before: str, apart: str) -> Callable[[Sizes, Constants], int]:
    """A side of a convolution's result."""

    def length(sizes: Sizes, constants: Constants) -> int:
        room = sizes[image] + 2 * int(constants[before]) - int(constants[apart]) * (sizes[weight] - 1) - 1
        return max(0, room // int(constants[step]) + 1)

    return length


_SIDES = {"Y": _side("H", "R", "step_y", "above", "apart_y"), "X": _side("W", "S", "step_x", "left", "apart_x")}

# Sparse networks


def _layers(inputs: str, *shape: str, weights: int = 0) -> Callable[[Sizes, Constants, np.random.Generator], Arrays]:
    """Images of zeros and ones, connections below a size, and weights that neither saturate nor empty them; of so many
    dimensions, if that is said."""

    def arrays(sizes: Sizes, constants: Constants, random: np.random.Generator) -> Arrays:
        connections = tuple(sizes[name] for name in shape)
        return {
            "y": random.integers(0, 2, (sizes[inputs], sizes["I"])).astype(np.float64),
            "column": _below(sizes[inputs], connections, random),
            "weight": np.full(connections[:weights] if weights else connections, 2 / max(1, sizes["K"])),
            "bias": np.full(connections[:-1], -0.3),
        }

    return arrays


def _layers_in_blocks(several: bool) -> Callable[[Sizes, Constants, np.random.Generator], Arrays]:
    """The same in blocks, of several layers or of one."""

    def arrays(sizes: Sizes, constants: Constants, random: np.random.Generator) -> Arrays:
        before = (sizes["L"],) if several else ()
        blocks, inputs = (*before, sizes["G"]), sizes["G"] * sizes["P"] if several else sizes["M"]
        shape = (sizes["G"], sizes["P"], sizes["I"]) if several else (inputs, sizes["I"])
        return {
            "y": random.integers(0, 2, shape).astype(np.float64),
            "column": _below(inputs, (*blocks, sizes["Q"]), random),
            "weight": np.full((*blocks, sizes["P"], sizes["Q"]), 2 / max(1, sizes["Q"])),
            "bias": np.full((*blocks, sizes["P"]), -0.3),
        }

    return arrays


_RECIPES: Mapping[str, Recipe] = {
    "attention_rows": Recipe(numbers=_scale, layout=_BY_HEADS),
    **dict.fromkeys(
        ("attention_blocks", "attention_query_gradient"),
        Recipe({"P": _blocks("M", "N")}, numbers=_banded, arrays=_block_table("M", "N"), layout=_BY_HEADS),
    ),
    "attention_key_gradients": Recipe(
        {"P": _blocks("N", "M")}, numbers=_banded, arrays=_block_table("N", "M"),
        layout={"k": "B G N D", "v": "B G N E", "dk": "B G N D", "dv": "B G N E"},
    ),
    "layer_norm_rows": Recipe(numbers=_eps),
    "layer_norm_gradient": Recipe(numbers=_in_parts),
    "rms_norm_rows": Recipe(numbers=_eps),
    "rms_norm_gradient": Recipe(numbers=_in_parts),
    "group_norm_groups": Recipe(numbers=_eps),
    "group_norm_gradient": Recipe(numbers=_eps),
    "normalise_exponentials": Recipe(arrays=_positive("total")),
    "normalise_moments": Recipe(numbers=_eps, arrays=_positive("squares")),
    "cross_entropy_rows": Recipe(numbers=lambda sizes: {"smoothing": 0.0, "ignored": -100}, arrays=_classes),
    "cross_entropy_gradient": Recipe(numbers=lambda sizes: {"smoothing": 0.0, "ignored": -100}, arrays=_classes),
    "add_up": Recipe(numbers=lambda sizes: {"ignored": -100}, arrays=_classes),
    "find_classes": Recipe(numbers=lambda sizes: {"ignored": -100}, arrays=_classes),
    "find_extent": Recipe(arrays=lambda sizes, constants, r: {"index": _below(1000, (sizes["M"], sizes["N"]), r)}),
    "find_fall": Recipe(arrays=lambda sizes, constants, r: {"start": np.sort(_below(1 << 20, sizes["S"], r))}),
    "drop_elements": Recipe(numbers=lambda sizes: {"probability": 0.25, "scale": 4 / 3, "seed": 7}),
    "rotate_pairs": Recipe(numbers=lambda sizes: {"direction": 1.0}),
    "adamw_elements": Recipe(numbers=_adamw, arrays=_squares),
    "sort_rows": Recipe(
        constants=_sorting,
        arrays=lambda sizes, constants, r: {"origin": _below(1 << 15, (sizes["M"], sizes["N"]), r)},
    ),
    "count_in_parts": Recipe(
        numbers=lambda sizes: {"length": -(-sizes["E"] // max(1, sizes["P"])), "low": -4.0, "high": 4.0, "half": 1.0},
        arrays=lambda sizes, constants, r: {"count": np.zeros((sizes["P"], sizes["B"]), np.int64)},
    ),
    "sum_segments": _rows(),
    "sum_segment_rows": _rows(),
    "csr_times_dense": _rows(column="K"),
    "blocks_times_dense": _rows(column="K"),
    "bags_of_rows": _rows(index="V"),
    "find_largest_of_bags": _rows(index="V"),
    "bags_gradient": Recipe(
        {
            "S": lambda sizes, constants: sizes["R"] + 1, "T": lambda sizes, constants: sizes["V"] + 1,
            "P": lambda sizes, constants: sizes["R"],
        },
        arrays=_bags_gradient,
    ),
    "ell_times_dense": Recipe(
        arrays=lambda sizes, constants, r: {"column": _below(sizes["K"], (sizes["R"], sizes["L"]), r)}
    ),
    "ell_value_gradient": Recipe(
        arrays=lambda sizes, constants, r: {"column": _below(sizes["K"], (sizes["R"], sizes["L"]), r)}
    ),
    "sampled_products": _spread(columns="C"),
    "csr_value_gradient": _spread(columns="K"),
    "block_gradient": _spread(columns="K"),
    "spread_over_segments": _spread(),
    "multiply_blocks": Recipe({"B": lambda sizes, constants: len(_group_blocks(sizes))}, arrays=_multiply_blocks),
    "group_weight_gradient": Recipe({"S": lambda sizes, constants: sizes["G"] + 1}, arrays=_group_gradient),
    "convolve": Recipe(_SIDES, layout={"weight": "G R S C O"}),
    "convolution_weight_gradient": Recipe(
        _SIDES, numbers=lambda sizes: {"each": -(-sizes["B"] // max(1, sizes["P"]))}, layout={"grad": "B Y X G O"}
    ),
    "spdnn": Recipe(numbers=lambda sizes: {"bias": -0.3}, arrays=_layers("N", "L", "N", "K")),
    "sparse_layers": Recipe(numbers=lambda sizes: {"cap": 32.0}, arrays=_layers("N", "L", "N", "K")),
    "equal_weight_layers": Recipe(numbers=lambda sizes: {"cap": 32.0}, arrays=_layers("N", "L", "N", "K", weights=2)),
    "sparse_layer": Recipe(numbers=lambda sizes: {"cap": 32.0}, arrays=_layers("M", "N", "K")),
    "block_layers": Recipe(numbers=lambda sizes: {"cap": 32.0}, arrays=_layers_in_blocks(several=True)),
    "block_layer": Recipe(numbers=lambda sizes: {"cap": 32.0}, arrays=_layers_in_blocks(several=False)),
    "take_columns": Recipe(arrays=lambda sizes, constants, r: {"column": _below(sizes["P"], sizes["I"], r)}),
}  # fmt: skip


_ROWS: Sizes = {"M": 1024, "N": 1024}
_SEGMENTS: Sizes = {"M": 4, "S": 16, "L": 65536}
_HEADS: Sizes = {"B": 1, "G": 8, "R": 1, "M": 512, "N": 512, "D": 64, "E": 64}
_ROW_PARTS: Sizes = {**_ROWS, "P": 32}
_CLASSES: Sizes = {"M": 512, "V": 8192}
_GROUPS: Sizes = {"B": 8, "G": 32, "C": 2, "S": 1024}
_PIXELS: Sizes = {"B": 4, "M": 512, "N": 512}
_CSR: Sizes = {"R": 4096, "E": 1 << 16, "K": 4096, "C": 64}
_IMAGES: Sizes = {"B": 4, "G": 1, "C": 32, "H": 28, "W": 28, "O": 64, "R": 3, "S": 3}
_HEXAHEDRA: Sizes = {"E": 1024, "C": 1, "P": 5, "Q": 6}
_NETWORK: Sizes = {"L": 8, "N": 1024, "K": 32, "I": 1024}

CPU_SIZES: Mapping[str, Sizes] = {
    **dict.fromkeys(
        (
            "softmax_rows", "softmax_gradient", "layer_norm_rows", "rms_norm_rows", "log_softmax_rows",
            "log_softmax_gradient", "activate_elements", "activation_gradient", "drop_elements", "adamw_elements",
            "cumulative_sum_rows", "cumulative_sum_from_the_end", "find_extent",
        ),
        _ROWS,
    ),
    **dict.fromkeys(
        (
            "summarise_exponentials", "normalise_exponentials", "summarise_moments", "normalise_moments",
            "sum_of_each_segment", "cumulative_sum_segments", "cumulative_sum_segments_from_the_end",
        ),
        _SEGMENTS,
    ),
    "matmul_bias": {"M": 512, "N": 512, "K": 512},
    "matmul_batches": {"B": 8, "M": 256, "N": 256, "K": 256},
    "mlp_rows": {"M": 256, "K": 256, "H": 1024, "N": 256},
    "attention_rows": _HEADS,
    "attention_blocks": _HEADS,
    "attention_query_gradient": _HEADS,
    "attention_key_gradients": _HEADS,
    "sum_segments": {"R": 1 << 16, "E": 1 << 20},
    "sum_segment_rows": {"R": 4096, "E": 1 << 16, "C": 64},
    "csr_times_dense": _CSR,
    "csr_value_gradient": _CSR,
    "spread_over_segments": {"R": 4096, "E": 1 << 16, "C": 64},
    "bags_of_rows": {"R": 4096, "E": 1 << 16, "V": 8192, "C": 64},
    "find_largest_of_bags": {"R": 4096, "E": 1 << 16, "V": 8192, "C": 64},
    "bags_gradient": {"R": 4096, "E": 1 << 16, "V": 8192, "C": 64},
    "ell_times_dense": {"R": 4096, "L": 16, "K": 4096, "C": 64},
    "ell_value_gradient": {"R": 4096, "L": 16, "K": 4096, "C": 64},
    "blocks_times_dense": {"R": 32, "E": 128, "P": 32, "Q": 32, "K": 32, "C": 128},
    "block_gradient": {"R": 32, "E": 128, "P": 32, "Q": 32, "K": 32, "C": 128},
    "sampled_products": {"E": 1 << 16, "R": 4096, "C": 4096, "K": 64},
    "stencil_cross": _PIXELS,
    "stencil_square": _PIXELS,
    "stencil_weight_gradient": _PIXELS,
    "cross_entropy_rows": _CLASSES,
    "cross_entropy_gradient": _CLASSES,
    "add_up": {"M": 1 << 16},
    "find_classes": {"M": 1 << 16},
    "find_fall": {"S": 65537},
    "layer_norm_gradient": _ROW_PARTS,
    "rms_norm_gradient": _ROW_PARTS,
    "group_norm_groups": _GROUPS,
    "group_norm_gradient": _GROUPS,
    "group_norm_parameter_gradients": _GROUPS,
    "rotate_pairs": {"B": 1, "M": 512, "H": 16, "P": 32},
    "reduce_middle": {"A": 16, "N": 1024, "C": 64},
    "find_middle": {"A": 16, "N": 1024, "C": 64},
    "largest_in_turn": {"M": 1024, "N": 1024, "K": 4},
    "select_largest": {"M": 256, "N": 4096, "K": 64},
    "sort_rows": {"M": 256, "N": 256, "K": 256},
    "count_in_parts": {"E": 1 << 20, "P": 256, "B": 64},
    "convolve": _IMAGES,
    "convolution_weight_gradient": {**_IMAGES, "P": 4},
    "arrange_weights": {"G": 1, "O": 256, "C": 128, "R": 3, "S": 3},
    "turn_weights": {"G": 1, "O": 256, "C": 128, "R": 3, "S": 3},
    "channels_last": {"B": 4, "C": 64, "Y": 28, "X": 28},
    "channel_sums": {"B": 4, "C": 64, "S": 784},
    "mass": _HEXAHEDRA,
    "stiffness": _HEXAHEDRA,
    "stiffness_at_nodes": {"E": 1024, "C": 1, "P": 5},
    "multiply_blocks": {"T": 512, "K": 128, "S": 512, "G": 8, "N": 512},
    "group_weight_gradient": {"T": 512, "K": 128, "E": 512, "G": 8, "N": 512},
    "spdnn": _NETWORK,
    "sparse_layers": _NETWORK,
    "equal_weight_layers": _NETWORK,
    "sparse_layer": {"M": 1024, "N": 256, "K": 32, "I": 2048},
    "block_layers": {"L": 8, "G": 64, "P": 16, "Q": 32, "I": 1024},
    "block_layer": {"M": 1024, "G": 16, "P": 16, "Q": 32, "I": 2048},
    "distance_to_state": {"N": 1024, "I": 1800},
    "take_columns": {"N": 1024, "P": 4096, "I": 2048},
}  # fmt: skip
"""Sizes that a call on a core or two takes some tenths of a millisecond or a few for; not those that follow."""
