"""Softmax, its logarithm, cross entropy, cumulative sums; forward and backward."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..bounds import Bound
from ..case import Floats
from ..drawing import Draw
from ..formats import Array
from ..numbers import Number, choose, exp, log
from ..subject import FINITE, Contents, Given, Results, Subject, like


def along_rows(draw: Draw, names: tuple[str, ...], **content: Any) -> dict[str, Any]:
    """Arrays of one shape and dtype, and perhaps one for the results."""
    shape, dtype = draw.shape(), draw.floating()
    for name in names:
        draw.array(name, shape, dtype, Floats(**content))
    draw.out(shape, dtype)
    return {}


def dtype_of(given: Given, name: str = "x") -> str:
    found: str = given["dtype of"][name]
    return found


def keep(number: Number, axis: int = -1) -> Number:
    return number.mapped(lambda array: np.expand_dims(array, axis))


def exponentials(x: Number) -> Number:
    """exp(x - max) along the last dimension."""
    return exp(x - keep(x.max(-1))) if x.shape[-1] else x


def softmax(given: Given, options: Mapping[str, Any]) -> Results:
    e = exponentials(given["x"])
    return [like(e / keep(e.sum(-1)), dtype_of(given))]


def softmax_backward(given: Given, options: Mapping[str, Any]) -> Results:
    grad, result = given["grad"], given["result"]
    return [like(result * (grad - keep((grad * result).sum(-1))), dtype_of(given, "result"))]


def log_softmax(given: Given, options: Mapping[str, Any]) -> Results:
    x = given["x"]
    if not x.shape[-1]:
        return [like(x, dtype_of(given))]
    shifted = x - keep(x.max(-1))
    return [like(shifted - log(keep(exp(shifted).sum(-1))), dtype_of(given))]


def log_softmax_backward(given: Given, options: Mapping[str, Any]) -> Results:
    grad, result = given["grad"], given["result"]
    return [like(grad - exp(result) * keep(grad.sum(-1)), dtype_of(given, "grad"))]


def draw_cross_entropy(draw: Draw, backward: bool = False) -> dict[str, Any]:
    rows, dtype = draw.size(33), draw.floating()
    classes = max(1, draw.long(max(1, rows)))
    options = {
        "ignored": draw.of(-100, -100, -1, 0, 300, 1 << 40),
        "smoothing": draw.of(0.0, 0.0, 0.1, 0.5, 1.0),
        "reduction": draw.of("mean", "sum", "none"),
    }
    computed = "float64" if dtype == "float64" else "float32"
    if backward:
        draw.array("grad", (rows,) if options["reduction"] == "none" else (), dtype)
    draw.array("x", (rows, classes), dtype)
    draw.index("target", (rows,), classes, options["ignored"])
    if backward:
        draw.array("normaliser", (rows,), computed)
        draw.array("count", (1,), computed)
        draw.out((rows, classes), dtype)
    return options


def _parts(given: Given, options: Mapping[str, Any]) -> tuple[Number, Number, Array]:
    """log Σ exp of each row, each row's loss, and which count."""
    x, target, smoothing = given["x"], given["target"], options["smoothing"]
    peak = x.max(1)
    log_sum = peak + log(exp(x - keep(peak)).sum(1))
    counts = target.astype(object) != options["ignored"]
    counts = counts.astype(bool)
    place = np.where(counts, target, 0).astype(np.int64)
    hit = x[np.arange(len(place)), place]
    share = Number(np.asarray(1.0 - smoothing), x.format, x.format.unit)
    smooth = Number(np.zeros(len(place)), x.format)
    if smoothing:
        smooth = x.mean(1) * Number(np.asarray(smoothing), x.format, x.format.unit * smoothing)
    loss = log_sum - share * hit - smooth
    return log_sum, choose(counts, loss, 0.0), counts


def cross_entropy(given: Given, options: Mapping[str, Any]) -> Results:
    dtype = dtype_of(given)
    _, loss, counts = _parts(given, options)
    if options["reduction"] == "none":
        return [like(loss, dtype)]
    total = loss.sum(0)
    number = Number(np.asarray(float(counts.sum())), loss.format)
    return [like(total / number if options["reduction"] == "mean" else total, dtype)]


def cross_entropy_parts(given: Given, options: Mapping[str, Any]) -> Results:
    log_sum, _, counts = _parts(given, options)
    computed = log_sum.format.name
    count = Number(np.array([float(counts.sum())]), log_sum.format)
    return [*cross_entropy(given, options), like(log_sum, computed), like(count, computed)]


