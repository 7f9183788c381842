"""Attention within sequences of any lengths whose rows stand one after another: nothing is filled up."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Integer

import vkernels as vk

from .annotations import Result
from .arrays import Array, check_apart, empty_like
from .attention_calls import Sequences, Window, band_of, check_heads, run_blocks, run_gradients, scale_of
from .declared import checked


@checked
def attention_of_sequences(
    q: Float[Array, "T H D"],
    k: Float[Array, "U G D"],
    v: Float[Array, "U G E"],
    q_start: Integer[Array, "S+1"],
    k_start: Integer[Array, "S+1"],
    scale: float | None = None,
    causal: bool = False,
    window: Window = None,
    out: Result[Array, "T H E", "q"] | None = None,
) -> Array:
    """`attention` of each sequence's queries and keys: rows `q_start[s] : q_start[s + 1]` of q and so on.

    `q`: T × H × D, the queries of all sequences one after another; `k`: U × G × D, `v`: U × G × E; strides, dtypes,
    heads, `scale`, `causal` and `window` as in `attention`, the last query of a sequence at its last key. `q_start`,
    `k_start`: S + 1 integers that do not fall, from 0 to T and to U, read on the host. Returns `out`, or a new
    T × H × E array like q; 0 where a query sees no key.
    Raises `ArgumentError` for shapes or dtypes that do not go together, and for starts out of order.
    """
    return attention_of_sequences_forward(q, k, v, q_start, k_start, scale, causal, window, out)[0]


@checked
def attention_of_sequences_forward(
    q: Float[Array, "T H D"],
    k: Float[Array, "U G D"],
    v: Float[Array, "U G E"],
    q_start: Integer[Array, "S+1"],
    k_start: Integer[Array, "S+1"],
    scale: float | None = None,
    causal: bool = False,
    window: Window = None,
    out: Result[Array, "T H E", "q"] | None = None,
) -> tuple[Array, Array]:
    """What `attention_of_sequences` gives, and the normaliser that its gradient needs: H × T, -inf without keys."""
    function = "attention_of_sequences"
    q, k, v, out_ = (_as_batch(each) for each in (q, k, v, out))
    check_heads(function, q.shape[1], k.shape[1])
    sequences = _sequences(function, q, k, q_start, k_start, causal, window)
    if out is None:
        out = empty_like(q, (q.shape[2], q.shape[1], v.shape[3]))
        out_ = _as_batch(out)
    check_apart(function, out, k=k, v=v)
    normaliser = run_blocks(q, k, v, scale_of(scale, q), sequences, out_)
    return out, normaliser[0]


@checked
def attention_of_sequences_backward(
    grad: Float[Array, "T H E"],
    q: Float[Array, "T H D"],
    k: Float[Array, "U G D"],
    v: Float[Array, "U G E"],
    out: Float[Array, "T H E"],
    normaliser: Float[Array, "H T"],
    q_start: Integer[Array, "S+1"],
    k_start: Integer[Array, "S+1"],
    scale: float | None = None,
    causal: bool = False,
    window: Window = None,
) -> tuple[Array, Array, Array]:
    """The gradients of q, k and v, of the gradient of `out`, which `attention_of_sequences_forward` gave beside the
    normaliser: new arrays. `grad`: of out's shape and dtype. Raises `ArgumentError` as that does."""
    function = "attention_of_sequences_backward"
    grad, q, k, v, out = (_as_batch(each) for each in (grad, q, k, v, out))
    check_heads(function, q.shape[1], k.shape[1])
    sequences = _sequences(function, q, k, q_start, k_start, causal, window)
    found = run_gradients(grad, q, k, v, out, normaliser[None], scale_of(scale, q), sequences)
    dq, dk, dv = (each[0].swapaxes(0, 1) for each in found)
    return dq, dk, dv


def _as_batch(array: Array | None) -> Array:
    """T × H × D as 1 × H × T × D; a view."""
    return None if array is None else array.swapaxes(0, 1)[None]


def _sequences(
    function: str, q: Array, k: Array, q_start: Array, k_start: Array, causal: bool, window: Window
) -> Sequences:
    starts: list[tuple[int, ...]] = []
    for name, start, rows in (("q_start", q_start, q.shape[2]), ("k_start", k_start, k.shape[2])):
        found = np.asarray(start if isinstance(start, np.ndarray) else start.cpu())
        if found[0] != 0 or found[-1] != rows or (found[1:] < found[:-1]).any():
            raise vk.ArgumentError(f"{function}: {name} is {found.tolist()}, expected integers from 0 to {rows}")
        starts.append(tuple(found.tolist()))
    return Sequences(starts[0], starts[1], band_of(causal, window))
