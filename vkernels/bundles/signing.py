"""Sign bundles, and check signatures: Ed25519 (by the `cryptography` package) or HMAC with a shared secret."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from vkernels.ir.errors import BundleError, FileError, OptionError, SetupError

ED25519: Literal["ed25519"] = "ed25519"
HMAC: Literal["hmac-sha256"] = "hmac-sha256"
MIN_SECRET, MAX_KEY_FILE, MAX_SIGNATURES = 32, 1 << 16, 100


class Signature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A signature of a bundle. `key`: what tells keys apart; `value`: in hexadecimal."""

    algorithm: Literal["ed25519", "hmac-sha256"]
    key: Annotated[str, Meta(pattern=r"^[0-9a-f]{32}$")]
    value: Annotated[str, Meta(pattern=r"^([0-9a-f]{2}){1,256}$")]


@dataclass(frozen=True)
class Key:
    """A key. `id`: what tells it from others; `can_sign`: whether it signs, or only checks."""

    algorithm: Literal["ed25519", "hmac-sha256"]
    id: str
    can_sign: bool
    _secret: Any = field(repr=False)
    _public: Any = field(repr=False, default=None)

    def sign(self, message: bytes) -> Signature:
        """Sign a message. Raises `OptionError` for a key that only checks."""
        if not self.can_sign:
            raise OptionError(f"key {self.id} is a public one: signing takes the private key")
        value = _mac(self._secret, message) if self.algorithm == HMAC else self._secret.sign(message)
        return Signature(self.algorithm, self.id, value.hex())

    def signed(self, signature: Signature, message: bytes) -> bool:
        """Whether the signature is this key's, of this message."""
        if (signature.algorithm, signature.key) != (self.algorithm, self.id):
            return False
        value = bytes.fromhex(signature.value)
        if self.algorithm == HMAC:
            return hmac.compare_digest(value, _mac(self._secret, message))
        from cryptography.exceptions import InvalidSignature

        try:
            self._public.verify(value, message)
        except InvalidSignature:
            return False
        return True


def read_key(path: Path) -> Key:
    """Read a key's file: an Ed25519 key as PEM, private or public, or a secret of 32 bytes or more for HMAC.

    Raises `FileError` for a file that is neither, and `SetupError` where the `cryptography` package is missing.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_KEY_FILE + 1)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror or error}") from None
    if data.lstrip().startswith(b"-----BEGIN"):
        return _ed25519(data, path)
    if not MIN_SECRET <= len(data) <= MAX_KEY_FILE:
        raise FileError(f"{path}: expected an Ed25519 key as PEM, or a secret of {MIN_SECRET} bytes or more")
    return Key(HMAC, hashlib.sha256(b"vkernels hmac key\0" + data).hexdigest()[:32], True, data)


def signatures_to_bytes(signatures: Sequence[Signature]) -> bytes:
    """Signatures as a bundle stores them."""
    return msgspec.json.encode(list(signatures)) if signatures else b""


def signatures_from_bytes(data: bytes, where: str) -> tuple[Signature, ...]:
    """The signatures of a bundle. Raises `BundleError`."""
    try:
        found = msgspec.json.decode(data, type=tuple[Signature, ...]) if data else ()
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise BundleError(f"{where}: the signatures cannot be read: {error}") from None
    if len(found) > MAX_SIGNATURES:
        raise BundleError(f"{where}: {len(found)} signatures are too many")
    return found


def _mac(secret: bytes, message: bytes) -> bytes:
    return hmac.new(secret, message, hashlib.sha256).digest()


def _ed25519(data: bytes, path: Path) -> Key:
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            PublicFormat,
            load_pem_private_key,
            load_pem_public_key,
        )
    except ImportError:
        raise SetupError(f"{path}: Ed25519 keys need the package cryptography: pip install cryptography") from None
    try:
        is_private = b"PRIVATE KEY" in data
        found = load_pem_private_key(data, None) if is_private else load_pem_public_key(data)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise FileError(f"{path}: not a key that can be read: {error}") from None
    public = found.public_key() if isinstance(found, Ed25519PrivateKey) else found
    if not isinstance(public, Ed25519PublicKey):
        raise FileError(f"{path}: expected an Ed25519 key")
    id = hashlib.sha256(public.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()[:32]
    return Key(ED25519, id, isinstance(found, Ed25519PrivateKey), found, public)
