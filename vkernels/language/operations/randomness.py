"""Counter-based random numbers: Philox4x32-10 (Salmon et al., SC 2011). Results depend only on seed and counter."""

from __future__ import annotations

from typing import Any

from ..dtypes import float32, int32, int64
from ..operation import operation
from ..values import Tile
from .current_builder import current_builder

_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF


@operation
def random_bits(seed: Any, counter: Any) -> Tile:
    """32 random bits, int32: the first word of Philox4x32-10 with the 64-bit `seed` as key, `counter` as counter."""
    key, count = _words(seed), _words(counter)
    words: list[Any] = [*count, 0, 0]
    for number in range(_ROUNDS):
        keys = [(k + number * w) & _LOW for k, w in zip(key, _WEYL, strict=True)]
        left, right = (word * m for word, m in zip((words[0], words[2]), _MULTIPLIERS, strict=True))
        words = [
            _high(right) ^ words[1] ^ keys[0],
            right & _LOW,
            _high(left) ^ words[3] ^ keys[1],
            left & _LOW,
        ]
    return current_builder().tile(words[0], int32)


def _words(value: Any) -> tuple[Any, Any]:
    """The low and the high 32 bits of an integer, each in 64."""
    if isinstance(value, int):
        return value & _LOW, (value >> 32) & _LOW
    wide = current_builder().tile(value, int64)
    return wide & _LOW, _high(wide)


def _high(value: Any) -> Any:
    return (value >> 32) & _LOW


@operation
def random(seed: Any, counter: Any) -> Tile:
    """Uniform in [0, 1), float32, 24 random bits: `vk.random(seed, i)`; each position has its own number."""
    bits = (random_bits(seed, counter) >> 8) & 0xFFFFFF
    return current_builder().convert(bits, float32) * (1.0 / (1 << 24))  # type: ignore[no-any-return]
