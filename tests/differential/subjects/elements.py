"""Functions of each element by itself, or of pairs of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..bounds import Bound
from ..case import Floats
from ..drawing import Draw
from ..formats import Array
from ..numbers import Number, choose, sqrt
from ..subject import Given, Results, Subject, like
from .activations import ACTIVATIONS, activated, constant, slope
from .rows import along_rows, dtype_of


def _draw_activate(draw: Draw, backward: bool) -> dict[str, Any]:
    along_rows(draw, ("grad", "x") if backward else ("x",))
    return {"activation": draw.of(*ACTIVATIONS)}


def activate(given: Given, options: Mapping[str, Any]) -> Results:
    return [like(activated(given["x"], options["activation"]), dtype_of(given))]


def activate_backward(given: Given, options: Mapping[str, Any]) -> Results:
    return [like(given["grad"] * slope(given["x"], options["activation"]), dtype_of(given))]


def _draw_dropout(draw: Draw) -> dict[str, Any]:
    along_rows(draw, ("x",))
    return {"probability": draw.of(0.0, 0.1, 0.5, 0.9, 1.0), "seed": draw.of(0, 1, -1, 42, (1 << 63) - 1, -(1 << 63))}


def philox(seed: int, count: int) -> Array:
    """The first words of Philox4x32-10 with a seed as its key, of counters from 0 on: as `vk.random_bits`."""
    mask = np.uint64(0xFFFFFFFF)
    counter = np.arange(count, dtype=np.uint64)
    words = [counter & mask, counter >> np.uint64(32), np.zeros(count, np.uint64), np.zeros(count, np.uint64)]
    key = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    for _ in range(10):
        one, other = np.uint64(0xD2511F53) * words[0], np.uint64(0xCD9E8D57) * words[2]
        words = [
            (other >> np.uint64(32)) ^ words[1] ^ np.uint64(key[0]), other & mask,
            (one >> np.uint64(32)) ^ words[3] ^ np.uint64(key[1]), one & mask,
        ]  # fmt: skip
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return words[0]


def dropout(given: Given, options: Mapping[str, Any]) -> Results:
    x, probability = given["x"], options["probability"]
    uniform = (philox(options["seed"], math.prod(x.shape)) >> np.uint64(8)).astype(np.float64) / (1 << 24)
    kept = (uniform >= float(np.float32(probability))).reshape(x.shape)
    scale = 1.0 / (1.0 - probability) if probability < 1.0 else 0.0
    return [like(choose(kept, x * constant(x, scale), 0.0), dtype_of(given))]


def _draw_rotary(draw: Draw) -> dict[str, Any]:
    batches, rows, heads, half = draw.size(5), draw.size(17), draw.size(5), draw.size(33, 1)
    dtype = draw.floating()
    other = draw.of(dtype, "float32") if dtype != "float64" else dtype
    draw.array("x", (batches, rows, heads, 2 * half), dtype)
    draw.array("cosine", (rows, half), other)
    draw.array("sine", (rows, half), other)
    draw.out((batches, rows, heads, 2 * half), dtype)
    return {"interleaved": draw.chance(0.5), "backward": draw.chance(0.5)}


def rotary_embedding(given: Given, options: Mapping[str, Any]) -> Results:
    x, half = given["x"], given["x"].shape[-1] // 2
    cosine, sine = (given[name][None, :, None, :] for name in ("cosine", "sine"))
    sine = -sine if options["backward"] else sine
    places = (slice(0, None, 2), slice(1, None, 2)) if options["interleaved"] else (slice(0, half), slice(half, None))
    one, other = (x[..., place] for place in places)
    turned = (one * cosine - other * sine, other * cosine + one * sine)
    parts = [np.zeros(x.shape, x.value.dtype), np.zeros(x.shape, x.value.dtype), np.zeros(x.shape, bool)]
    for place, number in zip(places, turned, strict=True):
        for whole, part in zip(parts, (number.value, number.error, number.loose), strict=True):
            whole[..., place] = part
    return [like(Number(parts[0], x.format, parts[1], parts[2]), dtype_of(given))]


def _draw_adamw(draw: Draw) -> dict[str, Any]:
    shape = draw.shape()
    if draw.chance(0.25):
        dtypes = ["float64"] * 4
    elif draw.chance(0.5):
        dtypes = [draw.of("float32", "float16", *(["bfloat16"] if draw.library == "torch" else []))] * 4
    else:
        dtypes = [draw.of("float32", "float16") for _ in range(4)]
    for name, dtype in zip(("parameter", "grad", "mean", "square"), dtypes, strict=True):
        role = "in" if name == "grad" else "inout"
        draw.array(name, shape, dtype, Floats(positive=name == "square"), role)
    return {
        "step": draw.of(1, 2, 10, 1000, 10**6),
        "rate": draw.of(1e-3, 0.1, 0.0),
        "betas": draw.of((0.9, 0.999), (0.0, 0.5), (0.95, 0.0)),
        "eps": draw.of(1e-8, 1e-3),
        "decay": draw.of(0.0, 1e-2),
    }


def adamw(given: Given, options: Mapping[str, Any]) -> Results:
    grad, (beta1, beta2), step = given["grad"], options["betas"], options["step"]
    m = constant(grad, beta1) * given["mean"] + constant(grad, 1.0 - beta1) * grad
    v = constant(grad, beta2) * given["square"] + constant(grad, 1.0 - beta2) * grad * grad
    correction = constant(grad, 1.0 / math.sqrt(1.0 - beta2**step))
    keep = constant(grad, 1.0 - options["rate"] * options["decay"])
    rate = constant(grad, options["rate"] / (1.0 - beta1**step))
    parameter = keep * given["parameter"] - rate * m / (sqrt(v) * correction + constant(grad, options["eps"]))
    found = {"parameter": parameter, "mean": m, "square": v}
    return [like(number, dtype_of(given, name)) for name, number in found.items()]


SUBJECTS = (
    Subject("activate", lambda draw: _draw_activate(draw, False), activate, in_place=True),
    Subject("activate_backward", lambda draw: _draw_activate(draw, True), activate_backward),
    Subject("adamw", _draw_adamw, adamw),
    Subject("dropout", _draw_dropout, dropout, in_place=True),
    Subject("rotary_embedding", _draw_rotary, rotary_embedding),
)

BOUNDS: dict[str, Bound] = {
    "activate": Bound("activation(x)", "that of its steps"),
    "activate_backward": Bound("grad · slope(x)", "that of the slope's steps · |grad|, + u·|result|"),
    "adamw": Bound(
        "m = β₁m + (1 − β₁)g; v = β₂v + (1 − β₂)g²; keep·p − rate·m / (√v·c + ε)",
        "up to 4u of each term, through root and quotient",
    ),
    "dropout": Bound("x·scale, or 0", "2u·|result|"),
    "rotary_embedding": Bound("a·cos − b·sin; b·cos + a·sin", "2u·(|a·cos| + |b·sin|)"),
}
