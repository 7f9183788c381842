"""Attention of batches and of sequences of any lengths, with gradients: full, causal, or within a window."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float, Integer

import vkernels.language as vk
from vkernels.ir.errors import ArgumentError

from .arrays import Array, check_apart, empty_like
from .attention_blocks import (
    BY_HEADS,
    CPU_HEADS,
    UNLIMITED,
    Band,
    Sequences,
    Window,
    band_of,
    by_groups,
    check_heads,
    run_blocks,
    scale_number,
    scale_of,
)
from .attention_gradients import run_gradients
from .declared import Result, checked, replayed
from .samples import SampleInputs, entry

__all__ = ["attention", "attention_of_sequences"]


@vk.kernel
def attention_rows(
    q: Float[vk.Tensor, "B G R D M"],
    k: Float[vk.Tensor, "B G N D"],
    v: Float[vk.Tensor, "B G N E"],
    scale: vk.Scalar,
    out: Float[vk.Tensor, "B G R E M"],
    causal: vk.Constant = False,
):
    b = vk.tile("B")
    g = vk.tile("G")  # heads of keys, each with
    r = vk.tile("R")  # heads of queries
    i = vk.tile("M")
    j = vk.whole("N")
    d = vk.whole("D")
    e = vk.whole("E")
    query = q[b, g, r, d, i]
    vk.phase()  # a query is read again for every key: it can be kept
    score = vk.dot(k[b, g, j, d], query) * scale
    if causal:
        score = vk.where(j - vk.size("N") <= i - vk.size("M"), score, float("-inf"))
    vk.phase()
    p = vk.exp(score - vk.max(score, axis=j))
    vk.phase()
    out[b, g, r, e, i] = vk.dot(v[b, g, j, e], p.to(v.dtype)) / vk.sum(p, axis=j)


@replayed
@checked
def attention(
    q: Float[Array, "B H M D"],
    k: Float[Array, "B G N D"],
    v: Float[Array, "B G N E"],
    scale: float | None = None,
    causal: bool = False,
    window: Window = None,
    out: Result[Array, "B H M E", "q"] | None = None,
) -> Array:
    """softmax(q kᵀ · scale) v for every head (Vaswani et al. 2017), the row's maximum subtracted.

    `q`: B × H × M × D, `k`: B × G × N × D, `v`: B × G × N × E, of any strides and one dtype: f64, f32, f16 or bf16, the
    latter two computed in f32, with exponentials rounded to v's dtype in products. H is a multiple of G: consecutive
    H / G heads of queries share one of keys and values (Ainslie et al. 2023). `scale`: 1 / sqrt(D) unless given.
    Query m has the position of key m + N - M, so the last query is at the last key. `causal`: a query sees no later
    keys. `window`: a query sees only keys within this distance; or two distances, before and after, None for no bound
    (Beltagy et al. 2020). Each query must see a key. Keys that no query of a block sees cost nothing.
    Returns `out`, or a new B × H × M × E array of q's dtype. Without keys it is 0.
    Raises `ArgumentError` for shapes or dtypes that do not match.
    """
    band = _band("attention", q, k, causal, window)
    out = _room("attention", q, k, v, out)
    if q.shape[2] == 1 and band.back < UNLIMITED:  # the query is at the last key
        seen = slice(k.shape[2] - 1 - band.back, None)
        k, v, band = k[:, :, seen], v[:, :, seen], Band()
    if band != Band() and q.shape[2] > 1:
        run_blocks(q, k, v, scale_of(scale, q), _as_sequences(q, k, band), out)
    elif k.shape[2] == 0:
        out[...] = 0
    else:
        one = q.shape[2] == 1  # heads that share keys take the place of queries
        attention_rows(_grouped(q, k.shape[1], one), k, v, scale_of(scale, q), _grouped(out, k.shape[1], one))
    return out


@replayed
@checked
def attention_forward(
    q: Float[Array, "B H M D"],
    k: Float[Array, "B G N D"],
    v: Float[Array, "B G N E"],
    scale: float | None = None,
    causal: bool = False,
    window: Window = None,
    out: Result[Array, "B H M E", "q"] | None = None,
) -> tuple[Array, Array]:
    """The result of `attention`, and the normaliser for its gradient: log(sum(exp(q kᵀ · scale))) of the keys seen.

    The normaliser is a new B × H × M array of the dtype that q is computed in; -inf without keys.
    """
    band = _band("attention_forward", q, k, causal, window)
    out = _room("attention_forward", q, k, v, out)
    return out, run_blocks(q, k, v, scale_of(scale, q), _as_sequences(q, k, band), out)


@replayed
@checked
def attention_backward(
    grad: Float[Array, "B H M E"],
    q: Float[Array, "B H M D"],
    k: Float[Array, "B G N D"],
    v: Float[Array, "B G N E"],
    out: Float[Array, "B H M E"],
    normaliser: Float[Array, "B H M"],
    scale: float | None = None,
    causal: bool = False,
    window: Window = None,
) -> tuple[Array, Array, Array]:
    """The gradients of q, k and v, given the gradient of `out`; `out`, `normaliser`: as `attention_forward` returns
    them.

    `grad`: of out's shape and dtype; otherwise as `attention`. Scores are recomputed; those of 16 bits have
    exponentials and slopes rounded to their dtype before products. Returns new arrays like q, k and v.
    Raises `ArgumentError` for shapes or dtypes that do not match.
    """
    band = _band("attention_backward", q, k, causal, window)
    return run_gradients(grad, q, k, v, out, normaliser, scale_of(scale, q), _as_sequences(q, k, band))


def _band(function: str, q: Array, k: Array, causal: bool, window: Window) -> Band:
    check_heads(function, q.shape[1], k.shape[1])
    rows, keys = q.shape[2], k.shape[2]
    band = band_of(causal, window)
    if rows > keys + band.ahead and (causal or keys):
        seen = "causal" if causal else f"a window of {band.ahead} ahead"
        most = f"at most k's {keys}" + (f" and {band.ahead}" if band.ahead else "")
        raise ArgumentError(f"{function}: {seen}, but q has {rows} rows, expected {most}")
    return band.within(rows, keys)


def _room(function: str, q: Array, k: Array, v: Array, out: Array | None) -> Array:
    out = empty_like(q, (*q.shape[:3], v.shape[3])) if out is None else out
    check_apart(function, out, k=k, v=v)
    return out


def _as_sequences(q: Array, k: Array, band: Band) -> Sequences:
    return Sequences((0, q.shape[2]), (0, k.shape[2]), band)


def _grouped(array: Array, groups: int, one: bool) -> Array:
    """B × H × M × D as B × G × H / G × D × M, or, if M is one, as B × G × 1 × D × H / G; a view."""
    parts = by_groups(array, groups)
    parts = parts.swapaxes(2, 3) if one else parts
    return parts.swapaxes(3, 4)


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
    heads, `scale`, `causal` and `window` as in `attention`, with the last query of a sequence at its last key.
    `q_start`, `k_start`: S + 1 non-decreasing integers from 0 to T and to U, read on the host. Returns `out`, or a new
    T × H × E array like q; 0 if a query sees no key. Raises `ArgumentError` for shapes or dtypes that do not match, and
    for starts out of order.
    """
    known = _of_call(q, k, v, q_start, k_start, causal, window, out)
    if known.batches:
        return (_run_batches_again if known.is_met else _run_batches)(q, k, v, known.batches, scale, out)
    return _run(q, k, v, known, scale, out)[0]


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
    """The result of `attention_of_sequences`, and the normaliser for its gradient: H × T, -inf without keys."""
    return _run(q, k, v, _of_call(q, k, v, q_start, k_start, causal, window, out), scale, out)


