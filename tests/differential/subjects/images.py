"""Convolutions, stencils and finite elements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..bounds import GRADIENTS, PRODUCT, Bound
from ..drawing import Draw
from ..formats import Array
from ..numbers import Number, concatenate, dot
from ..subject import FINITE, Given, Results, Subject, like
from .activations import activated, draw_activation
from .rows import dtype_of


def _draw_conv(draw: Draw, backward: bool) -> dict[str, Any]:
    groups = draw.of(1, 1, 1, 2, 3)
    channels, outputs = groups * draw.of(1, 2, 3, 5), groups * draw.of(1, 2, 4, 7)
    rows, columns = draw.of(1, 2, 3, 3, 5), draw.of(1, 2, 3, 3, 4)
    pairs = {
        "stride": (draw.of(1, 1, 2, 3), draw.of(1, 1, 2, 3)),
        "padding": (draw.of(0, 0, 1, 2), draw.of(0, 0, 1, 3)),
        "dilation": (draw.of(1, 1, 2), draw.of(1, 1, 2)),
    }
    high, wide = (
        max(1, pairs["dilation"][at] * (side - 1) + 1 - 2 * pairs["padding"][at]) + draw.of(0, 1, 2, 5, 9)
        for at, side in enumerate((rows, columns))
    )
    batches, dtype = draw.of(0, 1, 1, 2, 3), draw.floating()
    shape = (batches, channels, high, wide)
    options: dict[str, Any] = {**pairs, "groups": groups}
    result = (batches, outputs, *_result(shape, (rows, columns), options))
    if backward:
        draw.array("grad", result, dtype)
    draw.array("image", shape, dtype)
    draw.array("weight", (outputs, channels // groups, rows, columns), dtype)
    if backward:
        return options
    if draw.chance(0.5):
        draw.array("bias", (outputs,), dtype)
    draw.out(result, dtype)
    return {**options, "activation": draw_activation(draw)}


def _result(image: tuple[int, ...], window: tuple[int, int], options: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(
        (image[2 + at] + 2 * options["padding"][at] - options["dilation"][at] * (window[at] - 1) - 1)
        // options["stride"][at] + 1
        for at in range(2)
    )  # fmt: skip


def _windows(window: tuple[int, int], result: tuple[int, ...], options: Mapping[str, Any]) -> list[Any]:
    """For each place of the window: the slices of the padded image that it is multiplied with."""
    (down, across), (apart_y, apart_x) = options["stride"], options["dilation"]
    return [
        (..., slice(apart_y * r, apart_y * r + down * result[0], down),
         slice(apart_x * s, apart_x * s + across * result[1], across))
        for r in range(window[0]) for s in range(window[1])
    ]  # fmt: skip


def _patches(image: Number, window: tuple[int, int], result: tuple[int, ...], options: Mapping[str, Any]) -> Number:
    """B × groups × (places · C / groups) × Y × X."""
    top, left = options["padding"]
    down, across = options["stride"]
    room = ((0, 0), (0, 0), (top, top + down), (left, left + across))
    padded = image.mapped(lambda array: np.pad(array, room))
    groups, shape = options["groups"], image.shape
    cut = padded.reshape(shape[0], groups, shape[1] // groups, *padded.shape[2:])
    return concatenate([cut[place][..., : result[0], : result[1]] for place in _windows(window, result, options)], 2)


def _weights(weight: Number, groups: int) -> Number:
    """groups × O / groups × (places · C / groups)."""
    outputs, channels, rows, columns = weight.shape
    return weight.mapped(
        lambda array: np.moveaxis(array.reshape(groups, outputs // groups, channels, rows * columns), 3, 2).reshape(
            groups, outputs // groups, rows * columns * channels
        )
    )


def conv2d(given: Given, options: Mapping[str, Any]) -> Results:
    image, weight, bias = given["image"], given["weight"], given["bias"]
    window = weight.shape[2:]
    result = _result(image.shape, window, options)
    patches = _patches(image, window, result, options)
    product = dot("goc,bgcyx->bgoyx", _weights(weight, options["groups"]), patches)
    product = product.reshape(image.shape[0], weight.shape[0], *result)
    if bias is not None:
        product = product + bias[:, None, None]
    return [like(activated(product, options["activation"]), dtype_of(given, "image"))]


def conv2d_backward(given: Given, options: Mapping[str, Any]) -> Results:
    image, weight, dtype = given["image"], given["weight"], dtype_of(given, "image")
    groups, window = options["groups"], weight.shape[2:]
    batches, outputs, *result = given["grad"].shape
    grad = given["grad"].reshape(batches, groups, outputs // groups, *result)
    patches = _patches(image, window, tuple(result), options)
    of_patches = dot("goc,bgoyx->bgcyx", _weights(weight, groups), grad)
    channels = image.shape[1] // groups
    of_weight = dot("bgoyx,bgcyx->goc", grad, patches).mapped(
        lambda array: np.moveaxis(array.reshape(groups, outputs // groups, -1, channels), 3, 2).reshape(weight.shape)
    )
    return [
        like(_gathered(of_patches, image, window, tuple(result), options), dtype), like(of_weight, dtype),
        like(given["grad"].sum((0, 2, 3)), dtype),
    ]  # fmt: skip


def _gathered(patches: Number, image: Number, window: Any, result: Any, options: Mapping[str, Any]) -> Number:
    """What each pixel gets of all the places that it was multiplied at: up to a few terms each, added up."""
    (batches, all_channels, high, wide), groups = image.shape, options["groups"]
    (top, left), (down, across), channels = options["padding"], options["stride"], all_channels // groups
    shape = (batches, groups, channels, high + 2 * top + down, wide + 2 * left + across)

    def add(array: Array) -> Array:
        whole = np.zeros(shape, array.dtype)
        for number, place in enumerate(_windows(window, result, options)):
            part = array[:, :, number * channels : (number + 1) * channels]
            view = whole[place][..., : result[0], : result[1]]
            view[...] = view | part if array.dtype == bool else view + part
        return whole[..., top : top + high, left : left + wide].reshape(image.shape)

    places = max(1, window[0] * window[1])
    magnitude = add(np.abs(patches.value) + patches.error)
    error = add(patches.error) + 4 * np.log2(places) * patches.format.unit * magnitude
    return Number(add(patches.value), patches.format, error, add(patches.loose) | (magnitude >= patches.format.largest))


def _draw_stencil(draw: Draw, backward: bool) -> dict[str, Any]:
    shape = (*draw.of((), (draw.size(5),), (draw.size(3), draw.size(3))), draw.size(33), draw.long(33))
    dtype = draw.floating()
    if backward:
        draw.array("grad", shape, dtype)
    draw.array("x", shape, dtype)
    draw.array("weight", draw.of((3, 3), (5,)), dtype)
    if not backward:
        draw.out(shape, dtype)
    return {}


CROSS = ((0, 1), (1, 0), (1, 1), (1, 2), (2, 1))
SQUARE = tuple((down, right) for down in range(3) for right in range(3))


def _neighbours(x: Number, places: Any) -> Number:
    padded = x.mapped(lambda array: np.pad(array, [(0, 0)] * (array.ndim - 2) + [(1, 1)] * 2))
    high, wide = x.shape[-2:]
    cuts = [padded[..., down : down + high, right : right + wide] for down, right in places]
    return concatenate([cut[None] for cut in cuts], 0)


def stencil(given: Given, options: Mapping[str, Any]) -> Results:
    x, weight = given["x"], given["weight"]
    places = CROSS if weight.shape == (5,) else SQUARE
    near = _neighbours(x, places).reshape(len(places), -1)
    return [like(dot("p,pn->n", weight.reshape(-1), near).reshape(x.shape), dtype_of(given))]


def stencil_backward(given: Given, options: Mapping[str, Any]) -> Results:
    x, weight, grad = given["x"], given["weight"], given["grad"]
    places = CROSS if weight.shape == (5,) else SQUARE
    turned = weight.mapped(lambda array: array.reshape(-1)[::-1])
    of_x = dot("p,pn->n", turned, _neighbours(grad, places).reshape(len(places), -1)).reshape(x.shape)
    near = _neighbours(x, places).reshape(len(places), -1)
    of_weight = dot("pn,n->p", near, grad.reshape(-1)).reshape(weight.shape)
    return [like(of_x, dtype_of(given)), like(of_weight, dtype_of(given))]


def _draw_elements(draw: Draw, kind: str) -> dict[str, Any]:
    elements, components, nodes = draw.size(9), draw.of(1, 1, 3), draw.of(1, 2, 3, 4, 5)
    points = nodes if kind == "nodes" else draw.of(nodes, nodes + 1, 2)
    dtype = draw.floating()
    shape = (elements, components, nodes, nodes, nodes)
    draw.array("x", shape, dtype)
    if kind != "nodes":
        draw.array("values", (points, nodes), dtype)
    if kind != "mass":
        draw.array("slopes", (points, nodes), dtype)
    cube = (points,) * 3
    if kind == "mass":
        draw.array("weight", (elements, *cube), dtype)
    else:
        draw.array("metric", (elements, 6, *cube), dtype)
    draw.out(shape, dtype)
    return {}


def _forward(x: Number, along: tuple[Number, Number, Number]) -> Number:
    x = dot("sk,ecijk->ecijs", along[2], x)
    x = dot("rj,ecijs->ecirs", along[1], x)
    return dot("qi,ecirs->ecqrs", along[0], x)


def _back_twice(x: Number, along: tuple[Number, Number, Number]) -> Number:
    x = dot("qi,ecqrs->ecirs", along[0], x)
    return dot("rj,ecirs->ecijs", along[1], x)


def _back(x: Number, along: tuple[Number, Number, Number]) -> Number:
    return dot("sk,ecijs->ecijk", along[2], _back_twice(x, along))


def apply_mass(given: Given, options: Mapping[str, Any]) -> Results:
    values = given["values"]
    weighed = _forward(given["x"], (values,) * 3) * given["weight"][:, None]
    return [like(_back(weighed, (values,) * 3), dtype_of(given))]


ROWS = ((0, 1, 2), (1, 3, 4), (2, 4, 5))


def _fluxes(metric: Number, along: tuple[Number, Number, Number]) -> list[Number]:
    fluxes = []
    for row in ROWS:
        terms = [metric[:, place][:, None] * each for place, each in zip(row, along, strict=True)]
        fluxes.append(terms[0] + terms[1] + terms[2])
    return fluxes


def apply_stiffness(given: Given, options: Mapping[str, Any]) -> Results:
    values, slopes = given["values"], given["slopes"]
    bases = ((slopes, values, values), (values, slopes, values), (values, values, slopes))
    one, two, three = (_forward(given["x"], basis) for basis in bases)
    fluxes = _fluxes(given["metric"], (one, two, three))
    parts = [_back_twice(flux, basis) for flux, basis in zip(fluxes, bases, strict=True)]
    # As the kernel does: the sum of the first two may overflow where neither does.
    plain, sloped = (dot("sk,ecijs->ecijk", *pair) for pair in ((values, parts[0] + parts[1]), (slopes, parts[2])))
    return [like(plain + sloped, dtype_of(given))]


def apply_stiffness_at_nodes(given: Given, options: Mapping[str, Any]) -> Results:
    slopes, x = given["slopes"], given["x"]
    along = (
        dot("ia,ecajk->ecijk", slopes, x), dot("ja,eciak->ecijk", slopes, x), dot("ka,ecija->ecijk", slopes, x)
    )  # fmt: skip
    one, two, three = _fluxes(given["metric"], along)
    parts = (
        dot("ai,ecajk->ecijk", slopes, one), dot("aj,eciak->ecijk", slopes, two), dot("ak,ecija->ecijk", slopes, three)
    )  # fmt: skip
    return [like(parts[0] + parts[1] + parts[2], dtype_of(given))]


SUBJECTS = (
    Subject("conv2d", lambda draw: _draw_conv(draw, False), conv2d),
    Subject("conv2d_backward", lambda draw: _draw_conv(draw, True), conv2d_backward, without=FINITE),
    Subject("stencil", lambda draw: _draw_stencil(draw, False), stencil),
    Subject("stencil_backward", lambda draw: _draw_stencil(draw, True), stencil_backward),
    Subject("apply_mass", lambda draw: _draw_elements(draw, "mass"), apply_mass, without=FINITE),
    Subject("apply_stiffness", lambda draw: _draw_elements(draw, "stiffness"), apply_stiffness, without=FINITE),
    Subject(
        "apply_stiffness_at_nodes", lambda draw: _draw_elements(draw, "nodes"), apply_stiffness_at_nodes, without=FINITE
    ),
)

BOUNDS: dict[str, Bound] = {
    "apply_mass": Bound("BᵀWBx, one side after another", "7·S(P)·u·|B|ᵀ|W||B||x|"),
    "apply_stiffness": Bound("GᵀDGx, one side after another", "8·S(P)·u·|G|ᵀ|D||G||x|"),
    "apply_stiffness_at_nodes": Bound("GᵀDGx, one side after another", "4·S(P)·u·|G|ᵀ|D||G||x|"),
    "conv2d": Bound("activation(Σ weight·image + bias)", PRODUCT),
    "conv2d_backward": Bound("Σ weight·grad; Σ grad·image; Σ grad", GRADIENTS),
    "stencil": Bound("Σ weight·x over 9 or 5 neighbours", "S(9)·u·Σ|weight·x|"),
    "stencil_backward": Bound("the stencil of grad; Σ grad·x", GRADIENTS),
}
