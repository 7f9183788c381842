"""What a compiler prints: its beginning and its end, however much it is."""

from __future__ import annotations

import re

_KEPT_BYTES = 4096
_ERROR = re.compile(r"LLVM ERROR:.*|.*Assertion .*failed.*|\b(?:fatal )?error: .*")


class StderrTail:
    """Beginning and end of a text that arrives in pieces, at most `_KEPT_BYTES` bytes of each."""

    def __init__(self) -> None:
        self._beginning, self._end, self._bytes = b"", b"", 0

    def add(self, data: bytes) -> None:
        """Take the next piece."""
        self._bytes += len(data)
        taken = _KEPT_BYTES - len(self._beginning)
        self._beginning += data[:taken]
        self._end = (self._end + data[taken:])[-_KEPT_BYTES:]

    def text(self) -> str:
        """What is kept, with a line that says how much is not."""
        left_out = self._bytes - len(self._beginning) - len(self._end)
        between = b"\n[%d bytes left out]\n" % left_out if left_out else b""
        return (self._beginning + between + self._end).decode(errors="replace")

    def error_line(self) -> str:
        """The first line that names a mistake; empty where there is none."""
        match = _ERROR.search(self.text())
        return match[0].strip() if match else ""