@dataclass
class _Known:
    """Sequences that were checked. `batches`: how many there are, if they are a batch: all have as many queries, and as
    many keys, which all queries see; else 0. `calls`: so far, of these sequences."""

    sequences: Sequences
    batches: int
    calls: int = 0

    @property
    def is_met(self) -> bool:
        """Whether there were calls before: only such calls are recorded, since most batches have lengths of their
        own."""
        return self.calls > 1


def _of_call(
    q: Array, k: Array, v: Array, q_start: Array, k_start: Array, causal: bool, window: Window, out: Array | None
) -> _Known:
    """The sequences of a call. Raises `ArgumentError` for arguments that do not go together."""
    function = "attention_of_sequences"
    check_heads(function, q.shape[1], k.shape[1])
    if out is not None:
        check_apart(function, out, k=k, v=v)
    known = _sequences(function, q.shape[0], k.shape[0], q_start, k_start, causal, window)
    known.calls += 1
    return known


def _run(q: Array, k: Array, v: Array, known: _Known, scale: float | None, out: Array | None) -> tuple[Array, Array]:
    run, sequences = _run_again if known.is_met else _run_sequences, known.sequences
    band = sequences.band
    return run(q, k, v, sequences.queries, sequences.keys, band.back, band.ahead, scale, out)


