"""Compare bundles, and put several into one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from vkernels.ir.errors import BundleError

from .bundle import Bundle
from .frozen_kernel import described
from .manifest import Code, Kernel, Manifest, Variant, merged_variants
from .provenance import provenance_now


def differences(one: Bundle, other: Bundle) -> Iterator[str]:
    """How `other` differs from `one`, a line each: kernels, their IR, and code for sizes and targets."""
    ones, others = ({kernel.name: kernel for kernel in each.manifest.kernels} for each in (one, other))
    for name in dict.fromkeys([*ones, *others]):
        if name not in others:
            yield f"- {name}"
        elif name not in ones:
            yield f"+ {name}"
        else:
            yield from _of_kernels(ones[name], others[name], one, other)


def _of_kernels(one: Kernel, other: Kernel, of_one: Bundle, of_other: Bundle) -> Iterator[str]:
    if one.parameters != other.parameters:
        yield f"~ {one.name}: other parameters"
    if one.source != other.source:
        yield f"~ {one.name}: the kernel's text has changed"
    ones, others = ({variant_key(each): each for each in kernel.variants} for kernel in (one, other))
    for key in dict.fromkeys([*ones, *others]):
        what = f"{one.name} {key}".rstrip()
        if key not in others:
            yield f"- {what}"
        elif key not in ones:
            yield f"+ {what}"
        else:
            if ones[key].ir != others[key].ir:
                yield f"~ {what}: other IR"
            yield from _of_codes(what, ones[key], others[key])


def _of_codes(what: str, one: Variant, other: Variant) -> Iterator[str]:
    ones, others = ({code_key(code): code for code in variant.codes} for variant in (one, other))
    for key in dict.fromkeys([*ones, *others]):
        if key not in others:
            yield f"- {what} {key}"
        elif key not in ones:
            yield f"+ {what} {key}"
        elif ones[key] != others[key]:
            changed = [
                name for name, before, after in (
                    ("plan", ones[key].plan, others[key].plan),
                    ("code", (ones[key].cpu, ones[key].gpu), (others[key].cpu, others[key].gpu)),
                    ("assumptions", ones[key].assumes, others[key].assumes),
                    ("limits", ones[key].limits, others[key].limits),
                ) if before != after
            ]  # fmt: skip
            yield f"~ {what} {key}: {', '.join(changed) or 'description'}"


def variant_key(variant: Variant) -> str:
    """A variant's dtypes, scalars and constants for people."""
    return described([*variant.tensors, *variant.scalars, *variant.constants])


def code_key(code: Code) -> str:
    """What a piece of code is for, for people."""
    which = described(code.shape) if code.role == "shape" else {"class": "other sizes", "plain": "any sizes"}[code.role]
    same = "".join(f", {one} is {other}" for one, other in code.same)
    apart = ", tensors at any address" if code.gpu is not None and not code.assumes.aligned else ""
    return f"({which}{same}{apart}) for {code.target}"


def merged(bundles: Sequence[Bundle], command: str = "") -> tuple[Manifest, dict[str, bytes]]:
    """One bundle's manifest and files, of several. `command`: that merges them, for readers.

    Where two have code for the same call, that of the first is taken at calls. Raises `BundleError` for two kernels of
    one name with other texts.
    """
    kernels: dict[str, Kernel] = {}
    files: dict[str, bytes] = {}
    for bundle in bundles:
        for kernel in bundle.manifest.kernels:
            known = kernels.get(kernel.name, kernel)
            if msgspec.structs.replace(known, variants=()) != msgspec.structs.replace(kernel, variants=()):
                raise BundleError(
                    f"{bundle.path.name}: the kernel {kernel.name} is another one than in the files before"
                )
            variants = known.variants if known is kernel else (*known.variants, *kernel.variants)
            kernels[kernel.name] = msgspec.structs.replace(known, variants=merged_variants(variants))
        files |= {entry.name: bundle.read(entry.name) for entry in bundle.manifest.files}
    support = {each.object: each for bundle in bundles for each in bundle.manifest.support}
    provenance = msgspec.structs.replace(
        provenance_now(command), merged=tuple(bundle.manifest.provenance for bundle in bundles)
    )  # fmt: skip
    return Manifest(provenance, (*kernels.values(),), (*support.values(),), ()), files
