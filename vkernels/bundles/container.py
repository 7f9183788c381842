"""The file of a bundle: a header, the manifest, signatures, and the files one after another without gaps.

Every byte is covered: the header by its own rules, the manifest and the signatures by hashes in the header, the files
by hashes in the manifest. Hashes find damage; only signatures say who wrote a bundle.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vkernels.ir.errors import BundleError, FileError

from .manifest import FORMAT, File, Manifest, manifest_from_bytes, manifest_to_bytes

MAGIC = b"vkbundle"
OLDEST = 1
"""The oldest format that is read."""

HEADER = struct.Struct("<8sIIQQQ32s32s")
"""Magic, format, zero, bytes of the manifest, of the signatures and of all, SHA-256 of the manifest and signatures."""

MAX_BUNDLE, MAX_MANIFEST, MAX_SIGNATURES = 1 << 31, 1 << 26, 1 << 16
MAX_FILE, MAX_CONTENT = 1 << 28, 1 << 32
"""Bytes of one file's content, and of all together."""


@dataclass(frozen=True)
class Container:
    """A bundle's bytes, taken apart and checked. `signed`: what a signature signs."""

    name: str
    manifest: Manifest
    signatures: bytes
    signed: bytes
    data: bytes = field(repr=False)
    start: int = field(repr=False)

    def read(self, name: str) -> bytes:
        """The content of a file. Raises `BundleError` for one that is not there, or whose content is not as stated."""
        entry = self._files.get(name)
        if entry is None:
            raise BundleError(f"{self.name}: there is no file {name}")
        stored = self._stored(entry)
        if entry.compression == "none":
            return stored
        unpack = zlib.decompressobj()
        try:
            content = unpack.decompress(stored, entry.size + 1)
        except zlib.error as error:
            raise BundleError(f"{self.name}: {name} cannot be unpacked: {error}") from None
        if len(content) != entry.size or not unpack.eof or unpack.unused_data:
            raise BundleError(f"{self.name}: {name} does not unpack to the {entry.size} bytes that the manifest states")
        return content

    @property
    def _files(self) -> Mapping[str, File]:
        return {each.name: each for each in self.manifest.files}

    def _stored(self, entry: File) -> bytes:
        begin = self.start + entry.offset
        return self.data[begin : begin + entry.stored]

    def check_files(self) -> None:
        """Raise `BundleError` where files have gaps, overlap, are too large, or differ from their hashes."""
        end, content = 0, 0
        for entry in self.manifest.files:
            if entry.offset != end:
                raise BundleError(f"{self.name}: {entry.name} does not follow the file before it")
            end, content = end + entry.stored, content + entry.size
            if entry.size > MAX_FILE or content > MAX_CONTENT:
                raise BundleError(f"{self.name}: {entry.name} is too large: {entry.size} bytes")
            if entry.compression == "none" and entry.size != entry.stored:
                raise BundleError(f"{self.name}: {entry.name} has two sizes")
        if self.start + end != len(self.data):
            raise BundleError(f"{self.name}: the files take {end} bytes, {len(self.data) - self.start} are there")
        for entry in self.manifest.files:
            if hashlib.sha256(self._stored(entry)).hexdigest() != entry.sha256:
                raise BundleError(f"{self.name}: {entry.name} is damaged: its SHA-256 differs")


def read_container(path: Path) -> Container:
    """Read a bundle's file, and check all of it. Nothing of it runs.

    Raises `BundleError` for what is no bundle, is damaged, or has a format that is not read here, and `FileError` where
    the file cannot be read.
    """
    name = path.name
    try:
        with path.open("rb") as file:
            data = file.read(HEADER.size)
            if data.startswith(MAGIC):  # what is no bundle may be endless
                data += file.read(MAX_BUNDLE + 1 - HEADER.size)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror or error}") from None
    return container_of(data, name)


def container_of(data: bytes, name: str) -> Container:
    """Take a bundle's bytes apart, and check them. `name`: of the file in messages."""
    if len(data) > MAX_BUNDLE:
        raise BundleError(f"{name}: larger than {MAX_BUNDLE} bytes")
    if data[: len(MAGIC)] != MAGIC:
        raise BundleError(f"{name}: this is no bundle of vkernels")
    if len(data) < HEADER.size:
        raise BundleError(f"{name}: truncated: {len(data)} bytes")
    _, number, zero, manifest_bytes, signature_bytes, total, manifest_hash, signatures_hash = HEADER.unpack_from(data)
    if number > FORMAT:
        raise BundleError(f"{name}: format {number} is newer than this vkernels reads ({FORMAT}); install a newer one")
    if number < OLDEST:
        raise BundleError(f"{name}: format {number} is older than this vkernels reads ({OLDEST}); build it again")
    if zero:
        raise BundleError(f"{name}: damaged: bytes 12 to 15 of the header are not zero")
    if total != len(data):
        raise BundleError(f"{name}: damaged: the header states {total} bytes, and there are {len(data)}")
    start = HEADER.size + manifest_bytes + signature_bytes
    if manifest_bytes > MAX_MANIFEST or signature_bytes > MAX_SIGNATURES or start > total:
        raise BundleError(f"{name}: damaged: the sizes in the header do not go together")
    manifest = data[HEADER.size : HEADER.size + manifest_bytes]
    signatures = data[HEADER.size + manifest_bytes : start]
    if hashlib.sha256(manifest).digest() != manifest_hash:
        raise BundleError(f"{name}: the manifest is damaged: its SHA-256 differs")
    if hashlib.sha256(signatures).digest() != signatures_hash:
        raise BundleError(f"{name}: the signatures are damaged: their SHA-256 differs")
    found = Container(
        name, manifest_from_bytes(manifest, name), signatures, signed_bytes(number, manifest), data, start
    )  # fmt: skip
    if found.manifest.format > number:
        raise BundleError(f"{name}: format {number} has no code for GPUs")
    found.check_files()
    return found


def signed_bytes(number: int, manifest: bytes) -> bytes:
    """What a signature signs: the format's number and the manifest, which has the hashes of all files."""
    return b"vkernels bundle\0" + struct.pack("<I", number) + hashlib.sha256(manifest).digest()


def packed_files(files: Mapping[str, bytes]) -> tuple[tuple[File, ...], bytes]:
    """Files as a bundle stores them: their entries, and their bytes one after another."""
    entries, stored, offset = [], [], 0
    for name, content in sorted(files.items()):
        packed = zlib.compress(content, 9)
        is_smaller = len(packed) < len(content)
        kept = packed if is_smaller else content
        digest = hashlib.sha256(kept).hexdigest()
        entries.append(File(name, offset, len(kept), len(content), digest, "zlib" if is_smaller else "none"))
        stored.append(kept)
        offset += len(kept)
    return tuple(entries), b"".join(stored)


def container_bytes(manifest: Manifest, stored: bytes, signatures: bytes) -> bytes:
    """The bytes of a bundle. `stored`: of its files, as the manifest lists them."""
    text = manifest_to_bytes(manifest)
    total = HEADER.size + len(text) + len(signatures) + len(stored)
    digests = hashlib.sha256(text).digest(), hashlib.sha256(signatures).digest()
    return (
        HEADER.pack(MAGIC, manifest.format, 0, len(text), len(signatures), total, *digests) + text + signatures + stored
    )