def _run_batches(q: Array, k: Array, v: Array, batches: int, scale: float | None, out: Array | None) -> Array:
    """Attention of sequences that are a batch."""
    out = empty_like(q, (*q.shape[:2], v.shape[2])) if out is None else out
    queries, keys, values, result = (_as_batches(each, batches) for each in (q, k, v, out))
    attention(queries, keys, values, scale, out=result)
    return out


def _as_batches(array: Array, batches: int) -> Array:
    """T × H × D as S × H × T / S × D; a view."""
    rows, *rest = array.shape
    return array.reshape((batches, rows // batches, *rest)).swapaxes(1, 2)


def _run_sequences(
    q: Array, k: Array, v: Array, q_start: tuple[int, ...], k_start: tuple[int, ...], back: int, ahead: int,
    scale: float | None, out: Array | None,
) -> tuple[Array, Array]:  # fmt: skip
    out = empty_like(q, (*q.shape[:2], v.shape[2])) if out is None else out
    batch, keys, values, result = (_as_batch(each) for each in (q, k, v, out))
    sequences = Sequences(q_start, k_start, Band(back, ahead))
    return out, run_blocks(batch, keys, values, scale_of(scale, batch), sequences, result)[0]


_run_again = replayed(_run_sequences)
_run_batches_again = replayed(_run_batches)


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
    """The gradients of q, k and v, given the gradient of `out`, which `attention_of_sequences_forward` gave beside the
    normaliser: new arrays. `grad`: of out's shape and dtype. Raises `ArgumentError` as that does."""
    function = "attention_of_sequences_backward"
    grad, q, k, v, out = (_as_batch(each) for each in (grad, q, k, v, out))
    check_heads(function, q.shape[1], k.shape[1])
    sequences = _sequences(function, q.shape[2], k.shape[2], q_start, k_start, causal, window).sequences
    found = run_gradients(grad, q, k, v, out, normaliser[None], scale_of(scale, q), sequences)
    dq, dk, dv = (each[0].swapaxes(0, 1) for each in found)
    return dq, dk, dv


def _as_batch(array: Array | None) -> Array:
    return None if array is None else array.swapaxes(0, 1)[None]


def _sequences(
    function: str, queries: int, keys: int, q_start: Array, k_start: Array, causal: bool, window: Window
) -> _Known:
    starts = (np.asarray(each if isinstance(each, np.ndarray) else each.cpu()) for each in (q_start, k_start))
    content = ((each.dtype, each.tobytes()) for each in starts)
    return _known(function, (queries, keys), tuple(content), band_of(causal, window))


@lru_cache(maxsize=256)
def _known(function: str, rows: tuple[int, int], starts: tuple[tuple[np.dtype, bytes], ...], band: Band) -> _Known:
    """Sequences by the content of their starts."""
    found = [np.frombuffer(content, dtype) for dtype, content in starts]
    for name, start, last in zip(("q_start", "k_start"), found, rows, strict=True):
        if start[0] != 0 or start[-1] != last or (start[1:] < start[:-1]).any():
            raise ArgumentError(f"{function}: {name} is {start.tolist()}, expected integers from 0 to {last}")
    sequences = Sequences(tuple(found[0].tolist()), tuple(found[1].tolist()), band)
    lengths = [np.unique(np.diff(start)) for start in found]
    alike = band == Band() and all(len(each) == 1 and each[0] > 0 for each in lengths)
    return _Known(sequences, len(found[0]) - 1 if alike else 0)


CATALOGUE = (
    entry(
        "attention",
        attention_rows,
        {"B": 4, "G": 8, "R": 4, "M": 2048, "N": 2048, "D": 64, "E": 64},
        CPU_HEADS,
        samples=SampleInputs(numbers=scale_number, layout=BY_HEADS),
    ),
    entry(
        "attention",
        attention_rows,
        {"B": 1, "G": 8, "R": 1, "M": 1024, "N": 1024, "D": 512, "E": 512},
        CPU_HEADS,
        samples=SampleInputs(numbers=scale_number, layout=BY_HEADS),
    ),
)