def prepare_cross_entropy(given: Contents, options: Mapping[str, Any], random: np.random.Generator) -> None:
    """The normaliser and the count as the forward function gives them, nearly."""
    x = np.asarray(given["x"], np.float64)
    if x.size:
        rows = np.log(np.exp(x - x.max(1, keepdims=True)).sum(1)) + x.max(1)
        given["normaliser"] = np.broadcast_to(
            rows[:1] if len(given["normaliser"]) == 1 else rows, given["normaliser"].shape
        )
    given["count"] = np.array([float(max(1, (np.asarray(given["target"]) != options["ignored"]).sum()))])


def cross_entropy_backward(given: Given, options: Mapping[str, Any]) -> Results:
    grad, x, target, normaliser = given["grad"], given["x"], given["target"], given["normaliser"]
    each = grad
    if options["reduction"] == "mean":
        each = grad / given["count"].reshape(())
    if options["reduction"] != "none":
        each = each.mapped(lambda array: np.broadcast_to(array.reshape(1), (x.shape[0],)))
    unit, smoothing = x.format.unit, options["smoothing"]
    flat = Number(np.asarray(smoothing / x.shape[1]), x.format, 2 * unit * smoothing / x.shape[1])
    share = exp(x - keep(normaliser)) - flat
    wanted = Number(np.asarray(1.0 - smoothing), x.format, unit)
    hit = np.arange(x.shape[1])[None, :] == target.astype(object)[:, None]
    change = choose(hit.astype(bool), share - wanted, share)
    counts = (target.astype(object) != options["ignored"]).astype(bool)
    return [like(choose(counts[:, None], change * keep(each), 0.0), dtype_of(given))]


def cumulative_sum(given: Given, options: Mapping[str, Any]) -> Results:
    return [like(given["x"].cumulative_sum(-1), dtype_of(given))]


def cumulative_sum_backward(given: Given, options: Mapping[str, Any]) -> Results:
    back = given["grad"].mapped(lambda array: np.flip(array, -1)).cumulative_sum(-1)
    return [like(back.mapped(lambda array: np.flip(array, -1)), dtype_of(given, "grad"))]


SUBJECTS = (
    Subject("softmax", lambda draw: along_rows(draw, ("x",)), softmax),
    Subject("softmax_backward", lambda draw: along_rows(draw, ("grad", "result")), softmax_backward),
    Subject("log_softmax", lambda draw: along_rows(draw, ("x",)), log_softmax),
    Subject("log_softmax_backward", lambda draw: along_rows(draw, ("grad", "result")), log_softmax_backward),
    Subject("cross_entropy", draw_cross_entropy, cross_entropy),
    Subject(
        "cross_entropy_parts", lambda draw: {**draw_cross_entropy(draw), "checked": True}, cross_entropy_parts
    ),
    Subject(
        "cross_entropy_backward", lambda draw: draw_cross_entropy(draw, True), cross_entropy_backward,
        prepare_cross_entropy, without=FINITE, indexed=False,
    ),
    Subject("cumulative_sum", lambda draw: along_rows(draw, ("x",)), cumulative_sum, in_place=True),
    Subject("cumulative_sum_backward", lambda draw: along_rows(draw, ("grad",)), cumulative_sum_backward),
)  # fmt: skip

BOUNDS: dict[str, Bound] = {
    "cross_entropy": Bound(
        "max x + log Σ exp(x − max x) − (1 − s)·x[target] − s·mean x; then mean or sum",
        "S(V)·u + that of exp and log + u·|x − max x| weighed by softmax + u of each term; then S(M)·u·Σ|losses|",
    ),
    "cross_entropy_backward": Bound(
        "grad·(exp(x − normaliser) − wanted)", "((u·|x − normaliser| + that of exp)·exp + 3u)·|grad|"
    ),
    "cross_entropy_parts": Bound("as cross_entropy; max x + log Σ exp(x − max x); rows that count", "as cross_entropy"),
    "cumulative_sum": Bound("Σ of each element and all before it", "S(n)·u·Σ|x| of those n elements"),
    "cumulative_sum_backward": Bound("Σ of each element and all after it", "S(n)·u·Σ|grad| of those n elements"),
    "log_softmax": Bound(
        "x − max x − log Σ exp(x − max x)", "2u·|x − max x| + that of log + S(n)·u + that of exp weighed by softmax"
    ),
    "log_softmax_backward": Bound(
        "grad − exp(result)·Σ grad", "(S(n)·u·Σ|grad| + (that of exp + u)·|Σ grad|)·exp + u·|result|"
    ),
    "softmax": Bound(
        "exp(x − max x) / Σ exp(x − max x)",
        "(u·|x − max x| + that of exp, and their mean weighed by softmax, + (S(n) + 1)·u)·result",
    ),
    "softmax_backward": Bound("result·(grad − Σ grad·result)", "(S(n)·u·Σ|grad·result| + 2u·|grad − Σ|)·|result|"),
}
