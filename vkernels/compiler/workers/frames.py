"""Messages on a pipe between a pool and its workers: the length in eight bytes, then the bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

MAX_BYTES = 1 << 30
"""Longer messages are refused."""

Send = Callable[[bytes], None]
"""Sends a message ahead of the answer."""
Handler = Callable[[bytes], bytes]
"""Answers a request."""

_PREFIX = 8


def framed(message: bytes) -> bytes:
    """A message as it goes through the pipe. Raises `ValueError` for one of more than `MAX_BYTES`."""
    if len(message) > MAX_BYTES:
        raise ValueError(f"a message of {len(message)} bytes is too long")
    return len(message).to_bytes(_PREFIX, "big") + message


def take_first(received: bytearray) -> bytes | None:
    """Remove and give the first message of what has been received; None while it is not complete.

    Raises `ValueError` where no message can follow.
    """
    if len(received) < _PREFIX:
        return None
    end = _PREFIX + _length(received[:_PREFIX])
    if len(received) < end:
        return None
    message = bytes(received[_PREFIX:end])
    del received[:end]
    return message


def read_frame(file: BinaryIO) -> bytes | None:
    """The next message, waiting for it; None where the pipe ends, also within a message."""
    prefix = file.read(_PREFIX)
    if len(prefix) < _PREFIX:
        return None
    length = _length(prefix)
    message = file.read(length)
    return message if len(message) == length else None


def _length(prefix: bytes | bytearray) -> int:
    length = int.from_bytes(prefix, "big")
    if length > MAX_BYTES:
        raise ValueError(f"a message of {length} bytes")
    return length
