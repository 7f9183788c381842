"""What the manifest of a bundle says, as JSON. docs/bundles.md documents every field; formats 1 to 3.

A change that older readers cannot know is a new number of the format, and a way to read what came before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from vkernels.ir.errors import BundleError

FORMAT, WITHOUT_OTHER_SIZES, WITHOUT_GPUS = 3, 2, 1
"""The newest format that is read, that of bundles whose code for GPUs serves named sizes only, and that of bundles
without code for GPUs. Bundles are written in the oldest that has all of their fields."""

MAX_NAME, MAX_TEXT, MAX_ENTRIES, MAX_FILES = 200, 1 << 16, 10_000, 100_000
MOST = (1 << 62) - 1

NO_CONTROLS = r"^[^\x00-\x1f\x7f-\x9f]*\Z"
"""Names stand in messages, which must not steer a terminal."""

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME, pattern=NO_CONTROLS)]
NameOrNone = Annotated[str, Meta(max_length=MAX_NAME, pattern=NO_CONTROLS)]
FileName = Annotated[
    str, Meta(pattern=r"^[a-z0-9]([a-z0-9_.-]*[a-z0-9])?(/[a-z0-9]([a-z0-9_.-]*[a-z0-9])?){0,3}\Z", max_length=MAX_NAME)
]
Text = Annotated[str, Meta(max_length=MAX_TEXT)]
Hash = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
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


class GpuParameter(Record, frozen=True):
    """A parameter of a launch, see `vkernels.ir.launch_arguments.LaunchParameter`."""

    kind: Literal["pointer", "stride", "scalar", "size", "buffer", "swap", "programs", "first program"]
    name: NameOrNone = ""
    number: Annotated[int, Meta(ge=0, le=MAX_ENTRIES)] = 0
    type: Literal["ptr", "i32", "i64", "f64", "i1"] = "ptr"


class GpuLaunch(Record, frozen=True):
    """A launch: a cubin or hsaco, and what starts it.

    `name`: of its function. `threads`, `shared` bytes, `global_scratch` bytes: of a program; `swap_bytes`: of each one
    that is resident. `programs`: of the call; `resident`: that run at once, 0 for as many as the device holds;
    `is_persistent`: each continues with others. `hidden`: parameters that Triton adds behind `parameters`.
    """

    binary: FileName
    name: Name
    threads: Annotated[int, Meta(ge=1, le=1 << 16)]
    shared: Annotated[int, Meta(ge=0, le=1 << 30)]
    global_scratch: Annotated[int, Meta(ge=0, le=1 << 30)]
    swap_bytes: Count
    programs: Count
    resident: Annotated[int, Meta(ge=0, le=1 << 31)]
    is_persistent: bool
    hidden: Annotated[int, Meta(ge=0, le=MAX_NAME)]
    parameters: Annotated[tuple[GpuParameter, ...], Meta(max_length=MAX_ENTRIES)]


Numbers = Annotated[tuple[Annotated[int, Meta(ge=0, le=MAX_ENTRIES)], ...], Meta(max_length=100)]


class HostStep(Record, frozen=True):
    """A number of a call: its `size` of that name, a `value`, or what an operation `does` with two numbers, `of` which
    the places in the list are given. Division rounds as the operation of that name in MLIR's arith dialect."""

    does: Literal[
        "size", "value", "addi", "subi", "muli", "divsi", "remsi", "floordivsi", "ceildivsi", "maxsi", "minsi"
    ]
    size: NameOrNone = ""
    value: Annotated[int, Meta(ge=-MOST, le=MOST)] = 0
    of: Numbers = ()


class HostBytes(Record, frozen=True):
    """Bytes of a buffer: of an `element`, times its `dimensions`, each the place of a number."""

    element: Annotated[int, Meta(ge=1, le=1 << 20)]
    dimensions: Numbers = ()


