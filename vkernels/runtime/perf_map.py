"""Tell Linux's `perf` where native code of kernels is, and which kernel and line it is for; docs/tracing.md.

`perf report` reads `/tmp/perf-PID.map`: a line for each function with its address and size, in hexadecimal, and name.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vkernels.compiler import timeline
from vkernels.compiler.timeline import LoadedCode, Span
from vkernels.ir.errors import SetupError

from .objects.elf import read_object


def perf_map_file(process: int) -> Path:
    """The file where `perf` looks for a process's functions."""
    return Path(f"/tmp/perf-{process}.map")


class PerfMap:
    """Appends the functions of all native code that is loaded to a file."""

    def __init__(self, file: Path):
        self._lock = threading.Lock()
        try:  # nobody else's: /tmp is everybody's
            handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise SetupError(f"cannot write {file}: {error.strerror}") from error
        if os.fstat(handle).st_uid != os.getuid():
            os.close(handle)
            raise SetupError(f"{file} belongs to another user")
        self._out = os.fdopen(handle, "a", buffering=1)

    def ended(self, span: Span) -> None:
        """Nothing: only code matters."""

    def loaded(self, code: LoadedCode) -> None:
        """Append the functions of loaded code."""
        lines = [f"{start:x} {size:x} {name}\n" for start, size, name in functions_of(code)]
        with self._lock:
            self._out.writelines(lines)

    def close(self) -> None:
        """Close the file, which stays for `perf report`."""
        self._out.close()


def functions_of(code: LoadedCode) -> Iterator[tuple[int, int, str]]:
    """Address, bytes and name of each function of loaded code; names begin with the kernel and the author's line."""
    loaded, work = read_object(code.object), code.work
    place = f" {os.path.basename(work.file)}:{work.line}" if work is not None and work.file else ""
    for number, section in loaded.sections.items():
        here = (each for each in loaded.symbols.values() if each.section == number and each.name)
        symbols = sorted({(each.value, each.name) for each in here})
        base = next((code.addresses[name] - value for value, name in symbols if name in code.addresses), None)
        if not section.is_code or base is None:
            continue
        ends = [*(value for value, _ in symbols[1:]), section.size]
        for (value, name), end in zip(symbols, ends, strict=True):
            if end > value:
                yield base + value, end - value, f"{name}{place}"


@contextmanager
def perf_map() -> Iterator[Path]:
    """Name native code that is loaded while the block runs for `perf`; gives the file.

    Raises `SetupError` if the file cannot be written.
    """
    file = perf_map_file(os.getpid())
    writer = PerfMap(file)
    try:
        with timeline.listening(writer):
            yield file
    finally:
        writer.close()
