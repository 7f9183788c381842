"""Attention of heads and of sequences, forward and backward.

Finite values alone: keys that a query does not see may be multiplied by weights of 0, as in torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from ..bounds import GRADIENTS, Bound
from ..drawing import Draw
from ..formats import Array
from ..numbers import Number, dot, exp, log
from ..subject import FINITE, Contents, Given, Results, Subject, like
from .rows import dtype_of, keep

STEP = 64
"""Keys that are gone through at a time."""


def _draw(draw: Draw, backward: bool, sequences: bool) -> dict[str, Any]:
    batches, groups, each = draw.size(3), draw.size(3), draw.of(1, 1, 2, 4)
    depth, width, dtype = draw.size(33, 1), draw.size(33, 1), draw.floating()
    rows, keys = draw.size(65), draw.size(129)
    causal = draw.chance(0.4)
    window = draw.of(None, None, 0, 1, 3, 70, (2, None), (None, 2), (5, 0))
    if not sequences:
        rows = min(rows, keys) if causal or window is not None else rows
    heads = groups * each

    def shape(count: int, of: int, width: int) -> tuple[int, ...]:
        return (count, of, width) if sequences else (batches, of, count, width)

    result, norm = shape(rows, heads, width), (heads, rows) if sequences else (batches, heads, rows)
    if backward:
        draw.array("grad", result, dtype)
    draw.array("q", shape(rows, heads, depth), dtype)
    draw.array("k", shape(keys, groups, depth), dtype)
    draw.array("v", shape(keys, groups, width), dtype)
    if backward:
        draw.array("out", result, dtype, role="in")
        draw.array("normaliser", norm, "float64" if dtype == "float64" else "float32")
    if sequences:
        count = draw.of(1, 2, 3, 5)
        for name, most in (("q_start", rows), ("k_start", keys)):
            draw.starts(name, count + 1, most, full=True)
    if not backward:
        draw.out(result, dtype)
    return {"scale": draw.of(None, None, 0.125, 1.0), "causal": causal, "window": window}


def _band(options: Mapping[str, Any]) -> tuple[float, float]:
    window = options["window"]
    back, ahead = (window, window) if window is None or isinstance(window, int) else window
    back, ahead = (float("inf") if each is None else each for each in (back, ahead))
    return back, 0 if options["causal"] else ahead


def _seen(rows: int, keys: int, options: Mapping[str, Any]) -> Array:
    back, ahead = _band(options)
    place = np.arange(rows)[:, None] + keys - rows
    key = np.arange(keys)[None, :]
    return (key >= place - back) & (key <= place + ahead)


def _scores(q: Number, k: Number, options: Mapping[str, Any]) -> Number:
    """B × G × R × M × N of B × G × R × M × D and B × G × N × D."""
    scale = 1.0 / max(1, q.shape[-1]) ** 0.5 if options["scale"] is None else options["scale"]
    return dot("bgrmd,bgnd->bgrmn", q, k) * Number(np.asarray(scale), q.format, scale * q.format.unit)


def _attend(
    q: Number, k: Number, v: Number, seen: Array, options: Mapping[str, Any], dtype: str
) -> tuple[Number, Number]:
    """The result, and the normaliser: log Σ exp."""
    if not k.shape[2]:
        none = Number(np.full(q.shape[:-1], -np.inf), q.format)
        return Number(np.zeros((*q.shape[:-1], v.shape[-1])), q.format), none
    score = _scores(q, k, options)
    hidden = Number(np.where(seen, score.value, -np.inf), q.format, score.error, score.loose & seen)
    peak = hidden.max(-1)
    none = ~seen.any(-1)
    base = Number(np.where(none, 0, peak.value), q.format, peak.error, peak.loose)
    steps = 4 * (k.shape[2] // STEP + 1) * q.format.unit
    weight = exp(hidden - keep(base))
    weight = Number(weight.value, q.format, weight.error + steps * weight.value, weight.loose).rounded(dtype)
    total = weight.sum(-1)
    result = dot("bgrmn,bgne->bgrme", weight, v) / keep(total)
    normaliser = base + log(total)
    normaliser = Number(np.where(none, -np.inf, normaliser.value), q.format, normaliser.error, normaliser.loose & ~none)
    empty = np.broadcast_to(none[..., None], result.shape)
    return Number(np.where(empty, 0, result.value), q.format, result.error, result.loose & ~empty), normaliser


def _heads(number: Any, groups: int) -> Any:
    """B × H × M × … as B × G × R × M × …."""
    shape = number.shape
    return number.reshape(shape[0], groups, shape[1] // max(1, groups), *shape[2:])


def _gradients(
    grad: Number, q: Number, k: Number, v: Number, out: Number, normaliser: Number, seen: Array,
    options: Mapping[str, Any], dtype: str,
) -> tuple[Number, Number, Number]:  # fmt: skip
    """Of q as it is, of k and v: B × G × N × …."""
    scale = 1.0 / max(1, q.shape[-1]) ** 0.5 if options["scale"] is None else options["scale"]
    factor = Number(np.asarray(scale), q.format, scale * q.format.unit)
    mean = (grad * out).sum(-1)
    weight = exp(_scores(q, k, options) - keep(normaliser))
    mask = np.broadcast_to(seen, weight.shape)
    weight = Number(np.where(mask, weight.value, 0), q.format, np.where(mask, weight.error, 0), weight.loose & mask)
    slopes = (weight * (dot("bgrme,bgne->bgrmn", grad, v) - keep(mean))).rounded(dtype)
    slopes = Number(np.where(mask, slopes.value, 0), q.format, np.where(mask, slopes.error, 0), slopes.loose & mask)
    of_q = dot("bgrmn,bgnd->bgrmd", slopes, k) * factor
    of_k = dot("bgrmn,bgrmd->bgnd", slopes, q) * factor
    return of_q, of_k, dot("bgrmn,bgrme->bgne", weight.rounded(dtype), grad)


def attention_forward(given: Given, options: Mapping[str, Any]) -> Results:
    q, k, v, dtype = given["q"], given["k"], given["v"], dtype_of(given, "q")
    seen = _seen(q.shape[2], k.shape[2], options)
    result, normaliser = _attend(_heads(q, k.shape[1]), k, v, seen, options, dtype)
    result, normaliser = result.reshape(*q.shape[:3], v.shape[3]), normaliser.reshape(*q.shape[:3])
    return [like(result, dtype), like(normaliser, q.format.name)]


def attention(given: Given, options: Mapping[str, Any]) -> Results:
    return attention_forward(given, options)[:1]


def attention_backward(given: Given, options: Mapping[str, Any]) -> Results:
    q, k, v, dtype = given["q"], given["k"], given["v"], dtype_of(given, "q")
    seen = _seen(q.shape[2], k.shape[2], options)
    grad, query, out, normaliser = (_heads(given[name], k.shape[1]) for name in ("grad", "q", "out", "normaliser"))
    of_q, of_k, of_v = _gradients(grad, query, k, v, out, normaliser, seen, options, dtype)
    return [like(of_q.reshape(q.shape), dtype), like(of_k, dtype), like(of_v, dtype)]


def _normaliser(q: Array, k: Array, seen: Array, scale: float | None) -> Array:
    """log Σ exp of B × H × M × D and B × G × N × D; 0 where nothing is seen."""
    groups = k.shape[1]
    query = q.reshape(q.shape[0], groups, q.shape[1] // max(1, groups), *q.shape[2:]).astype(np.float64)
    score = np.einsum("bgrmd,bgnd->bgrmn", query, k.astype(np.float64))
    score = np.where(seen, score * (1.0 / max(1, q.shape[-1]) ** 0.5 if scale is None else scale), -np.inf)
    peak = score.max(-1, initial=-1e30)
    found = np.where(seen.any(-1), peak + np.log(np.exp(score - peak[..., None]).sum(-1)), 0.0)
    return found.reshape(q.shape[:3])


def prepare_backward(given: Contents, options: Mapping[str, Any], random: np.random.Generator) -> None:
    """The normaliser that the forward function gives, nearly."""
    shape = given["normaliser"].shape
    q, k = given["q"], given["k"]
    full = (max(shape[0], q.shape[0], k.shape[0]), max(shape[1], q.shape[1]), max(shape[2], q.shape[2]))
    query = np.broadcast_to(q, (*full, max(q.shape[3], k.shape[3])))
    key = np.broadcast_to(k, (full[0], k.shape[1], k.shape[2], query.shape[3]))
    if full[1] % max(1, key.shape[1]) or 0 in query.shape:
        return
    found = _normaliser(query, key, _seen(full[2], key.shape[2], options), options["scale"])
    given["normaliser"] = found[: shape[0], : shape[1], : shape[2]]


def _sequences(given: Given) -> list[tuple[slice, slice]]:
    queries, keys = (
        [slice(first, last) for first, last in pairwise(given[name].astype(int))] for name in ("q_start", "k_start")
    )
    return list(zip(queries, keys, strict=True))


def _batch(number: Number, rows: slice) -> Number:
    return number[rows].swapaxes(0, 1)[None]


def _assembled(parts: list[tuple[slice, Number]], shape: tuple[int, ...], like_: Number) -> Number:
    arrays = [np.zeros(shape, like_.value.dtype), np.zeros(shape, like_.value.dtype), np.zeros(shape, bool)]
    for rows, part in parts:
        for array, values in zip(arrays, (part.value, part.error, part.loose), strict=True):
            array[rows] = values
    return Number(arrays[0], like_.format, arrays[1], arrays[2])


def attention_of_sequences_forward(given: Given, options: Mapping[str, Any]) -> Results:
    q, k, v, dtype = given["q"], given["k"], given["v"], dtype_of(given, "q")
    results, normalisers = [], []
    for rows, keys in _sequences(given):
        count = rows.stop - rows.start
        seen = _seen(count, keys.stop - keys.start, options)
        queries = _heads(_batch(q, rows), k.shape[1])
        result, normaliser = _attend(queries, _batch(k, keys), _batch(v, keys), seen, options, dtype)
        results.append((rows, result.reshape(q.shape[1], count, v.shape[2]).swapaxes(0, 1)))
        normalisers.append((rows, normaliser.reshape(q.shape[1], count).swapaxes(0, 1)))
    result = _assembled(results, (*q.shape[:2], v.shape[2]), q)
    normaliser = _assembled(normalisers, q.shape[:2], q).swapaxes(0, 1)
    return [like(result, dtype), like(normaliser, q.format.name)]


def attention_of_sequences(given: Given, options: Mapping[str, Any]) -> Results:
    return attention_of_sequences_forward(given, options)[:1]


def attention_of_sequences_backward(given: Given, options: Mapping[str, Any]) -> Results:
    q, k, v, dtype = given["q"], given["k"], given["v"], dtype_of(given, "q")
    groups, found = k.shape[1], ([], [], [])  # type: tuple[list[Any], list[Any], list[Any]]
    for rows, keys in _sequences(given):
        seen = _seen(rows.stop - rows.start, keys.stop - keys.start, options)
        grad, query, out = (_heads(_batch(given[name], rows), groups) for name in ("grad", "q", "out"))
        normaliser = _heads(given["normaliser"][:, rows][None], groups)
        key, value = _batch(k, keys), _batch(v, keys)
        of_q, of_k, of_v = _gradients(grad, query, key, value, out, normaliser, seen, options, dtype)
        of_q = of_q.reshape(q.shape[1], rows.stop - rows.start, q.shape[2]).swapaxes(0, 1)
        found[0].append((rows, of_q))
        found[1].append((keys, of_k[0].swapaxes(0, 1)))
        found[2].append((keys, of_v[0].swapaxes(0, 1)))
    return [like(_assembled(parts, each.shape, each), dtype) for parts, each in zip(found, (q, k, v), strict=True)]


WITHOUT = (*FINITE, "largest", "large", "cancelling", "spread")

SUBJECTS = (
    Subject("attention", lambda draw: _draw(draw, False, False), attention, without=FINITE),
    Subject(
        "attention_backward", lambda draw: _draw(draw, True, False), attention_backward, prepare_backward,
        without=WITHOUT,
    ),
    Subject("attention_forward", lambda draw: _draw(draw, False, False), attention_forward, without=FINITE),
    Subject("attention_of_sequences", lambda draw: _draw(draw, False, True), attention_of_sequences, without=FINITE),
    Subject(
        "attention_of_sequences_forward", lambda draw: _draw(draw, False, True), attention_of_sequences_forward,
        without=FINITE,
    ),
    Subject(
        "attention_of_sequences_backward", lambda draw: _draw(draw, True, True), attention_of_sequences_backward,
        without=WITHOUT,
    ),
)  # fmt: skip

BOUNDS: dict[str, Bound] = {
    "attention": Bound(
        "p = exp(s − max s), in products and with a band rounded to v's dtype; Σ p·v / Σ p; s = scale·q·k",
        "(2·error of s + u·|s − max s| + error of exp + one rounding of p + 2·S(N)·u + 4u for every 64 keys)"
        " · Σ p|v| / Σ p",
    ),
    "attention_backward": Bound(
        "p = exp(s − normaliser); p·(grad·v − mean), both rounded to k's and v's dtype; products of those", GRADIENTS
    ),
    "attention_forward": Bound("as attention; max s + log Σ p", "as attention; error of s + log's + S(N)·u + rounding"),
    "attention_of_sequences": Bound("attention of each sequence", "as attention"),
    "attention_of_sequences_backward": Bound("attention_backward of each sequence", "as attention_backward"),
    "attention_of_sequences_forward": Bound("attention_forward of each sequence", "as attention_forward"),
}