class GpuHost(Record, frozen=True):
    """What the host computes of a call's sizes, for code that serves several.

    `steps`: numbers, one after another. `buffers`: that launches share; of each launch `programs`: the places of the
    numbers whose product they are, and `swap`: of each program that is resident, beside its `swap_bytes`.
    """

    steps: Annotated[tuple[HostStep, ...], Meta(max_length=MAX_ENTRIES)]
    buffers: Annotated[tuple[HostBytes, ...], Meta(max_length=MAX_ENTRIES)]
    programs: Annotated[tuple[Numbers, ...], Meta(max_length=MAX_ENTRIES)]
    swap: Annotated[tuple[tuple[HostBytes, ...], ...], Meta(max_length=MAX_ENTRIES)]


class GpuCode(Record, frozen=True):
    """The launches of a call, in order, and the bytes of each buffer that they share; or how the `host` computes these
    and the programs of launches, where code serves several sizes."""

    launches: Annotated[tuple[GpuLaunch, ...], Meta(min_length=1, max_length=MAX_ENTRIES)]
    buffers: Annotated[tuple[Count, ...], Meta(max_length=MAX_ENTRIES)] = ()
    host: GpuHost | None = None


class Code(Record, frozen=True):
    """Code of a kernel for one target: of a `cpu`, or of a `gpu`.

    `target`: as `vk build` names it; `machine`, `features`: that a CPU must be and have; of a GPU its architecture.
    `role`: `shape`, for the sizes of `shape`; `class`, for other sizes; or `plain`, for any layout too. `same`:
    parameters that have one tensor. `limits`: of the target, that it was planned for; `plan`: a file.
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
    cpu: CpuCode | None = None
    gpu: GpuCode | None = None
    same: Annotated[tuple[Pair, ...], Meta(max_length=MAX_ENTRIES)] = ()

    @property
    def binaries(self) -> tuple[str, ...]:
        """The names of its object file, or of the binaries of its launches."""
        if self.gpu is not None:
            return tuple(launch.binary for launch in self.gpu.launches)
        return () if self.cpu is None else (self.cpu.object,)


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

    @property
    def codes(self) -> Iterator[Code]:
        """The code of all kernels."""
        return (code for kernel in self.kernels for variant in kernel.variants for code in variant.codes)

    @property
    def format(self) -> int:
        """The oldest format that has all of its fields."""
        gpus = [code.gpu for code in self.codes if code.gpu is not None]
        if any(gpu.host is not None for gpu in gpus):
            return FORMAT
        return WITHOUT_OTHER_SIZES if gpus else WITHOUT_GPUS

    def kernel(self, name: str) -> Kernel | None:
        """The kernel of a name."""
        return next((kernel for kernel in self.kernels if kernel.name == name), None)


def merged_variants(variants: Iterable[Variant]) -> tuple[Variant, ...]:
    """Variants, with one in place of several that differ in their code only: it has all of that."""
    found: dict[Any, Variant] = {}
    for variant in variants:
        key = variant.ir, variant.tensors, variant.scalars, tuple((n, type(v), v) for n, v in variant.constants)
        before = found.get(key)
        codes = variant.codes if before is None else (
            *before.codes, *(code for code in variant.codes if code not in before.codes)
        )  # fmt: skip
        found[key] = msgspec.structs.replace(variant, codes=codes)
    return tuple(found.values())


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
    """Raise `BundleError` for names that are none or are given twice, and for files that are not there."""
    files = {each.name for each in manifest.files}
    if len(files) < len(manifest.files):
        raise BundleError(f"{where}: two files have the same name")
    names = [kernel.name for kernel in manifest.kernels]
    if len(set(names)) < len(names):
        raise BundleError(f"{where}: two kernels have the same name")
    for name in names:
        if not name.isidentifier():
            raise BundleError(f"{where}: a kernel is called {name!r}, and no function can be")
    used = [support.object for support in manifest.support]
    for code in manifest.codes:
        if (code.cpu is None) == (code.gpu is None):
            raise BundleError(f"{where}: code for {code.target} must be of a CPU or of a GPU")
        host = None if code.gpu is None else code.gpu.host
        if code.gpu and host and not len(code.gpu.launches) == len(host.programs) == len(host.swap):
            raise BundleError(f"{where}: code for {code.target} does not say the programs of each of its launches")
        used += [code.plan, *code.binaries]
    if missing := sorted(set(used) - files):
        raise BundleError(f"{where}: the file {missing[0]} is missing")
