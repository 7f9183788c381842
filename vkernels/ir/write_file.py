"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from .errors import FileError
from .system_resources import scarcity_of


def write_file(path: Path | str, data: str | bytes) -> None:
    """Write a file, text in UTF-8: another that was there is replaced once all is written.

    Raises `ResourceError` for a disk that is full, `FileError` for what cannot be written there; no part of it stays.
    """
    with replacing(Path(path)) as unfinished:
        unfinished.write_bytes(data.encode() if isinstance(data, str) else data)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to: what is there in the end takes the place of `path`. Raises as `write_file`.

    Pipes and devices are written to as they are. Links are followed; a file that is replaced keeps its mode.
    """
    try:
        mode = _mode(path)
        whole = path.resolve() if path.is_symlink() else path
        if mode is not None and (not _is_replaceable(path, mode) or not os.access(whole.parent, os.W_OK)):
            yield path
            return
        unfinished = whole.with_name(f".{token_hex(8)}.unfinished")
        try:
            yield unfinished
            if mode is not None:
                unfinished.chmod(stat.S_IMODE(mode))
            with unfinished.open("rb") as file:
                os.fsync(file.fileno())  # some file systems find out only now that there is no room
            unfinished.replace(whole)
        finally:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
    except OSError as error:
        raise scarcity_of(error, str(path)) or FileError(f"{path}: {error.strerror or error}") from error


def _is_replaceable(path: Path, mode: int) -> bool:
    """Whether it is a regular file under its own name: no device, no pipe, no open file such as `/dev/stdout`."""
    return stat.S_ISREG(mode) and not str(path).startswith(("/proc/", "/dev/fd/", "/dev/std"))


def _mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None
