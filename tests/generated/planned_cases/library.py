"""Calls of every kernel of the library, with what they must give in float64."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np

from tests.ir.interpret.ttir.library import numbers, rounded
from vkernels.compiler.protocols import Signature
from vkernels.library.catalogue import CATALOGUE

from .as_written import drawn_as_written
from .drawing import DTYPES, Array, Draw, Drawn
from .recipes import Recipe, recipe_of


def _softmax(d: Draw) -> Drawn:
    x = d.with_specials(d.normal(d.size("M"), d.size("N")))
    e = np.exp(numbers(x) - np.max(numbers(x), 1, keepdims=True, initial=-np.inf))
    return Drawn({"x": x}, {"out": e / e.sum(1, keepdims=True)}, 64, floor=1e-4)


def _layer_norm(d: Draw) -> Drawn:
    rows, length = d.size("M"), d.size("N")
    x, weight, bias = d.normal(rows, length), d.normal(length), d.normal(length)
    centred = numbers(x) - numbers(x).sum(1, keepdims=True) / max(1, length)
    deviation = np.sqrt((centred**2).sum(1, keepdims=True) / max(1, length) + 1e-5)
    normal = centred / deviation
    arguments = {"x": x, "weight": weight, "bias": bias, "eps": 1e-5}
    cancelled = 1 + abs(numbers(x)) / deviation * (1 + abs(numbers(weight)))  # where a row's numbers are close
    return Drawn(arguments, {"out": normal * numbers(weight) + numbers(bias)}, 64 + length, cancelled)


def _summarise_exponentials(d: Draw) -> Drawn:
    x = d.with_specials(d.normal(d.size("M"), d.size("S"), d.size("L")))
    peak = np.max(numbers(x), 2, initial=-np.inf)
    total = np.exp(numbers(x) - np.where(peak == -np.inf, 0, peak)[..., None]).sum(2)
    return Drawn({"x": x}, {"peak": peak, "total": total}, 64)


def _normalise_exponentials(d: Draw) -> Drawn:
    rows, segments, length = d.size("M"), d.size("S"), d.size("L")
    x, peak = d.normal(rows, segments, length), d.normal(rows, segments, computed=True)
    total = rounded(1 + abs(numbers(d.normal(rows, segments, computed=True))), DTYPES[d.computed])
    largest = np.max(numbers(peak), 1, keepdims=True, initial=-np.inf)
    all_ = (numbers(total) * np.exp(numbers(peak) - largest)).sum(1)
    expected = np.exp(numbers(x) - largest[..., None]) / all_[:, None, None]
    return Drawn({"x": x, "peak": peak, "total": total}, {"out": expected}, 64)


def _summarise_moments(d: Draw) -> Drawn:
    rows, segments, length = d.size("M"), d.size("S"), d.size("L", least=1)
    x = d.normal(rows, segments, length)
    mean = numbers(x).mean(2)
    squares = ((numbers(x) - mean[..., None]) ** 2).sum(2)
    return Drawn({"x": x}, {"mean": mean, "squares": squares}, 64 + length)


def _normalise_moments(d: Draw) -> Drawn:
    rows, segments, length = d.size("M"), d.size("S"), d.size("L")
    x, mean = d.normal(rows, segments, length), d.normal(rows, segments, computed=True)
    squares = rounded(length * (0.5 + abs(d.numbers.normal(size=(rows, segments)))), DTYPES[d.computed])
    weight, bias = d.normal(segments, length), d.normal(segments, length)
    middle = numbers(mean).sum(1, keepdims=True) / max(1, segments)
    variance = (numbers(squares) / max(1, length) + (numbers(mean) - middle) ** 2).sum(1) / max(1, segments)
    normal = (numbers(x) - middle[..., None]) / np.sqrt(variance + 1e-5)[:, None, None]
    arguments = {"x": x, "mean": mean, "squares": squares, "weight": weight, "bias": bias, "eps": 1e-5}
    return Drawn(arguments, {"out": normal * numbers(weight) + numbers(bias)}, 128)


def _activated(values: Array, activation: str) -> Array:
    if activation == "relu":
        return np.maximum(values, 0)
    if activation == "gelu":
        from math import erf

        return 0.5 * values * (1 + np.vectorize(erf, otypes=[np.float64])(values / np.sqrt(2)))
    if activation == "sigmoid":
        return 1 / (1 + np.exp(-values))
    return np.tanh(values) if activation == "tanh" else values


def _matmul(d: Draw) -> Drawn:
    rows, columns, inner = d.size("M"), d.size("N"), d.size("K")
    a, b, bias = d.normal(rows, inner), d.normal(inner, columns), d.normal(columns)
    product = numbers(a) @ numbers(b) + numbers(bias)
    out = _activated(product, d.constants["activation"])
    return Drawn({"a": a, "b": b, "bias": bias}, {"out": out}, 64 + 2 * inner)


def _mlp(d: Draw) -> Drawn:
    m, k, h, n = (d.size(name) for name in "MKHN")
    x, w1, b1, w2, b2 = d.normal(m, k), d.normal(k, h, scale=0.5), d.normal(h), d.normal(h, n, scale=0.5), d.normal(n)
    hidden = _activated(numbers(x) @ numbers(w1) + numbers(b1), d.constants["activation"])
    arguments = {"x": x, "w1": w1, "b1": b1, "w2": w2, "b2": b2}
    return Drawn(
        arguments,
        {"out": hidden @ numbers(w2) + numbers(b2)},
        64 + 4 * (h * max(1, k)) ** 0.5 + 2 * (h + k),
        inner=True,
    )


def _attention(d: Draw) -> Drawn:
    heads = [d.size(name, most=2) for name in "BGR"]
    rows = d.size("M")
    causal = d.constants["causal"]
    keys, depth, values = d.size("N", least=rows if causal else 0), d.size("D"), d.size("E")
    q = d.normal(*heads, depth, rows)
    k, v = d.normal(*heads[:2], keys, depth), d.normal(*heads[:2], keys, values)
    score = 0.3 * np.einsum("bgrdm,bgnd->bgrmn", numbers(q), numbers(k))
    if causal:
        score = np.where(np.tri(rows, keys, keys - rows, dtype=bool), score, -np.inf)
    e = np.exp(score - score.max(-1, keepdims=True, initial=-np.inf))
    out = np.einsum("bgrmn,bgne->bgrem", e, numbers(v)) / e.sum(-1)[..., None, :]
    return Drawn({"q": q, "k": k, "v": v, "scale": 0.3}, {"out": out}, 32 + 2 * depth, inner=True)


def _segments(d: Draw, columns: bool) -> Drawn:
    rows = d.size("R")
    start = d.starts(rows)
    more = (d.size("C"),) if columns else ()
    value = d.normal(int(start[-1]), *more)
    sums = [numbers(value[a:b]).sum(0) for a, b in pairwise(start)]
    return Drawn({"start": start, "value": value}, {"out": np.reshape(sums, (rows, *more)).astype(np.float64)}, 256)


def _cumulative_sum(d: Draw) -> Drawn:
    x = d.with_specials(d.normal(d.size("M"), d.size("N")))
    return Drawn(
        {"x": x},
        {"out": numbers(x).cumsum(1)},
        8 + 4 * float(np.nan_to_num(abs(numbers(x)), posinf=0).max(initial=1)) * x.shape[1] ** 0.5,
    )


def _sum_of_each_segment(d: Draw) -> Drawn:
    x = d.normal(d.size("M"), d.size("S"), d.size("L"))
    return Drawn({"x": x}, {"total": numbers(x).sum(2)}, 64 + 2 * x.shape[2])


def _cumulative_sum_segments(d: Draw) -> Drawn:
    x = d.normal(d.size("M"), d.size("S"), d.size("L"))
    total = d.normal(*x.shape[:2], computed=True)
    before = np.cumsum(numbers(total), 1) - numbers(total)
    expected = numbers(x).cumsum(2) + before[..., None]
    return Drawn({"x": x, "total": total}, {"out": expected}, 64 + 2 * (x.shape[1] + x.shape[2]))


def _stencil(d: Draw, square: bool) -> Drawn:
    batch, rows, columns = d.size("B", most=3), d.size("M"), d.size("N")
    x, weight = d.normal(batch, rows, columns), d.normal(*((3, 3) if square else (5,)))
    around = numbers(weight) if square else np.zeros((3, 3))
    if not square:
        around[[0, 1, 1, 1, 2], [1, 0, 1, 2, 1]] = numbers(weight)
    padded = np.pad(numbers(x), ((0, 0), (1, 1), (1, 1)))
    places = [(a, b) for a in range(3) for b in range(3)]
    out = sum(around[a, b] * padded[:, a : a + rows, b : b + columns] for a, b in places)
    return Drawn({"x": x, "weight": weight}, {"out": np.asarray(out)}, 32)


def _spdnn(d: Draw) -> Drawn:
    neurons, images = d.size("N", least=1), d.size("I")
    layers, inputs = d.choose.choice([0, 1, 2, 3]), d.choose.choice([0, 1, 2, 4])
    y = rounded(d.numbers.integers(0, 2, (neurons, images)).astype(np.float64), DTYPES[d.dtype])
    column = d.indices(neurons, layers, neurons, inputs)
    weight = rounded(d.numbers.integers(-2, 3, (layers, neurons, inputs)) / 2, DTYPES[d.dtype])
    features = numbers(y)
    for layer in range(layers):
        total = sum(
            (numbers(weight)[layer, :, k, None] * features[column[layer, :, k]] for k in range(inputs)),
            np.zeros_like(features),
        )
        features = np.clip(total - 0.25, 0, 32)
    arguments = {"y": y, "column": column, "weight": weight, "bias": -0.25}
    return Drawn(arguments, {"out": features, "peak": features.max(0)}, 8)


def _sparse_layers(d: Draw) -> Drawn:
    neurons, images = d.size("N", least=1), d.size("I")
    return _layers_of(d, neurons, neurons, images, d.choose.choice([0, 1, 2, 3]))


def _equal_weight_layers(d: Draw) -> Drawn:
    neurons, images = d.size("N", least=1), d.size("I")
    return _layers_of(d, neurons, neurons, images, d.choose.choice([0, 1, 2, 3]), one_weight=True)


def _sparse_layer(d: Draw) -> Drawn:
    outputs, images = d.size("N", least=1), d.size("I")
    drawn = _layers_of(d, d.choose.choice([1, 3, 50]), outputs, images, 1)
    one = {name: drawn.arguments[name][0] for name in ("column", "weight", "bias")}
    return Drawn(drawn.arguments | one, drawn.expected, drawn.roundings)


def _layers_of(d: Draw, inputs: int, outputs: int, images: int, layers: int, one_weight: bool = False) -> Drawn:
    """Numbers that dtypes hold, and sums that they nearly do."""
    width, dtype = d.choose.choice([0, 1, 2, 4]), DTYPES[d.dtype]
    y = rounded(d.numbers.integers(0, 2, (inputs, images)).astype(np.float64), dtype)
    column = d.indices(inputs, layers, outputs, width)
    weight = rounded(d.numbers.integers(-2, 3, (layers, outputs) if one_weight else column.shape) / 2, dtype)
    bias = rounded(d.numbers.integers(-4, 3, (layers, outputs)) / 4, dtype)
    features, each = (
        numbers(y),
        np.broadcast_to(numbers(weight)[..., None] if one_weight else numbers(weight), column.shape),
    )
    for layer in range(layers):
        total = np.zeros((outputs, images)) + numbers(bias)[layer, :, None]
        for k in range(width):
            total += each[layer, :, k, None] * features[column[layer, :, k]]
        features = np.clip(total, 0, 2.5)
    arguments = {"y": y, "column": column, "weight": weight, "bias": bias, "cap": 2.5}
    return Drawn(arguments, {"out": features, "peak": features.max(0)}, 8)


def _block_layers(d: Draw) -> Drawn:
    blocks, images = d.size("G", least=1), d.size("I")
    return _blocks_of(d, None, blocks, images, d.choose.choice([0, 1, 2, 3]))


def _block_layer(d: Draw) -> Drawn:
    drawn = _blocks_of(d, d.choose.choice([1, 3, 50]), d.size("G", least=1), d.size("I"), 1)
    one = {name: drawn.arguments[name][0] for name in ("column", "weight", "bias")}
    return Drawn(drawn.arguments | one, {"out": drawn.expected["out"]}, drawn.roundings)


def _blocks_of(d: Draw, inputs: int | None, blocks: int, images: int, layers: int) -> Drawn:
    """Numbers that dtypes hold, and sums that they nearly do; as many inputs as outputs unless it is said."""
    height, width, dtype = d.choose.choice([1, 2, 3, 4]), d.choose.choice([0, 1, 2, 4]), DTYPES[d.dtype]
    shape = (blocks, height, images)
    y = d.numbers.integers(0, 2, shape if inputs is None else (inputs, images)).astype(np.float64)
    column = d.indices(inputs or blocks * height, layers, blocks, width)
    weight = rounded(d.numbers.integers(-2, 3, (layers, blocks, height, width)) / 2, dtype)
    bias = rounded(d.numbers.integers(-4, 3, (layers, blocks, height)) / 4, dtype)
    features = y if inputs is not None else y.reshape(blocks * height, images)
    for layer in range(layers):
        total = np.einsum("gpq,gqi->gpi", numbers(weight)[layer], features[column[layer]])
        features = np.clip(total + numbers(bias)[layer, :, :, None], 0, 2.5).reshape(blocks * height, images)
    arguments = {"y": rounded(y, dtype), "column": column, "weight": weight, "bias": bias, "cap": 2.5}
    return Drawn(arguments, {"out": features.reshape(shape), "peak": features.max(0)}, 8)


def _distance_to_state(d: Draw) -> Drawn:
    y = d.normal(d.size("N", least=1), d.size("I"))
    state = d.normal(y.shape[0])
    expected = np.abs(numbers(y) - numbers(state)[:, None]).max(axis=0)
    return Drawn({"y": y, "state": state}, {"out": expected}, 8, 8.0)


def _take_columns(d: Draw) -> Drawn:
    rows, columns, among = d.size("N"), d.size("I"), d.choose.choice([1, 3, 50])
    y, column = d.normal(rows, among), d.indices(among, columns)
    return Drawn({"y": y, "column": column}, {"out": numbers(y)[:, column]}, 0)


_DRAWS: Mapping[str, Callable[[Draw], Drawn]] = {
    "softmax_rows": _softmax,
    "layer_norm_rows": _layer_norm,
    "summarise_exponentials": _summarise_exponentials,
    "normalise_exponentials": _normalise_exponentials,
    "summarise_moments": _summarise_moments,
    "normalise_moments": _normalise_moments,
    "matmul_bias": _matmul,
    "mlp_rows": _mlp,
    "attention_rows": _attention,
    "sum_segments": lambda d: _segments(d, columns=False),
    "sum_segment_rows": lambda d: _segments(d, columns=True),
    "cumulative_sum_rows": _cumulative_sum,
    "sum_of_each_segment": _sum_of_each_segment,
    "cumulative_sum_segments": _cumulative_sum_segments,
    "stencil_cross": lambda d: _stencil(d, square=False),
    "stencil_square": lambda d: _stencil(d, square=True),
    "spdnn": _spdnn,
    "sparse_layers": _sparse_layers,
    "equal_weight_layers": _equal_weight_layers,
    "sparse_layer": _sparse_layer,
    "block_layers": _block_layers,
    "block_layer": _block_layer,
    "distance_to_state": _distance_to_state,
    "take_columns": _take_columns,
}
_ENTRIES = {entry.name: entry for entry in CATALOGUE}
KERNELS = tuple(name for name, entry in _ENTRIES.items() if not DTYPES.keys().isdisjoint(entry.dtypes))
"""Those of floats; `test_integers.py` draws integers."""
_CONSTANTS: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "matmul_bias": {"activation": ("none", "none", "relu", "gelu", "sigmoid", "tanh")},
    "mlp_rows": {"activation": ("relu", "none", "tanh")},
    "attention_rows": {"causal": (False, True)},
}


@dataclass(frozen=True)
class LibraryKernel:
    """A kernel of the library for one dtype and some constants."""

    name: str
    dtype: str
    constants: tuple[tuple[str, Any], ...] = ()

    def draw(self, choose: random.Random, room: int, sizes: Mapping[str, int], multiples: Mapping[str, int]) -> Drawn:
        """A call's arguments, those sizes given or multiples of numbers, others random."""
        computed = "float32" if DTYPES[self.dtype](0).itemsize == 2 else self.dtype
        d = Draw(choose, self.dtype, computed, room, sizes, multiples, dict(self.constants))
        with np.errstate(all="ignore"):
            if self.name in _DRAWS:
                return _DRAWS[self.name](d)
            return drawn_as_written(_recipe(self.name), self.function, _ENTRIES[self.name].computed, d)

    def dtype_of(self, parameter: Any) -> str:
        """Of a tensor parameter."""
        if self.dtype not in parameter.dtypes:
            return "int32"
        if parameter.name in _ENTRIES[self.name].computed and DTYPES[self.dtype](0).itemsize == 2:
            return "float32"
        return self.dtype

    @property
    def function(self) -> Any:
        return _kernel(self.name)

    def build(self) -> Any:
        """The kernel's module."""
        parameters = self.function.parameters
        return self.function.build(
            Signature(
                tuple((p.name, self.dtype_of(p)) for p in parameters if p.kind == "tensor"),
                tuple((p.name, p.dtypes[0]) for p in parameters if p.kind == "scalar"),
                self.constants,
            )
        )


def _kernel(name: str) -> Any:
    return getattr(import_module(_ENTRIES[name].module), name)


def constants_of(name: str) -> Mapping[str, tuple[Any, ...]]:
    """Values of each constant of a kernel, to choose from."""
    return _CONSTANTS.get(name, {}) if name in _DRAWS else _recipe(name).constants


def _recipe(name: str) -> Recipe:
    return recipe_of(_kernel(name), _ENTRIES[name].computed)


def random_library_kernel(choose: random.Random) -> LibraryKernel:
    name = choose.choice(KERNELS)
    dtype = choose.choice([d for d in DTYPES if d in _ENTRIES[name].dtypes])
    constants = tuple((key, choose.choice(among)) for key, among in constants_of(name).items())
    return LibraryKernel(name, dtype, constants)
