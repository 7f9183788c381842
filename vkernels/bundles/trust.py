"""Which bundles may be loaded: those signed by a known key, and unsigned ones where that is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vkernels.ir.errors import OptionError, UntrustedError

from .container import Container
from .signing import Key, Signature, read_key, signatures_from_bytes

UNSIGNED = "unsigned"
"""Trust a bundle whoever wrote it: its code runs with all rights of this process."""

Trust = str | Path | Sequence[str | Path] | None


def known_keys_folder() -> Path:
    """The folder of the keys that this user trusts without naming them."""
    from platformdirs import user_config_path

    return user_config_path("vkernels") / "keys"


def keys_of(trust: Trust) -> list[Key]:
    """The keys to check with: those of the files that are named, else those in the user's folder of known keys.

    Raises `OptionError` for a `trust` that names no files.
    """
    if trust is None:
        folder = known_keys_folder()
        files: list[Path] = sorted(path for path in folder.glob("*") if path.is_file()) if folder.is_dir() else []
    else:
        named: Sequence[object] = trust if isinstance(trust, list | tuple) else (trust,)
        for name in named:
            if not isinstance(name, str | Path):
                raise OptionError(f'trust: expected a file with a key, a list of these, or "{UNSIGNED}", got {name!r}')
        files = [Path(str(name)) for name in named if name != UNSIGNED]
    return [read_key(path) for path in files]


def is_unsigned_allowed(trust: Trust) -> bool:
    """Whether unsigned bundles, and those of unknown keys, are asked for."""
    return trust == UNSIGNED or (isinstance(trust, list | tuple) and UNSIGNED in trust)


def signer_of(container: Container, keys: Sequence[Key]) -> Signature | None:
    """The first signature that one of the keys made.

    Raises `UntrustedError` for one that names such a key, and is not its signature.
    """
    for signature in signatures_from_bytes(container.signatures, container.name):
        for key in keys:
            if signature.key == key.id:
                if key.signed(signature, container.signed):
                    return signature
                raise UntrustedError(f"{container.name}: the signature of key {key.id} is wrong: do not use this file")
    return None


def refuse_untrusted(container: Container, trust: Trust) -> Signature | None:
    """The signature by which a bundle is trusted; None where it is trusted unsigned.

    Raises `UntrustedError` where it is not trusted.
    """
    signer = signer_of(container, keys_of(trust))
    if signer is not None or is_unsigned_allowed(trust):
        return signer
    signatures = signatures_from_bytes(container.signatures, container.name)
    by = ", ".join(each.key for each in signatures)
    raise UntrustedError(
        f"{container.name}: {f'signed by keys that are not known here ({by})' if by else 'not signed'}. Its code would "
        f"run with all rights of this process. Name the signer's key with trust=FILE (--trust FILE), put it into "
        f'{known_keys_folder()}, or load it all the same with trust="unsigned" (--trust-unsigned).'
    )
