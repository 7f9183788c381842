"""What the manifest of a bundle says, as JSON. docs/bundles.md documents every field; format 1.

A change that older readers cannot know is a new number of the format, and a way to read what came before.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from vkernels.ir.errors import BundleError

FORMAT = 1
"""The format that is written, and the newest that is read."""

MAX_NAME, MAX_TEXT, MAX_ENTRIES, MAX_FILES = 200, 1 << 16, 10_000, 100_000
MOST = (1 << 62) - 1

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
FileName = Annotated[
    str, Meta(pattern=r"^[a-z0-9]([a-z0-9_.-]*[a-z0-9])?(/[a-z0-9]([a-z0-9_.-]*[a-z0-9])?){0,3}$", max_length=MAX_NAME)
]
Text = Annotated[str, Meta(max_length=MAX_TEXT)]
Hash = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Meta(ge=0, le=MOST)]
Counts = Annotated[dict[Name, Count], Meta(max_length=MAX_ENTRIES)]
Names = Annotated[tuple[Name, ...], Meta(max_length=MAX_ENTRIES)]
Pair = tuple[Name, Name]
Value = bool | int | float | Text | None


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of the manifest: unknown fields are refused, defaults are not written."""


class Provenance(Record, frozen=True):
    """Where a bundle comes from. `time`: of the build, UTC; `versions`: of what compiled it, by package."""

    vkernels: Text
    time: Text
    command: Text = ""
    python: Text = ""
    versions: Annotated[dict[Name, Text], Meta(max_length=MAX_ENTRIES)] = {}
    merged: tuple[Provenance, ...] = ()


class File(Record, frozen=True):
    """A file of the bundle. `offset`: bytes from the end of the signatures; `stored`: bytes there; `size`: bytes of its
    content; `sha256`: of the bytes that are stored."""

    name: FileName
    offset: Count
    stored: Count
    size: Count
    sha256: Hash
    compression: Literal["none", "zlib"] = "none"


class Parameter(Record, frozen=True):
    """A parameter of a kernel. `default`: what an omitted one is, if `has_default`; `tuned`: whether a constant that a
    call leaves open has the value of the code that it runs."""

    name: Name
    kind: Literal["tensor", "scalar", "constant"]
    dimensions: Annotated[tuple[Annotated[int, Meta(ge=0, le=MOST)] | Name, ...], Meta(max_length=100)] = ()
    dtypes: Names = ()
    has_default: bool = False
    default: Value = None
    tuned: bool = False


class Assumptions(Record, frozen=True):
    """What code relies on, by size or tensor name: exact sizes, divisors, upper and lower bounds of sizes, strides (-1:
    any), aligned tensors, and those with elements 2³¹ or more from the first."""

    sizes: Counts = {}
    multiples: Annotated[dict[Name, Annotated[int, Meta(ge=1, le=MOST)]], Meta(max_length=MAX_ENTRIES)] = {}
    most: Counts = {}
    least: Counts = {}
    strides: Annotated[dict[Name, tuple[Annotated[int, Meta(ge=-1, le=MOST)], ...]], Meta(max_length=MAX_ENTRIES)] = {}
    aligned: Names = ()
    large: Names = ()


class CpuCode(Record, frozen=True):
    """An object file, and what the runtime needs to know of it: see "What the CPU lowering gives the runtime".

    `prepare`, `launches`: its functions; `sizes`: names of the size slots; `slots`: how many argument slots there are,
    `buffers`: how many of them are buffers; `workspace`: bytes each thread needs.
    """

    object: FileName
    prepare: Name
    launches: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=MAX_ENTRIES)]
    sizes: Names
    slots: Annotated[int, Meta(ge=0, le=MAX_ENTRIES)]
    buffers: Annotated[int, Meta(ge=0, le=MAX_ENTRIES)]
    workspace: Annotated[int, Meta(ge=0, le=1 << 32)]


class Code(Record, frozen=True):
    """Code of a kernel for one target.

    `target`: as `vk build` names it; `machine`, `features`: that a CPU must be and have. `role`: `shape`, for the sizes
    of `shape`; `class`, for other sizes; or `plain`, for any layout too. `same`: parameters that have one tensor.
    `limits`: of the target, that it was planned for; `plan`: a file.
    """

    target: Name
    machine: Name
    features: Names
    role: Literal["shape", "class", "plain"]
    shape: Counts
    limits: Counts
    plan: FileName
    rung: Name
    assumes: Assumptions
    cpu: CpuCode
    same: Annotated[tuple[Pair, ...], Meta(max_length=MAX_ENTRIES)] = ()


class Variant(Record, frozen=True):
    """A kernel with dtypes, kinds of scalars and values of constants. `ir`: SHA-256 of its IR as written; `written`:
    tensors that it stores to; `in_place`: which of these may be which other tensor."""

    ir: Hash
    tensors: tuple[Pair, ...]
    scalars: tuple[Pair, ...]
    constants: tuple[tuple[Name, Value], ...]
    written: Names
    in_place: tuple[Pair, ...]
    codes: Annotated[tuple[Code, ...], Meta(max_length=MAX_ENTRIES)]


class Kernel(Record, frozen=True):
    """A kernel. `reference`: MODULE:NAME of its function; `source`: SHA-256 of the function's text."""

    name: Name
    reference: Text
    source: Hash
    deterministic: bool
    parameters: Annotated[tuple[Parameter, ...], Meta(max_length=1000)]
    variants: Annotated[tuple[Variant, ...], Meta(max_length=MAX_ENTRIES)]


class Support(Record, frozen=True):
    """Native code of the runtime itself: the object file of LLVM IR with this SHA-256."""

    key: Hash
    machine: Name
    object: FileName


class Manifest(Record, frozen=True):
    """All that a bundle says of itself."""

    provenance: Provenance
    kernels: Annotated[tuple[Kernel, ...], Meta(max_length=MAX_ENTRIES)]
    support: Annotated[tuple[Support, ...], Meta(max_length=100)]
    files: Annotated[tuple[File, ...], Meta(max_length=MAX_FILES)]

    def kernel(self, name: str) -> Kernel | None:
        """The kernel of a name."""
        return next((kernel for kernel in self.kernels if kernel.name == name), None)


_decoder: Any = msgspec.json.Decoder(Manifest)


def manifest_to_bytes(manifest: Manifest) -> bytes:
    """A manifest as JSON."""
    return msgspec.json.encode(manifest)


def manifest_from_bytes(data: bytes, where: str) -> Manifest:
    """The manifest that JSON describes. Raises `BundleError` for a field that is wrong, unknown or missing."""
    try:
        manifest: Manifest = _decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise BundleError(f"{where}: the manifest cannot be read: {error}") from None
    _check(manifest, where)
    return manifest


def _check(manifest: Manifest, where: str) -> None:
    """Raise `BundleError` for what contradicts itself: names given twice, and files that are not there."""
    files = {each.name for each in manifest.files}
    if len(files) < len(manifest.files):
        raise BundleError(f"{where}: two files have the same name")
    names = [kernel.name for kernel in manifest.kernels]
    if len(set(names)) < len(names):
        raise BundleError(f"{where}: two kernels have the same name")
    used = [support.object for support in manifest.support]
    for kernel in manifest.kernels:
        for code in (code for variant in kernel.variants for code in variant.codes):
            used += [code.plan, code.cpu.object]
    if missing := sorted(set(used) - files):
        raise BundleError(f"{where}: the file {missing[0]} is missing")
