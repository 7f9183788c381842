"""Frozen dataclasses as bytes, and back. Reading checks every field, and runs no code of the sender's."""

from __future__ import annotations

import threading
from typing import Any

import msgspec

_decoders: dict[type[Any], msgspec.msgpack.Decoder[Any]] = {}
_lock = threading.Lock()
"""msgspec crashes where threads look at a dataclass for the first time together."""


def to_bytes(record: Any) -> bytes:
    """A record as bytes that `from_bytes` reads. Raises `TypeError` for a field that is no plain value."""
    return msgspec.msgpack.encode((type(record).__name__, record))


def from_bytes(data: bytes, *kinds: type[Any]) -> Any:
    """The record that `to_bytes` wrote, if it is one of `kinds`. Raises `ValueError` for anything else."""
    try:
        name, record = msgspec.msgpack.decode(data, type=tuple[str, msgspec.Raw])
        return next(_decoder(kind).decode(record) for kind in kinds if kind.__name__ == name)
    except (ValueError, TypeError, RecursionError, msgspec.MsgspecError, StopIteration) as error:
        names = " or ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"these bytes are no {names}: {error!r}") from error


def _decoder(kind: type[Any]) -> msgspec.msgpack.Decoder[Any]:
    with _lock:
        if kind not in _decoders:
            _decoders[kind] = msgspec.msgpack.Decoder(kind)
        return _decoders[kind]
