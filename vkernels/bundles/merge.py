"""Put several bundles into one, and refuse what they contradict each other in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from vkernels.ir.errors import BundleError

from .bundle import Bundle
from .compare import Part, code_key, code_parts, content_of, kernel_parts, variant_key, variant_parts
from .manifest import Code, Kernel, Manifest, Support, Variant
from .provenance import provenance_now

SHOWN = 5
"""Conflicts that a refusal lists; it counts the others."""


def merged(
    bundles: Sequence[Bundle], command: str = "", prefer: Bundle | None = None
) -> tuple[Manifest, dict[str, bytes]]:
    """One bundle's manifest and files, of several. `command`: that merges them, for readers.

    Code for other sizes than those that were named is that of the first bundle that has some. Raises `BundleError` for
    conflicts: kernels of one name with other texts, other IR for the same dtypes, and other code for the same sizes and
    target; what `prefer` says of these is taken, if that is given.
    """
    first = [] if prefer is None else [prefer]
    draft = _Draft(prefer)
    for bundle in [*first, *(bundle for bundle in bundles if bundle is not prefer)]:
        for kernel in bundle.manifest.kernels:
            draft.add_kernel(bundle, kernel)
        for support in bundle.manifest.support:
            draft.add_support(bundle, support)
    if draft.conflicts:
        raise BundleError(_refusal(draft.conflicts))
    provenance = msgspec.structs.replace(
        provenance_now(command), merged=tuple(bundle.manifest.provenance for bundle in bundles)
    )  # fmt: skip
    return Manifest(provenance, draft.kernels, (*draft.support.values(),), ()), draft.files


def _refusal(conflicts: Sequence[str]) -> str:
    more = f"\n  and {len(conflicts) - SHOWN} more" if len(conflicts) > SHOWN else ""
    listed = "".join(f"\n  {conflict}" for conflict in conflicts[:SHOWN])
    return f"the bundles contradict each other; --prefer FILE says which of them wins:{listed}{more}"


@dataclass
class _OneVariant:
    """A variant of the result. `bundle`: where it is from; `codes`: by their calls, with the bundles they are from."""

    bundle: Bundle
    record: Variant
    codes: dict[object, tuple[Bundle, Code]] = field(default_factory=dict)


@dataclass
class _OneKernel:
    """A kernel of the result. `bundle`: where it is from."""

    bundle: Bundle
    record: Kernel
    variants: dict[object, _OneVariant] = field(default_factory=dict)


@dataclass
class _Draft:
    """The result so far. `prefer`: the bundle that wins; it is added first."""

    prefer: Bundle | None
    found: dict[str, _OneKernel] = field(default_factory=dict)
    support: dict[object, Support] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    conflicts: list[str] = field(default_factory=list)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return tuple(
            msgspec.structs.replace(kernel.record, variants=tuple(
                msgspec.structs.replace(variant.record, codes=tuple(code for _, code in variant.codes.values()))
                for variant in kernel.variants.values()
            ))
            for kernel in self.found.values()
        )  # fmt: skip

    def add_kernel(self, bundle: Bundle, kernel: Kernel) -> None:
        known = self.found.setdefault(kernel.name, _OneKernel(bundle, kernel))
        if parts := kernel_parts(known.record, kernel):
            self._conflict(known.bundle, bundle, kernel.name, parts)
            return
        for variant in kernel.variants:
            self._add_variant(bundle, known, variant)

    def _add_variant(self, bundle: Bundle, kernel: _OneKernel, variant: Variant) -> None:
        key = variant.tensors, variant.scalars, tuple((name, type(value), value) for name, value in variant.constants)
        known = kernel.variants.setdefault(key, _OneVariant(bundle, variant))
        what = f"{kernel.record.name} {variant_key(variant)}".rstrip()
        if parts := variant_parts(known.record, variant):
            self._conflict(known.bundle, bundle, what, parts)
            return
        for code in variant.codes:
            self._add_code(bundle, known, code, what)

    def _add_code(self, bundle: Bundle, variant: _OneVariant, code: Code, what: str) -> None:
        key = calls_of(code)
        if key not in variant.codes:
            for name in (code.plan, *code.binaries):
                self._add_file(bundle, name)
            variant.codes[key] = bundle, code
            return
        of_known, known = variant.codes[key]
        if code.role == "shape" and content_of(of_known, known) != content_of(bundle, code):
            self._conflict(of_known, bundle, f"{what} {code_key(code)}", code_parts((of_known, known), (bundle, code)))

    def add_support(self, bundle: Bundle, support: Support) -> None:
        """The runtime's own code, which its key identifies."""
        key = support.key, support.machine
        if key not in self.support:
            self._add_file(bundle, support.object)
            self.support[key] = support

    def _add_file(self, bundle: Bundle, name: str) -> None:
        content = bundle.read(name)
        if self.files.setdefault(name, content) != content:
            raise BundleError(f"{bundle.path.name}: {name} has another content than in a file before")

    def _conflict(self, one: Bundle, other: Bundle, what: str, parts: Sequence[Part]) -> None:
        if one is self.prefer or other is one:
            return
        said = ", ".join(map(str, parts)) or "description"
        self.conflicts.append(f"{one.path.name} and {other.path.name}: {what}: {said}")


def calls_of(code: Code) -> object:
    """What identifies the calls that a piece of code is for: its target, sizes, and what it relies on."""
    said = [code.target, code.machine, code.features, code.role, code.shape, code.same, code.assumes]
    return msgspec.json.encode(said, order="sorted")
