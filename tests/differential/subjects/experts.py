"""Products of groups of rows with a matrix each, and mixtures of experts; forward and backward."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..bounds import GRADIENTS, PRODUCT, Bound
from ..drawing import Draw
from ..formats import Array
from ..numbers import Number, dot
from ..subject import FINITE, Given, Results, Subject, like
from .activations import ACTIVATIONS, activated, draw_activation, slope
from .rows import dtype_of
from .sparse import scattered_dot


def _draw_grouped(draw: Draw, backward: bool) -> dict[str, Any]:
    tokens, inner, columns, groups = draw.size(65), draw.size(33), draw.size(33), draw.size(5, 1)
    dtype, routed = draw.floating(), draw.chance(0.5)
    rows = draw.size(97) if routed else tokens
    if backward:
        draw.array("grad", (rows, columns), dtype)
    draw.array("x", (tokens, inner), dtype)
    draw.array("weight", (groups, inner, columns), dtype)
    draw.starts("start", groups + 1, rows, full=True)
    if draw.chance(0.5):
        draw.array("bias", (groups, columns), dtype)
    if routed:
        draw.index("row", (rows,), tokens)
    if not backward:
        draw.out((rows, columns), dtype)
    return {"activation": draw_activation(draw)}


def _group_of(start: Array, rows: int) -> Array:
    return np.searchsorted(start[1:].astype(int), np.arange(rows), side="right")


def _grouped(x: Number, weight: Number, group: Array, bias: Number | None) -> Number:
    product = dot("sk,skn->sn", x, weight[group])
    return product if bias is None else product + bias[group]


def _rows(given: Given) -> tuple[Array, Array]:
    """The row of x, and the group, of each result."""
    count = given["x"].shape[0] if given["row"] is None else len(given["row"])
    row = np.arange(count) if given["row"] is None else given["row"].astype(int)
    return row, _group_of(given["start"], count)


def grouped_matmul(given: Given, options: Mapping[str, Any]) -> Results:
    row, group = _rows(given)
    result = _grouped(given["x"][row], given["weight"], group, given["bias"])
    return [like(activated(result, options["activation"]), dtype_of(given))]


def grouped_matmul_backward(given: Given, options: Mapping[str, Any]) -> Results:
    row, group = _rows(given)
    dtype = dtype_of(given)
    routed = given["row"] is not None
    found = _grouped_gradients(
        given["grad"], given["x"], row, given["weight"], group, given["bias"], options["activation"], dtype, routed
    )
    return [None if each is None else like(each, dtype) for each in found]


def _grouped_gradients(
    grad: Number, x: Number, row: Array, weight: Number, group: Array, bias: Number | None, activation: str,
    dtype: str, routed: bool,
) -> tuple[Number, Number, Number | None]:  # fmt: skip
    change = grad
    if activation != "none":
        change = (grad * slope(_grouped(x[row], weight, group, bias), activation)).rounded(dtype)
    of_rows = dot("sn,skn->sk", change, weight[group])
    ones = Number(np.ones(len(row)), x.format)
    of_x = scattered_dot(row, x.shape[0], ones, of_rows, "e,ek->ek") if routed else of_rows
    of_weight = scattered_dot(group, weight.shape[0], x[row], change, "ek,en->ekn")
    of_bias = None if bias is None else scattered_dot(group, weight.shape[0], ones, change, "e,en->en")
    return of_x, of_weight, of_bias


def _draw_mixture(draw: Draw, backward: bool) -> dict[str, Any]:
    tokens, inner, hidden, columns = draw.size(33), draw.size(17), draw.size(17), draw.size(17)
    experts, choices, dtype = draw.size(5, 1), draw.of(1, 2, 3), draw.floating()
    if backward:
        draw.array("grad", (tokens, columns), dtype)
    draw.array("x", (tokens, inner), dtype)
    draw.index("expert", (tokens, choices), experts)
    draw.array("gate", (tokens, choices), dtype)
    draw.array("w1", (experts, inner, hidden), dtype)
    draw.array("w2", (experts, hidden, columns), dtype)
    for name, width in (("b1", hidden), ("b2", columns)):
        if draw.chance(0.5):
            draw.array(name, (experts, width), dtype)
    return {"activation": draw.of(*ACTIVATIONS)}


def _mixed(given: Given, options: Mapping[str, Any]) -> tuple[Array, Array, Number, Number]:
    """Of each choice its token and expert, what is between the layers, and its result."""
    x, expert, dtype = given["x"], given["expert"].astype(int), dtype_of(given)
    token, group = np.repeat(np.arange(x.shape[0]), expert.shape[1]), expert.reshape(-1)
    hidden = activated(_grouped(x[token], given["w1"], group, given["b1"]), options["activation"]).rounded(dtype)
    return token, group, hidden, _grouped(hidden, given["w2"], group, given["b2"]).rounded(dtype)


def mixture_of_experts(given: Given, options: Mapping[str, Any]) -> Results:
    *_, results = _mixed(given, options)
    gate = given["gate"]
    return [like(dot("tc,tcn->tn", gate, results.reshape(*gate.shape, results.shape[-1])), dtype_of(given))]


def mixture_of_experts_backward(given: Given, options: Mapping[str, Any]) -> Results:
    token, group, hidden, results = _mixed(given, options)
    grad, gate, dtype, x = given["grad"], given["gate"], dtype_of(given), given["x"]
    of_gate = dot("tn,tcn->tc", grad, results.reshape(*gate.shape, results.shape[-1]))
    of_results = (grad[token] * gate.reshape(-1, 1)).rounded(dtype)
    own = np.arange(len(token))
    of_hidden, of_w2, of_b2 = _grouped_gradients(
        of_results, hidden, own, given["w2"], group, given["b2"], "none", dtype, False
    )
    of_x, of_w1, of_b1 = _grouped_gradients(
        of_hidden.rounded(dtype), x, token, given["w1"], group, given["b1"], options["activation"], dtype, True
    )
    found = (of_x, of_gate, of_w1, of_w2, of_b1, of_b2)
    return [None if each is None else like(each, dtype) for each in found]


SUBJECTS = (
    Subject("grouped_matmul", lambda draw: _draw_grouped(draw, False), grouped_matmul),
    Subject("grouped_matmul_backward", lambda draw: _draw_grouped(draw, True), grouped_matmul_backward, without=FINITE),
    Subject("mixture_of_experts", lambda draw: _draw_mixture(draw, False), mixture_of_experts),
    Subject(
        "mixture_of_experts_backward", lambda draw: _draw_mixture(draw, True), mixture_of_experts_backward,
        without=FINITE,
    ),
)  # fmt: skip

BOUNDS: dict[str, Bound] = {
    "grouped_matmul": Bound("activation(Σ x·weight + bias)", PRODUCT),
    "grouped_matmul_backward": Bound("Σ grad·weight; Σ x·grad; Σ grad", GRADIENTS),
    "mixture_of_experts": Bound(
        "Σ gate·y; y = h·w2 + b2 and h = activation(x·w1 + b1), both rounded to x's dtype", PRODUCT
    ),
    "mixture_of_experts_backward": Bound("its gradients; what is between layers is rounded to x's dtype", GRADIENTS),
}
