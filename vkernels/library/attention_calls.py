"""What calls of attention share: which keys queries see, the blocks that work is cut into, shapes, views, launches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

import vkernels as vk

from .annotations import NotNegative
from .arrays import Array, empty_like, is_captured, zeros
from .attention_blocks import attention_blocks
from .attention_gradients import attention_key_gradients, attention_query_gradient
from .replay import constant
from .rules import MismatchError, rules_of

Window = NotNegative | tuple[NotNegative | None, NotNegative | None] | None
"""How many places before and after its own a query sees; None: no bound."""
UNLIMITED = 1 << 62
"""Places that are more than there are."""
LARGEST, SMALLEST = 64, 16
"""Queries, or keys, of a block."""


@dataclass(frozen=True)
class Band:
    """How many places before its own a query sees, and how many after it."""

    back: int = UNLIMITED
    ahead: int = UNLIMITED

    @property
    def turned(self) -> Band:
        """How many places before its own a key is seen from, and how many after it."""
        return Band(self.ahead, self.back)

    def within(self, rows: int, keys: int) -> Band:
        """The same, without bounds that bind none of so many queries among so many keys."""
        back = UNLIMITED if self.back >= keys - 1 else self.back
        return Band(back, UNLIMITED if self.ahead >= rows - 1 else self.ahead)


def bounds_of(function: str, window: Window) -> tuple[int | None, int | None]:
    """How many places before and after its own a query sees; raises `ArgumentError` for what no window is."""
    try:
        found = None if window is None else _WINDOW.accept(window)
    except MismatchError:
        raise vk.ArgumentError(f"{function}: window is {window!r}, expected {_WINDOW.expected}") from None
    return found if isinstance(found, tuple) else (found, found)


_WINDOW = rules_of(Window)


def band_of(causal: bool, window: Window) -> Band:
    """Which keys queries see."""
    pair = (window, window) if window is None or isinstance(window, int) else window
    back, ahead = (UNLIMITED if each is None else min(each, UNLIMITED) for each in pair)
    return Band(back, 0 if causal else ahead)


@dataclass(frozen=True)
class Sequences:
    """Where sequences of queries and of keys start and the last ends, and which of its keys each query sees."""

    queries: tuple[int, ...]
    keys: tuple[int, ...]
    band: Band


@dataclass(frozen=True)
class Blocks:
    """What `attention_blocks` and its like are told of the blocks that they work on."""

    table: Array
    band: Band
    size: int

    @property
    def arguments(self) -> tuple[Array, int, int]:
        return self.table, self.band.back, self.band.ahead

    @property
    def constants(self) -> tuple[bool, int]:
        return self.band.back < UNLIMITED, self.size


def blocks_of(sequences: Sequences, device: Any, of_keys: bool = False) -> Blocks:
    """Blocks of queries, each with the keys that it sees; or of keys, each with the queries that see it.

    `device`: a torch device, or None for NumPy. Raises `ArgumentError` for what is not known yet while a GPU's graph is
    captured; what is stays where it is from then on, since replays read it.
    """
    table, band, size = _blocks_of(sequences, device, of_keys)
    if is_captured(device):
        _captured[id(table)] = table
    return Blocks(constant(table), band, size)


_captured: dict[int, Array] = {}
"""Tables that graphs read whenever they are replayed."""


@lru_cache(maxsize=256)
def _blocks_of(sequences: Sequences, device: Any, of_keys: bool) -> tuple[Array, Band, int]:
    if is_captured(device):
        raise vk.ArgumentError(
            "attention: a first call of these sizes tells the GPU which keys a block of queries sees, which cannot be "
            "done while a CUDA graph is captured: make a call like it before"
        )
    start, other = (np.array(each, np.int64) for each in (sequences.queries, sequences.keys))
    start, other, band = (other, start, sequences.band.turned) if of_keys else (start, other, sequences.band)
    longest = int(np.diff(start).max(initial=0))
    size = min(LARGEST, max(SMALLEST, 1 << max(0, longest - 1).bit_length()))
    table = table_of_blocks(start, other, band, size)
    if device is None:
        return table, band, size
    import torch

    return torch.from_numpy(table).to(device), band, size


def table_of_blocks(start: np.ndarray, other: np.ndarray, band: Band, size: int) -> np.ndarray:
    """Of each block: its first row and where it ends; the first of the other rows that it looks at and where those end;
    and how far its rows' places among the others are from them: the last row of a sequence stands at the others' last.
    """
    counts = -(-np.diff(start) // size)
    sequence = np.repeat(np.arange(len(counts)), counts)
    number = np.arange(len(sequence)) - np.repeat(np.cumsum(counts) - counts, counts)
    first = start[sequence] + size * number
    last = np.minimum(first + size, start[sequence + 1])
    shift = other[sequence + 1] - start[sequence + 1]
    least, most = other[sequence], other[sequence + 1]
    begin = np.clip(first + shift - band.back, least, most)
    end = np.clip(last + shift + band.ahead, begin, most)
    return np.stack([first, last, begin, end, shift], 1)


def check_heads(function: str, heads: int, groups: int) -> None:
    """Raises `ArgumentError` where heads of queries do not share those of keys evenly."""
    if heads != groups * (heads // max(1, groups)):
        raise vk.ArgumentError(f"{function}: q has {heads} heads, expected a multiple of k's {groups}")


def scale_of(scale: float | None, q: Array) -> float:
    return 1.0 / max(1, q.shape[3]) ** 0.5 if scale is None else scale


def by_groups(array: Array, groups: int) -> Array:
    """B × H × … as B × G × H / G × …; a view."""
    shape = tuple(array.shape)
    return array.reshape((shape[0], groups, shape[1] // max(1, groups), *shape[2:]))


def run_blocks(q: Array, k: Array, v: Array, scale: float, sequences: Sequences, out: Array) -> Array:
    """Writes `out` and returns the normaliser, B × H × M."""
    groups = k.shape[1]
    normaliser = empty_like(q, tuple(q.shape[:3]), computed=True)
    if k.shape[2] == 0:
        out[...], normaliser[...] = 0, -float("inf")
        return normaliser
    blocks = blocks_of(sequences, None if isinstance(q, np.ndarray) else q.device)
    query, result = (by_groups(each, groups).swapaxes(3, 4) for each in (q, out))
    sums = by_groups(normaliser, groups)
    attention_blocks(query, k, v, scale, *blocks.arguments, result, sums, *blocks.constants)
    return normaliser


def run_gradients(
    grad: Array, q: Array, k: Array, v: Array, out: Array, normaliser: Array, scale: float, sequences: Sequences
) -> tuple[Array, Array, Array]:
    """The gradients of q, k and v: new arrays."""
    groups, device = k.shape[1], None if isinstance(q, np.ndarray) else q.device
    if 0 in (q.shape[2], k.shape[2]):
        return zeros(q, tuple(q.shape)), zeros(k, tuple(k.shape)), zeros(v, tuple(v.shape))
    dq, dk, dv = (empty_like(each, tuple(each.shape)) for each in (q, k, v))
    grad, q, out, normaliser, of_q = (by_groups(each, groups) for each in (grad, q, out, normaliser, dq))
    mean = empty_like(normaliser, tuple(normaliser.shape))
    blocks = blocks_of(sequences, device)
    change, query, result, of_query = (each.swapaxes(3, 4) for each in (grad, q, out, of_q))
    attention_query_gradient(
        change, query, k, v, result, normaliser, scale, *blocks.arguments, mean, of_query, *blocks.constants
    )
    blocks = blocks_of(sequences, device, of_keys=True)
    key, value, of_key, of_value = (each.swapaxes(2, 3) for each in (k, v, dk, dv))
    attention_key_gradients(
        grad, q, key, value, normaliser, mean, scale, *blocks.arguments, of_key, of_value, *blocks.constants
    )
    return dq, dk, dv
