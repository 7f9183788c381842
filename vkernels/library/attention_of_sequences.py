"""Attention within sequences of any lengths whose rows stand one after another: nothing is filled up."""

from __future__ import annotations

import numpy as np

import vkernels as vk

from .arrays import Array, check_apart, empty_like
from .attention_calls import Sequences, Window, band_of, check_shapes, run_blocks, run_gradients, scale_of
from .indices import check_starts


def attention_of_sequences(
    q: Array,
    k: Array,
    v: Array,
    q_start: Array,
    k_start: Array,
    scale: float | None = None,
    causal: bool = False,
    window: Window = None,
    out: Array | None = None,
) -> Array:
    """`attention` of each sequence's queries and keys: rows `q_start[s] : q_start[s + 1]` of q and so on.

    `q`: T × H × D, the queries of all sequences one after another; `k`: U × G × D, `v`: U × G × E; strides, dtypes,
    heads, `scale`, `causal` and `window` as in `attention`, the last query of a sequence at its last key. `q_start`,
    `k_start`: S + 1 integers that do not fall, from 0 to T and to U, read on the host. Returns `out`, or a new
    T × H × E array like q; 0 where a query sees no key.
    Raises `ArgumentError` for shapes or dtypes that do not go together, and for starts out of order.
    """
    return attention_of_sequences_forward(q, k, v, q_start, k_start, scale, causal, window, out)[0]


def attention_of_sequences_forward(
    q: Array,
    k: Array,
    v: Array,
    q_start: Array,
    k_start: Array,
    scale: float | None = None,
    causal: bool = False,
    window: Window = None,
    out: Array | None = None,
) -> tuple[Array, Array]:
    """What `attention_of_sequences` gives, and the normaliser that its gradient needs: H × T, -inf without keys."""
    function = "attention_of_sequences"
    q, k, v, out_ = (_as_batch(function, name, each) for name, each in (("q", q), ("k", k), ("v", v), ("out", out)))
    results = (*q.shape[:3], v.shape[3])
    check_shapes(function, q, k, v, () if out is None else (("out", out_, results),))
    sequences = _sequences(function, q, k, q_start, k_start, causal, window)
    if out is None:
        out = empty_like(q, (q.shape[2], q.shape[1], v.shape[3]))
        out_ = _as_batch(function, "out", out)
    check_apart(function, out, k=k, v=v)
    normaliser = run_blocks(q, k, v, scale_of(scale, q), sequences, out_)
    return out, normaliser[0]


def attention_of_sequences_backward(
    grad: Array,
    q: Array,
    k: Array,
    v: Array,
    out: Array,
    normaliser: Array,
    q_start: Array,
    k_start: Array,
    scale: float | None = None,
    causal: bool = False,
    window: Window = None,
) -> tuple[Array, Array, Array]:
    """The gradients of q, k and v, of the gradient of `out`, which `attention_of_sequences_forward` gave beside the
    normaliser: new arrays. `grad`: of out's shape and dtype. Raises `ArgumentError` as that does."""
    function = "attention_of_sequences_backward"
    named = (("grad", grad), ("q", q), ("k", k), ("v", v), ("out", out))
    grad, q, k, v, out = (_as_batch(function, name, each) for name, each in named)
    results = (*q.shape[:3], v.shape[3])
    more = (("grad", grad, results), ("out", out, results), ("normaliser", normaliser[None], tuple(q.shape[:3])))
    check_shapes(function, q, k, v, more)
    sequences = _sequences(function, q, k, q_start, k_start, causal, window)
    found = run_gradients(grad, q, k, v, out, normaliser[None], scale_of(scale, q), sequences)
    dq, dk, dv = (each[0].swapaxes(0, 1) for each in found)
    return dq, dk, dv


def _as_batch(function: str, name: str, array: Array | None) -> Array:
    """T × H × D as 1 × H × T × D; a view."""
    if array is None:
        return None
    if array.ndim != 3:
        raise vk.ArgumentError(f"{function}: {name} has shape {tuple(array.shape)}, expected three dimensions")
    return array.swapaxes(0, 1)[None]


def _sequences(
    function: str, q: Array, k: Array, q_start: Array, k_start: Array, causal: bool, window: Window
) -> Sequences:
    starts: list[tuple[int, ...]] = []
    for name, start, rows in (("q_start", q_start, q.shape[2]), ("k_start", k_start, k.shape[2])):
        check_starts(function, start, rows, False)
        found = np.asarray(start if isinstance(start, np.ndarray) else start.cpu())
        if found.dtype.kind not in "iu" or found[0] != 0 or found[-1] != rows or (found[1:] < found[:-1]).any():
            raise vk.ArgumentError(f"{function}: {name} is {found.tolist()}, expected integers from 0 to {rows}")
        starts.append(tuple(found.tolist()))
    if len(starts[0]) != len(starts[1]):
        counts = f"q_start has {len(starts[0]) - 1} sequences and k_start {len(starts[1]) - 1}"
        raise vk.ArgumentError(f"{function}: {counts}, expected as many")
    return Sequences(starts[0], starts[1], band_of(function, causal, window))
