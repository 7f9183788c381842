"""Normalisations over rows and groups, forward and backward."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..bounds import NORMAL, Bound
from ..drawing import Draw
from ..numbers import Number, choose, rsqrt, sqrt
from ..subject import Given, Results, Subject, like
from .rows import along_rows, dtype_of, keep

EPS = (1e-5, 1e-5, 1e-6, 1e-3, 0.0)


def _draw_rows(draw: Draw, backward: bool, bias: bool) -> dict[str, Any]:
    shape, dtype = draw.shape(), draw.floating()
    if backward:
        draw.array("grad", shape, dtype)
    draw.array("x", shape, dtype)
    for name in ("weight", "bias") if bias and not backward else ("weight",):
        if draw.chance(0.6):
            draw.array(name, shape[-1:], dtype)
    if not backward:
        draw.out(shape, dtype)
    return {"eps": draw.of(*EPS)}


def _scaled(number: Number, weight: Number | None) -> Number:
    return number * (weight if weight is not None else 1.0)


def _normal(x: Number, eps: float, centre: bool, axis: Any = -1) -> tuple[Number, Number]:
    """x centred and divided by its deviation, and what it was multiplied by."""
    centred = x - _keep_all(x.mean(axis), axis) if centre else x
    variance = (centred * centred).mean(axis)
    unit = x.format.unit
    factor = _keep_all(rsqrt(variance + Number(np.asarray(eps), x.format, eps * unit)), axis)
    return centred * factor, factor


def _keep_all(number: Number, axis: Any) -> Number:
    return number.mapped(lambda array: np.expand_dims(array, axis))


def layer_norm(given: Given, options: Mapping[str, Any]) -> Results:
    result, _ = _normal(given["x"], options["eps"], True)
    result = _scaled(result, given["weight"])
    return [like(result + (given["bias"] if given["bias"] is not None else 0.0), dtype_of(given))]


def rms_norm(given: Given, options: Mapping[str, Any]) -> Results:
    result, _ = _normal(given["x"], options["eps"], False)
    return [like(_scaled(result, given["weight"]), dtype_of(given))]


def _gradients(given: Given, options: Mapping[str, Any], centre: bool) -> Results:
    x, grad, dtype = given["x"], given["grad"], dtype_of(given)
    normal, factor = _normal(x, options["eps"], centre)
    weighed = _scaled(grad, given["weight"])
    inner = weighed - keep(weighed.mean(-1)) if centre else weighed
    of_x = factor * (inner - normal * keep((weighed * normal).mean(-1)))
    columns = (math.prod(x.shape[:-1]), x.shape[-1])
    of_weight = (grad * normal).reshape(columns).sum(0)
    results: Results = [like(of_x, dtype), like(of_weight, dtype)]
    return [*results, like(grad.reshape(columns).sum(0), dtype)] if centre else results


def _draw_groups(draw: Draw, backward: bool) -> dict[str, Any]:
    groups = draw.of(1, 1, 2, 3, 5)
    channels = groups * draw.of(1, 1, 2, 3, 8)
    more = draw.of((), (draw.long(channels),), (draw.size(17), draw.size(17)))
    shape, dtype = (draw.size(9), channels, *more), draw.floating()
    if backward:
        draw.array("grad", shape, dtype)
    draw.array("x", shape, dtype)
    for name in ("weight",) if backward else ("weight", "bias"):
        if draw.chance(0.6):
            draw.array(name, (channels,), dtype)
    if not backward:
        draw.out(shape, dtype)
    return {"groups": groups, "eps": draw.of(*EPS)}


def _of_channels(number: Number | None, groups: int) -> Number | None:
    return None if number is None else number.reshape(groups, -1)[None, :, :, None]


def _cut(x: Number, groups: int) -> Number:
    shape = x.shape
    return x.reshape(shape[0], groups, shape[1] // groups, math.prod(shape[2:]))


def group_norm(given: Given, options: Mapping[str, Any]) -> Results:
    x, groups = given["x"], options["groups"]
    result, _ = _normal(_cut(x, groups), options["eps"], True, (2, 3))
    result = _scaled(result, _of_channels(given["weight"], groups))
    bias = _of_channels(given["bias"], groups)
    return [like((result + (0.0 if bias is None else bias)).reshape(x.shape), dtype_of(given))]


def group_norm_backward(given: Given, options: Mapping[str, Any]) -> Results:
    x, groups, dtype = given["x"], options["groups"], dtype_of(given)
    cut, grad = _cut(x, groups), _cut(given["grad"], groups)
    normal, factor = _normal(cut, options["eps"], True, (2, 3))
    change = _scaled(grad, _of_channels(given["weight"], groups))
    axes = (2, 3)
    inner = change - _keep_all(change.mean(axes), axes) - normal * _keep_all((change * normal).mean(axes), axes)
    of_weight, of_bias = (grad * normal).sum((0, 3)), grad.sum((0, 3))
    return [
        like((factor * inner).reshape(x.shape), dtype), like(of_weight.reshape(-1), dtype),
        like(of_bias.reshape(-1), dtype),
    ]  # fmt: skip


def _draw_l2(draw: Draw, names: tuple[str, ...]) -> dict[str, Any]:
    along_rows(draw, names)
    return {"eps": draw.of(1e-12, 1e-12, 1e-3, 0.0)}


def _length(x: Number, eps: float) -> tuple[Number, Number]:
    """The length of rows, and what they are divided by."""
    norm = keep(sqrt((x * x).sum(-1)))
    return norm, norm.at_least(eps) + Number(0.0, x.format, eps * x.format.unit)


def l2_normalize(given: Given, options: Mapping[str, Any]) -> Results:
    x = given["x"]
    return [like(x / _length(x, options["eps"])[1], dtype_of(given))]


def l2_normalize_backward(given: Given, options: Mapping[str, Any]) -> Results:
    x, grad, eps = given["x"], given["grad"], options["eps"]
    norm, length = _length(x, eps)
    normal = x / length
    unsure = np.abs(norm.value - eps) <= norm.error
    along = choose(norm.value < eps, norm * 0.0, keep((grad * normal).sum(-1)), unsure)
    return [like((grad - normal * along) / length, dtype_of(given, "grad"))]


SUBJECTS = (
    Subject("layer_norm", lambda draw: _draw_rows(draw, False, True), layer_norm),
    Subject("layer_norm_backward", lambda draw: _draw_rows(draw, True, True),
            lambda given, options: _gradients(given, options, True)),
    Subject("rms_norm", lambda draw: _draw_rows(draw, False, False), rms_norm),
    Subject("rms_norm_backward", lambda draw: _draw_rows(draw, True, False),
            lambda given, options: _gradients(given, options, False)),
    Subject("l2_normalize", lambda draw: _draw_l2(draw, ("x",)), l2_normalize, in_place=True),
    Subject("l2_normalize_backward", lambda draw: _draw_l2(draw, ("grad", "x")), l2_normalize_backward),
    Subject("group_norm", lambda draw: _draw_groups(draw, False), group_norm),
    Subject("group_norm_backward", lambda draw: _draw_groups(draw, True), group_norm_backward),
)  # fmt: skip

BOUNDS: dict[str, Bound] = {
    "l2_normalize": Bound("x / max(√Σx², ε)", "(S(n)/2 + 2)·u·|result|"),
    "l2_normalize_backward": Bound(
        "(g − y·Σ g·y) / max(√Σx², ε), y = x / max(√Σx², ε)", "that of y, and S(n)·u·Σ|g·y|·|y|, each over the length"
    ),
    "group_norm": Bound("(x − mean) / √(mean((x − mean)²) + ε)·weight + bias", NORMAL),
    "group_norm_backward": Bound("as layer_norm_backward, over groups", "as layer_norm_backward"),
    "layer_norm": Bound("(x − mean) / √(mean((x − mean)²) + ε)·weight + bias", NORMAL),
    "layer_norm_backward": Bound(
        "f·(g − mean g − x̂·mean(g·x̂)), g = grad·weight; Σ grad·x̂; Σ grad", "that of f and x̂, and S(n)·u of each sum"
    ),
    "rms_norm": Bound("x / √(mean x² + ε)·weight", "(S(n)/2 + 8)·u·|result|"),
    "rms_norm_backward": Bound(
        "f·(g − x̂·mean(g·x̂)), g = grad·weight; Σ grad·x̂", "that of f and x̂, and S(n)·u of each sum"
    ),
}
