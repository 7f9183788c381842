"""Matrix products, one and many, and two layers of them; forward and backward."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..bounds import GRADIENTS, PRODUCT, Bound
from ..drawing import Draw
from ..numbers import Number, dot
from ..subject import Given, Results, Subject, like
from .activations import ACTIVATIONS, activated, draw_activation, slope
from .rows import dtype_of


def _draw(draw: Draw, batched: bool, backward: bool) -> dict[str, Any]:
    rows, columns = draw.size(65), draw.size(65)
    inner, dtype = draw.long(max(rows, columns)), draw.floating()
    batches = (draw.size(5),) if batched else ()
    result = (*batches, rows, columns)
    if backward:
        draw.array("grad", result, dtype)
    draw.array("a", (*batches, rows, inner), dtype)
    draw.array("b", (*(batches if draw.chance(0.6) else ()), inner, columns), dtype)
    if draw.chance(0.5):
        draw.array("bias", (columns,), dtype)
    options: dict[str, Any] = {"activation": draw.of(None, draw_activation(draw))}
    if not backward:
        options["dtype"] = draw.of(None, None, None, "float32") if dtype not in ("float64", "float32") else None
        draw.out(result, options["dtype"] or dtype, 0.0 if options["dtype"] else 0.5)
    return {**options, "precision": draw.of(None, "ieee")}


def _product(a: Number, b: Number, bias: Number | None) -> Number:
    product = dot("bik,bkj->bij", a, b) if len(b.shape) == 3 else dot("bik,kj->bij", a, b)
    return product + (bias if bias is not None else 0.0)


def _batched(number: Number) -> Number:
    return number if len(number.shape) == 3 else number[None]


def matmul(given: Given, options: Mapping[str, Any]) -> Results:
    a = given["a"]
    result = activated(_product(_batched(a), given["b"], given["bias"]), options["activation"])
    result = result if len(a.shape) == 3 else result[0]
    return [like(result, options["dtype"] or dtype_of(given, "a"))]


def matmul_backward(given: Given, options: Mapping[str, Any]) -> Results:
    a, b, bias, dtype = given["a"], given["b"], given["bias"], dtype_of(given, "a")
    grad = change = _batched(given["grad"])
    if options["activation"] not in (None, "none"):
        products = _product(_batched(a), b, bias)
        change = (grad * slope(products, options["activation"])).rounded(dtype)
    of_a = dot("bij,bkj->bik", change, b) if len(b.shape) == 3 else dot("bij,kj->bik", change, b)
    of_b = dot("bik,bij->bkj", _batched(a), change) if len(b.shape) == 3 else dot("bik,bij->kj", _batched(a), change)
    of_bias = None if bias is None else like(change.sum((0, 1)), dtype)
    of_a = of_a if len(a.shape) == 3 else of_a[0]
    return [like(of_a, dtype), like(of_b, dtype), of_bias]


def _draw_mlp(draw: Draw, backward: bool) -> dict[str, Any]:
    rows, inner, hidden, columns = (draw.size(33) for _ in range(4))
    dtype = draw.floating()
    if backward:
        draw.array("grad", (rows, columns), dtype)
    draw.array("x", (rows, inner), dtype)
    draw.array("w1", (inner, hidden), dtype)
    options: dict[str, Any] = {}
    if draw.chance(0.6):
        draw.array("b1", (hidden,), dtype)
    else:
        options["b1"] = None
    draw.array("w2", (hidden, columns), dtype)
    if draw.chance(0.5):
        draw.array("b2", (columns,), dtype)
    if not backward:
        draw.out((rows, columns), dtype)
    return {**options, "activation": draw.of(*ACTIVATIONS)}


def _first_layer(given: Given) -> Number:
    b1 = given["b1"]
    return dot("mk,kh->mh", given["x"], given["w1"]) + (b1 if b1 is not None else 0.0)


def mlp(given: Given, options: Mapping[str, Any]) -> Results:
    dtype, b2 = dtype_of(given), given["b2"]
    hidden = activated(_first_layer(given), options["activation"]).rounded(dtype)
    return [like(dot("mh,hn->mn", hidden, given["w2"]) + (b2 if b2 is not None else 0.0), dtype)]


def mlp_backward(given: Given, options: Mapping[str, Any]) -> Results:
    dtype, x, grad = dtype_of(given), given["x"], given["grad"]
    products = _first_layer(given)
    hidden = activated(products, options["activation"]).rounded(dtype)
    upper = dot("mn,hn->mh", grad, given["w2"])
    change = (upper * slope(products, options["activation"])).rounded(dtype)
    results: Results = [like(dot("mh,kh->mk", change, given["w1"]), dtype), like(dot("mk,mh->kh", x, change), dtype)]
    of_b1 = None if given["b1"] is None else like(change.sum(0), dtype)
    of_b2 = None if given["b2"] is None else like(grad.sum(0), dtype)
    return [*results, of_b1, like(dot("mh,mn->hn", hidden, grad), dtype), of_b2]


SUBJECTS = (
    Subject("matmul", lambda draw: _draw(draw, False, False), matmul),
    Subject("matmul_backward", lambda draw: _draw(draw, False, True), matmul_backward),
    Subject("batched_matmul", lambda draw: _draw(draw, True, False), matmul),
    Subject("batched_matmul_backward", lambda draw: _draw(draw, True, True), matmul_backward),
    Subject("mlp", lambda draw: _draw_mlp(draw, False), mlp),
    Subject("mlp_backward", lambda draw: _draw_mlp(draw, True), mlp_backward),
)

BOUNDS: dict[str, Bound] = {
    "batched_matmul": Bound("activation(Σ a·b + bias)", PRODUCT),
    "batched_matmul_backward": Bound("Σ grad·b; Σ a·grad; Σ grad", GRADIENTS),
    "matmul": Bound("activation(Σ a·b + bias)", PRODUCT),
    "matmul_backward": Bound("Σ grad·b; Σ a·grad; Σ grad", GRADIENTS),
    "mlp": Bound("h·w2 + b2; h = activation(x·w1 + b1), rounded to x's dtype", PRODUCT),
    "mlp_backward": Bound("its gradients; what is between layers is rounded to x's dtype", GRADIENTS),
}
