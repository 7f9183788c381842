"""How to draw the arguments of the library's kernels: sizes, indices that go together, numbers that mean something."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any

import numpy as np

from tests.ir.interpret.ttir.library import numbers
from vkernels.language.kernel import Kernel
from vkernels.library.activations import ACTIVATIONS

from .drawing import Draw

Given = dict[str, Any]
"""Arguments by name: arrays and numbers."""


@dataclass(frozen=True)
class Recipe:
    """How to draw a kernel's arguments.

    `least`, `most`: of sizes. `given`: makes those that are not plain random floats, from the sizes drawn, which it may
    change. `constants`: from which values to choose. `special`: tensors that may hold infinities and NaN. `inner`:
    values inside are rounded to the dtype. `cancels`: how large the numbers are, of some arguments, that may cancel out
    inside: moving the arguments does not show it where they always do.
    """

    least: Mapping[str, int] = field(default_factory=dict)
    most: Mapping[str, int] = field(default_factory=dict)
    given: Callable[[Draw, dict[str, int]], Given] = lambda d, sizes: {}
    constants: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    special: tuple[str, ...] = ()
    inner: bool = False
    cancels: Callable[[Given], float] = lambda given: 0.0


def _targets(d: Draw, sizes: dict[str, int]) -> Given:
    found = d.indices(sizes.get("V", 10), sizes["M"])
    found[d.numbers.random(sizes["M"]) < 0.3] = -100
    given: Given = {"target": found, "ignored": -100}
    return given if "V" not in sizes else {**given, "smoothing": d.choose.choice([0.0, 0.1])}


def _eps(d: Draw, sizes: dict[str, int]) -> Given:
    return {"eps": d.choose.choice([1e-5, 1e-3])}


def _lone_changes(given: Given, *, first: int) -> float:
    """Where only one element, of axes from `first` on, is normalised: its change, whose mean is subtracted, times the
    largest factor of the norm."""
    if prod(given["x"].shape[first:]) != 1:
        return 0.0
    changes = (np.abs(numbers(given[name])).max(initial=0.0) for name in ("grad", "weight"))
    return float(prod(changes)) / float(given["eps"]) ** 0.5


def _parts_of_rows(d: Draw, sizes: dict[str, int]) -> Given:
    """Every row is in a part; the last parts may be empty."""
    sizes["P"] = max(1, sizes["P"])
    return {**_eps(d, sizes), "each": -(-sizes["M"] // sizes["P"]) + d.choose.randint(0, 3)}


def _adamw(d: Draw, sizes: dict[str, int]) -> Given:
    shape = (sizes["M"], sizes["N"])
    square = np.abs(numbers(d.normal(*shape))) + 0.01
    return {
        "parameter": d.normal(*shape), "mean": d.normal(*shape), "square": d.rounded(square),
        "keep": 0.99, "rate": 0.01, "beta1": 0.9, "beta2": 0.99, "correction": 1.5, "eps": 1e-6,
    }  # fmt: skip


def _dropped(d: Draw, sizes: dict[str, int]) -> Given:
    return {"probability": 0.25, "scale": 4 / 3, "seed": d.choose.getrandbits(40)}


def _counted(d: Draw, sizes: dict[str, int]) -> Given:
    """Numbers in the middle of bins, and outside."""
    parts, bins = sizes["P"], sizes["B"]
    values = (d.numbers.integers(-1, bins + 1, sizes["E"]) + 0.5) / bins
    values[d.numbers.random(sizes["E"]) < 0.1] = np.nan
    before = d.indices(5, parts, bins)
    length = -(-sizes["E"] // max(1, parts))
    return {"x": d.rounded(values), "length": length, "low": 0.0, "high": 1.0, "count": before, "half": 0.5}


def _ranked(d: Draw, sizes: dict[str, int]) -> Given:
    """Some are equal, some no numbers."""
    sizes["K"] = min(sizes["K"], sizes["N"])
    return {"x": d.with_specials(d.rounded(np.round(numbers(d.normal(sizes["M"], sizes["N"])), 1)))}


def _ranked_by_blocks(d: Draw, sizes: dict[str, int]) -> Given:
    """Also the largest elements of blocks of each row."""
    given = _ranked(d, sizes)
    blocks = np.pad(numbers(given["x"]), ((0, 0), (0, -sizes["N"] % _BLOCK)), constant_values=-np.inf)
    sizes["B"] = blocks.shape[1] // _BLOCK
    blocks = blocks.reshape((sizes["M"], sizes["B"], _BLOCK))
    return {**given, "largest": d.rounded(blocks.max(axis=2))}


def _placed(d: Draw, sizes: dict[str, int]) -> Given:
    return {"x": d.rounded(np.round(numbers(d.normal(sizes["A"], sizes["N"], sizes["C"])), 1))}


def _ell(d: Draw, sizes: dict[str, int]) -> Given:
    return {"column": d.indices(sizes["K"], sizes["R"], sizes["L"])}


def _rows(d: Draw, sizes: dict[str, int], **index: str) -> Given:
    """Segments, and for each of their elements an index below a size."""
    start = d.starts(sizes["R"])
    sizes["S"], sizes["E"] = len(start), int(start[-1])
    return {"start": start, **{name: d.indices(sizes[below], sizes["E"]) for name, below in index.items()}}


def _spread(d: Draw, sizes: dict[str, int]) -> Given:
    """Rows, some of them beyond the last, and columns."""
    rows = d.indices(sizes["R"] + 1, sizes["E"])
    return {"row": rows, **({"column": d.indices(sizes["K"], sizes["E"])} if "K" in sizes else {})}


def _returned(d: Draw, sizes: dict[str, int]) -> Given:
    """For each row of a table the elements of bags that it is in."""
    first, rows = d.starts(sizes["V"]), max(1, sizes["R"])
    sizes["T"], sizes["E"], sizes["R"] = len(first), int(first[-1]), rows
    start = d.starts(rows)
    sizes["S"] = len(start)
    sizes["P"] = rows
    return {
        "start": start, "first": first, "bag": d.indices(rows, sizes["E"]),
        "order": d.indices(3, sizes["E"]), "place": d.indices(3, rows, sizes["C"]),
    }  # fmt: skip


def _in_groups(d: Draw, sizes: dict[str, int]) -> Given:
    start = d.starts(sizes["G"])
    sizes["S"], sizes["E"] = len(start), int(start[-1])
    return {"row": d.indices(sizes["T"], sizes["E"]), "start": start}


def _sorted(d: Draw, sizes: dict[str, int]) -> Given:
    return {**_ranked(d, sizes), "origin": d.indices(1000, sizes["M"], sizes["N"])}


def _in_parts(d: Draw, sizes: dict[str, int]) -> Given:
    each = d.choose.randint(0, 2)
    sizes["B"] = each * sizes["P"]
    return {"each": each}


def _any_indices(d: Draw, sizes: dict[str, int]) -> Given:
    return {"index": d.indices(1000, sizes["M"], sizes["N"]) - 500}


def _any_starts(d: Draw, sizes: dict[str, int]) -> Given:
    start = d.starts(sizes["S"] - 1)
    return {"start": start[::-1].copy() if d.choose.random() < 0.3 else start}


def _seen(d: Draw, sizes: dict[str, int], of_keys: bool = False) -> Given:
    """Blocks of queries and the keys that they see, or of keys and the queries that see them; some see fewer."""
    along, across = (sizes["N"], sizes["M"]) if of_keys else (sizes["M"], sizes["N"])
    blocks = [
        [first, min(first + _BLOCK, along), begin, d.choose.choice([across, (begin + across) // 2]), 0]
        for first in range(0, along, _BLOCK)
        for begin in [d.choose.choice([0, 0, across // 3])]
    ]
    sizes["P"] = len(blocks)
    table = np.array(blocks, np.int32).reshape(len(blocks), 5)
    shape = tuple(sizes[name] for name in "BGRM")
    normaliser = np.abs(d.numbers.normal(size=shape)) + 3
    back, ahead = (d.choose.choice([3, 1 << 20]) for _ in range(2))
    given: Given = {"block": table, "scale": 0.3, "back": back, "ahead": ahead}
    return given | {"normaliser": d.rounded(normaliser, computed=True)}


def _seen_forward(d: Draw, sizes: dict[str, int]) -> Given:
    return {name: value for name, value in _seen(d, sizes).items() if name != "normaliser"}


def _seen_slopes(d: Draw, sizes: dict[str, int], of_keys: bool = False) -> Given:
    """The same with the first key of the one sequence, and room for slopes in whole blocks.

    Where slopes are the result, every block sees all queries: slopes of others are not written.
    """
    given = _seen(d, sizes, of_keys)
    if of_keys:
        given["block"][:, 2:4] = 0, sizes["M"]
    sizes["S"] = -(-sizes["N"] // _BLOCK) * _BLOCK
    given["block"] = np.pad(given["block"], ((0, 0), (0, 1)))
    return given if of_keys else {name: given[name] for name in ("block", "scale")}


def _sampled(d: Draw, sizes: dict[str, int]) -> Given:
    return {"row": d.indices(sizes["R"], sizes["E"]), "column": d.indices(sizes["C"], sizes["E"])}


def _grouped(d: Draw, sizes: dict[str, int]) -> Given:
    """Blocks of up to 32 rows each, one after another."""
    lengths = d.numbers.integers(0, 33, sizes["B"])
    first = np.cumsum([0, *lengths])[:-1].astype(np.int32) if sizes["B"] else np.zeros(0, np.int32)
    sizes["S"] = int(lengths.sum())
    return {
        "row": d.indices(sizes["T"], sizes["S"]), "group": d.indices(sizes["G"], sizes["B"]), "first": first,
        "end": (first + lengths).astype(np.int32),
    }  # fmt: skip


_SOME_ACTIVATIONS = {"activation": ("none", "relu", "gelu", "silu")}
_STEPS = {
    "step_y": (1, 1, 2), "step_x": (1, 1, 3), "above": (0, 1), "left": (0, 2), "apart_y": (1, 1, 2), "apart_x": (1,),
}  # fmt: skip
_FEW = {"B": 3, "G": 2, "R": 3, "S": 3}
_ONE = {"N": 1, "M": 1}
_READ = {"S": 1, "E": 1}
"""Sizes that follow from what is drawn."""
_NODES = {"P": 5, "Q": 6, "C": 3}

_BLOCK = 16
_BLOCKED = {"windowed": (False, True), "size": (_BLOCK,)}
_KEPT = {**_BLOCKED, "kept": (False, True)}
_HEADS = {"B": 2, "G": 2, "R": 2, "M": 65, "N": 129, "D": 33, "E": 33, "P": 1}

RECIPES: Mapping[str, Recipe] = {
    "attention_blocks": Recipe(
        least={"N": 1, "M": 1}, most=_HEADS, given=_seen_forward, constants=_KEPT, inner=True
    ),
    "attention_query_gradient": Recipe(most=_HEADS, given=_seen, constants=_KEPT, inner=True),
    "attention_key_gradients": Recipe(
        most=_HEADS, given=lambda d, sizes: _seen(d, sizes, of_keys=True), constants=_KEPT, inner=True
    ),
    "attention_slopes": Recipe(
        most=_HEADS, given=lambda d, sizes: _seen_slopes(d, sizes, of_keys=True), constants=_BLOCKED, inner=True
    ),
    "attention_slopes_times_keys": Recipe(
        most=_HEADS, given=_seen_slopes, constants={"size": (_BLOCK,), "step": (_BLOCK,)}
    ),
    "softmax_gradient": Recipe(),
    "cumulative_sum_from_the_end": Recipe(special=("x",)),
    "cumulative_sum_segments_from_the_end": Recipe(),
    "stencil_weight_gradient": Recipe(most={"B": 3}),
    "matmul_batches": Recipe(most={"B": 3}, constants=_SOME_ACTIVATIONS | {"precision": ("ieee",)}),
    "log_softmax_rows": Recipe(least=_ONE, special=("x",)),
    "log_softmax_gradient": Recipe(),
    "cross_entropy_rows": Recipe(least={"V": 1}, given=_targets),
    "cross_entropy_gradient": Recipe(least={"V": 1}, given=_targets),
    "add_up": Recipe(given=_targets, constants={"mean": (True, False)}),
    "layer_norm_gradient": Recipe(most={"P": 5}, given=_parts_of_rows, cancels=partial(_lone_changes, first=1)),
    "rms_norm_rows": Recipe(given=_eps),
    "rms_norm_gradient": Recipe(most={"P": 5}, given=_parts_of_rows),
    "group_norm_groups": Recipe(most={"B": 3, "G": 3}, given=_eps),
    "group_norm_gradient": Recipe(most={"B": 3, "G": 3}, given=_eps, cancels=partial(_lone_changes, first=2)),
    "activate_elements": Recipe(constants={"activation": ACTIVATIONS}),
    "activation_gradient": Recipe(constants={"activation": ACTIVATIONS}),
    "drop_elements": Recipe(given=_dropped),
    "rotate_pairs": Recipe(most={"B": 2, "H": 5}, given=lambda d, sizes: {"direction": d.choose.choice([1.0, -1.0])}),
    "adamw_elements": Recipe(given=_adamw),
    "reduce_middle": Recipe(least={"N": 1}, constants={"kind": ("sum", "mean", "max", "min")}),
    "find_middle": Recipe(least={"N": 1}, given=_placed, constants={"smallest": (False, True)}),
    "largest_of_blocks": Recipe(least={"L": 1}, special=("x",)),
    "largest_in_turn": Recipe(
        least={"N": 7}, most={"K": 7, "B": 1}, given=_ranked_by_blocks, constants={"length": (_BLOCK,)}
    ),
    "select_largest": Recipe(least={"N": 7}, most={"K": 7}, given=_ranked),
    "sort_rows": Recipe(least={"N": 7}, most={"N": 70, "K": 7}, given=_sorted),
    "count_in_parts": Recipe(least={"P": 1, "B": 1}, most={"E": 129, "P": 8, "B": 64}, given=_counted),
    "csr_times_dense": Recipe(
        least={"K": 1}, most={"K": 40}, given=lambda d, sizes: _rows(d, sizes, column="K"), constants=_SOME_ACTIVATIONS
    ),
    "ell_times_dense": Recipe(least={"K": 1}, most={"L": 9, "K": 40}, given=_ell, constants=_SOME_ACTIVATIONS),
    "blocks_times_dense": Recipe(
        least={"K": 1}, most=_READ | {"R": 9, "K": 9, "P": 33, "Q": 33}, constants=_SOME_ACTIVATIONS,
        given=lambda d, sizes: _rows(d, sizes, column="K"),
    ),
    "sampled_products": Recipe(least={"R": 1, "C": 1}, most={"R": 40, "C": 40}, given=_sampled),
    "bags_of_rows": Recipe(
        least={"V": 1}, most=_READ | {"V": 40}, given=lambda d, sizes: _rows(d, sizes, index="V"),
        constants={"kind": ("sum", "mean", "max")},
    ),
    "csr_value_gradient": Recipe(least={"K": 1}, most={"K": 40, "R": 40}, given=_spread),
    "ell_value_gradient": Recipe(least={"K": 1}, most={"K": 40, "L": 40}, given=_ell),
    "block_gradient": Recipe(least={"K": 1}, most={"R": 9, "K": 9, "P": 33, "Q": 33}, given=_spread),
    "spread_over_segments": Recipe(most={"R": 40}, given=_spread),
    "find_largest_of_bags": Recipe(
        least={"V": 1}, most=_READ | {"V": 40}, special=("table",), given=lambda d, sizes: _rows(d, sizes, index="V")
    ),
    "bags_gradient": Recipe(
        most=_READ | {"R": 40, "P": 1, "T": 1}, given=_returned, constants={"kind": ("sum", "mean", "max")}
    ),
    "group_weight_gradient": Recipe(least={"T": 1}, most=_READ | {"T": 40, "G": 5}, given=_in_groups),
    "convolve": Recipe(most=_FEW, constants=_STEPS | _SOME_ACTIVATIONS),
    "convolution_weight_gradient": Recipe(most=_FEW | {"Y": 9, "P": 3}, given=_in_parts, constants=_STEPS),
    "arrange_weights": Recipe(most=_FEW),
    "turn_weights": Recipe(most=_FEW),
    "channels_last": Recipe(most={"B": 3}),
    "find_classes": Recipe(least={"M": 1}, given=_targets),
    "find_extent": Recipe(least={"M": 1, "N": 1}, given=_any_indices),
    "find_fall": Recipe(least={"S": 1}, given=_any_starts),
    "channel_sums": Recipe(),
    "mass": Recipe(most=_NODES),
    "stiffness": Recipe(most=_NODES),
    "stiffness_at_nodes": Recipe(most=_NODES),
    "multiply_blocks": Recipe(
        least={"T": 1, "G": 1}, most={"S": 1, "T": 40, "G": 5, "B": 5}, given=_grouped, constants=_SOME_ACTIVATIONS
    ),
}  # fmt: skip


def recipe_of(kernel: Kernel, computed: tuple[str, ...]) -> Recipe:
    """A kernel's recipe above, or one made from the kernel's own sample inputs."""
    return RECIPES.get(kernel.name) or _from_samples(kernel, computed)


def _from_samples(kernel: Kernel, computed: tuple[str, ...]) -> Recipe:
    samples = kernel.samples
    constants = {p.name: p.default for p in kernel.parameters if p.kind == "constant"}

    def given(d: Draw, sizes: dict[str, int]) -> Given:
        for name, derived in samples.sizes.items():
            sizes[name] = derived(sizes, constants)
        found = samples.arrays(sizes, constants, d.numbers)
        arrays = {name: _drawn(d, array, name in computed) for name, array in found.items()}
        return {**samples.numbers(sizes), **arrays}

    least = {name: 1 for name in kernel.sizes if name not in samples.sizes}
    return Recipe(least=least, given=given, constants={name: (value,) for name, value in constants.items()})


def _drawn(d: Draw, array: Any, computed: bool) -> Any:
    array = np.asarray(array)
    return array.astype(np.int32) if array.dtype.kind in "iu" else d.rounded(array, computed)
