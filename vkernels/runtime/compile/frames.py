"""Messages on a pipe between a pool and its workers: the length in eight bytes, then so many bytes."""

from __future__ import annotations

from typing import BinaryIO

MOST_BYTES = 1 << 30
"""A longer message is nonsense: nothing like it is ever sent."""

_PREFIX = 8


def framed(message: bytes) -> bytes:
    """A message as it goes through the pipe. Raises `ValueError` for one of more than `MOST_BYTES`."""
    if len(message) > MOST_BYTES:
        raise ValueError(f"a message of {len(message)} bytes is too long")
    return len(message).to_bytes(_PREFIX, "big") + message


def first_of(received: bytes | bytearray) -> bytes | None:
    """The first message of what has been received, or None while it is not complete.

    Raises `ValueError` where no message can follow.
    """
    if len(received) < _PREFIX:
        return None
    length = _length(received[:_PREFIX])
    return bytes(received[_PREFIX : _PREFIX + length]) if len(received) >= _PREFIX + length else None


def read_frame(file: BinaryIO) -> bytes | None:
    """The next message, waiting for it; None where the pipe ends, be it within a message."""
    prefix = file.read(_PREFIX)
    if len(prefix) < _PREFIX:
        return None
    length = _length(prefix)
    message = file.read(length)
    return message if len(message) == length else None


def _length(prefix: bytes | bytearray) -> int:
    length = int.from_bytes(prefix, "big")
    if length > MOST_BYTES:
        raise ValueError(f"a message of {length} bytes")
    return length
