"""A bundle that was opened: its manifest and files, and who signed it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from vkernels.ir.errors import BundleError, FileError
from vkernels.ir.write_file import write_file

from .container import Container, container_bytes, packed_files, read_container, signed_bytes
from .manifest import Manifest, manifest_to_bytes
from .signing import Key, Signature, signatures_from_bytes, signatures_to_bytes
from .trust import Trust, refuse_untrusted


@dataclass(frozen=True)
class Bundle:
    """A bundle whose bytes are as its hashes say. `signer`: by whose signature it is trusted, if by any."""

    path: Path
    container: Container = field(repr=False)
    signer: Signature | None = None

    @property
    def manifest(self) -> Manifest:
        return self.container.manifest

    @property
    def signatures(self) -> tuple[Signature, ...]:
        """All signatures, whether their keys are known or not."""
        return signatures_from_bytes(self.container.signatures, self.path.name)

    def read(self, name: str) -> bytes:
        """The content of a file. Raises `BundleError`."""
        return self.container.read(name)


def open_bundle(path: str | os.PathLike[str], trust: Trust = None, runs: bool = True) -> Bundle:
    """Open a bundle, and check every byte of it. `runs`: whether its code is to run, so that it must be trusted.

    Raises `BundleError` for what is damaged or not read here, `UntrustedError` for what is not trusted, and `FileError`
    where a file cannot be read.
    """
    where = Path(path)
    container = read_container(where)
    return Bundle(where, container, refuse_untrusted(container, trust) if runs else None)


@contextmanager
def as_bundle_error() -> Iterator[None]:
    """Within it, a file of a bundle that cannot be read raises `BundleError`, as all that is wrong with a bundle."""
    try:
        yield
    except BundleError:
        raise
    except FileError as error:
        raise BundleError(str(error)) from None


def write_bundle(path: Path, manifest: Manifest, files: Mapping[str, bytes], keys: Sequence[Key] = ()) -> None:
    """Write a bundle, signed by these keys, in one step: no reader sees a part of it.

    `manifest.files` is replaced. Raises as `write_file`.
    """
    entries, stored = packed_files(files)
    complete = msgspec.structs.replace(manifest, files=entries)
    message = signed_bytes(complete.format, manifest_to_bytes(complete))
    data = container_bytes(complete, stored, signatures_to_bytes([key.sign(message) for key in keys]))
    write_file(path, data)


def content_name(folder: str, content: bytes, ending: str) -> str:
    """A file's name that follows from its content: the same content is stored once."""
    return f"{folder}/{hashlib.sha256(content).hexdigest()[:24]}.{ending}"
