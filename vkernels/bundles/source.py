"""Where a loaded bundle came from, so that another process can load it again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from .bundle import Bundle
from .manifest import manifest_to_bytes
from .trust import UNSIGNED, Trust


@dataclass(frozen=True)
class Source:
    """The arguments of the call that loaded a bundle, with absolute paths."""

    path: Path
    trust: Trust
    frozen: bool
    fallback: str


def digest_of(bundle: Bundle) -> str:
    """A hash of the manifest, which has the hashes of all files."""
    return hashlib.sha256(manifest_to_bytes(bundle.manifest)).hexdigest()


def absolute(trust: Trust) -> Trust:
    """The same keys, whatever the working folder."""
    if trust is None or trust == UNSIGNED:
        return trust
    named = [trust] if isinstance(trust, str | Path) else trust
    return [each if each == UNSIGNED else Path(each).absolute() for each in named]
