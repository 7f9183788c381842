"""Entries of the database, which say how a plan performed where, and the keys that they are found by."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass, field, replace
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version

from xdsl.dialects.builtin import ModuleOp

from vkernels.compiler.protocols import Constant
from vkernels.ir.canonical_names import canonical_text, shown_plan
from vkernels.ir.dialect import KernelOp
from vkernels.ir.limits import Limits
from vkernels.ir.plan import MEANING, Plan
from vkernels.ir.plan_json import plan_to_json
from vkernels.ir.text import print_module
from vkernels.targets import Target
from vkernels.targets.driver_version import driver_version

EXACT = 8
"""Sizes up to this form classes of their own."""
STEPS = 4
"""Larger sizes have this many classes per power of two: sizes within a class differ by at most a quarter."""
WIDE = 16
"""Multiples of this form separate classes: their loads are wide and their chunks leave no tail."""

Hash = Callable[[KernelOp], str]

RATES = ("clock", "memory_bandwidth", "cache_bandwidth", "shared_bandwidth", "multiply_adds", "tensor_multiply_adds",
         "launch_seconds", "core")  # fmt: skip
"""Measured limits, which differ from day to day, are not part of a key."""
MEMORY = "memory"
"""Not part of a key either: whether swap space fits is checked when an entry is read."""
LIBRARIES = ("vkernels", "triton", "llvmlite", "torch", "numpy")


@dataclass(frozen=True)
class Key:
    """Plans with equal keys are compared with each other.

    `kernel_hash`: SHA-256 of the kernel's IR as written, including constants, without the names of local variables.
    `shape_class`: see `shape_class`.
    `dtypes`: `out=float32 x=float16`. `limits_hash`: SHA-256 of the slice's sizes, independent of the device.
    `compilers`: versions of the compilers.
    """

    kernel_hash: str
    shape_class: str
    dtypes: str
    limits_hash: str
    compilers: str

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all fields."""
        return hashlib.sha256(json.dumps(astuple(self)).encode()).hexdigest()


def key_of(
    kernel: KernelOp,
    sizes: Mapping[str, int],
    dtypes: Mapping[str, str],
    limits: Limits,
    strides: Mapping[str, Sequence[int]] | None = None,
    hashed: Hash | None = None,
) -> Key:
    """The key of a call, with this machine's compilers.

    `kernel`: as written. `limits`: the slice's, within the kernel's budget, as launches plan for them (`Plans.allowed`;
    `cpu_slice_limits` on a CPU). `strides`: in elements; None if the last dimension of each tensor is contiguous.
    `hashed`: `kernel_hash` by default, or `hash_with_names`.
    """
    return Key(
        (hashed or kernel_hash)(kernel), shape_class(sizes, strides), dtypes_text(dtypes), limits_hash(limits),
        compilers(on_gpu=limits.warp > 1),
    )  # fmt: skip


def kernel_hash(kernel: KernelOp) -> str:
    """SHA-256 of the IR's text, without locations and the author's names of axes, values and scratchpads."""
    return hashlib.sha256(canonical_text(kernel).encode()).hexdigest()


def hash_with_names(kernel: KernelOp) -> str:
    """`kernel_hash` as earlier versions had it: plans of their entries have the author's names."""
    return hashlib.sha256(print_module(ModuleOp([kernel.clone()])).encode()).hexdigest()


HASHES: tuple[Hash, ...] = (kernel_hash, hash_with_names)
"""The hashes that entries are found by, in the order in which they are tried."""


def shape_class(sizes: Mapping[str, int], strides: Mapping[str, Sequence[int]] | None = None) -> str:
    """The sizes that one plan may serve, as `M=1024/16 N=1280`, and layouts that are not row-major, as `x:1+`.

    >>> shape_class({"N": 1000, "M": 1024, "K": 3}, {"x": (1, 1024), "y": (3, 1)})
    'K=3 M=1024/16 N=1024 x:1+'
    """
    laid = {} if strides is None else {name: layout(of) for name, of in strides.items()}
    parts = [f"{name}={size_class(sizes[name])}" for name in sorted(sizes)]
    return " ".join([*parts, *(f"{name}:{laid[name]}" for name in sorted(laid) if laid[name])])


def size_class(size: int) -> str:
    """The largest size of a class; with `/16` if 16 divides all of them.

    >>> [size_class(n) for n in (0, 7, 100, 112, 1024, 1025)]
    ['0', '7', '112', '112/16', '1024/16', '1280']
    """
    if size <= EXACT:
        return str(size)
    step = 1 << max(0, size.bit_length() - STEPS.bit_length())
    top = -(-size // step) * step
    return f"{top}/{WIDE}" if size % WIDE == 0 else f"{top}"


def layout(strides: Sequence[int]) -> str:
    """Strides of 0 and 1, and `+` for others; empty if only the last is 1 and none is 0."""
    text = "".join(str(stride) if stride in (0, 1) else "+" for stride in strides)
    return "" if not text or (text.endswith("1") and "0" not in text) else text


def dtypes_text(dtypes: Mapping[str, str]) -> str:
    """Dtypes in the order of the names."""
    return " ".join(f"{name}={dtypes[name]}" for name in sorted(dtypes))


def limits_hash(limits: Limits) -> str:
    """SHA-256 of the counted limits, without the measured rates."""
    counted = {name: value for name, value in asdict(limits).items() if name not in (*RATES, MEMORY)}
    for name in ("dot_units", "processor", "tensor_copies"):
        # Entries of devices without are older than the field; the last one follows from the architecture.
        if not counted[name] or name == "tensor_copies":
            del counted[name]
    return hashlib.sha256(json.dumps(counted, sort_keys=True).encode()).hexdigest()


@cache
def compilers(on_gpu: bool) -> str:
    """Versions of the compilers, and what plans mean to us (`ir.plan.MEANING`)."""
    libraries = ["triton"] if on_gpu else ["llvmlite", "triton"]
    return " ".join([*(f"{name}={versions().get(name, 'none')}" for name in libraries), f"vkernels=plans-{MEANING}"])


@cache
def versions() -> dict[str, str]:
    """Versions of the software that takes part in a measurement."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


MEASURED, MODELLED = "measured", "modelled"
COLD, WARM, PROGRAM = "cold", "warm", "program"
CACHES = (PROGRAM, COLD, WARM)
"""Settings in which times are measured. Entries of versions that knew only one were measured in the default, `cold`."""
FARM = "vk farm"
"""What the `by` of a farm's measurements begins with."""
WRONG = "wrong-answer"
FAILURES = ("does-not-fit", "compile-error", "time-out", "crash", WRONG, "refused")


@dataclass(frozen=True)
class Provenance:
    """Where, when and by what something was measured.

    `device`: its name, as the system reports it; `slice`: the slice's name (`cpu:cores=2`). `driver`: its version;
    empty for a CPU. `clocks`: in MHz, by name. `versions`: of software, by name. `by`: the command or program. `run`:
    identifies a tuning run; `trial`: its number in the run, from 0. `seconds`: duration of the trial. `when`: seconds
    since 1970.
    """

    device: str
    slice: str = ""
    architecture: str = ""
    driver: str = ""
    clocks: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    by: str = ""
    run: str = ""
    trial: int = 0
    seconds: float = 0.0
    when: float = 0.0

    @property
    def environment(self) -> tuple[str, str, str]:
        """An entry replaces another only if these are equal."""
        return self.device, self.architecture, self.driver


@dataclass(frozen=True)
class Entry:
    """A plan's time, or why it has none.

    `kernel`: its name, as tasks spell it; `shape`: exact sizes; `limits`: of the slice, all of them. `constants`:
    values of the tunable constants; `first_hash`: `kernel_hash` with the first value of each; both empty for a kernel
    without. `seconds`: of a call, with an interval from `low` to `high`; None if there is a `failure`, one of
    `FAILURES`, with details in `text`. `origin`: `measured` or `modelled`. `final`: a tuning run selected this plan,
    after measuring the best ones again side by side. `default`: this plan runs without tuning. `caches`: the settings
    in which it was measured, one of `CACHES`. `plan`: with canonical names (`ir.canonical_names`); `names`: the names
    that the author had for them then, to show. Entries of earlier versions have the author's names in the plan.
    """

    key: Key
    kernel: str
    shape: Mapping[str, int]
    limits: Limits
    plan: Plan
    provenance: Provenance
    constants: Mapping[str, Constant] = field(default_factory=dict)
    seconds: float | None = None
    low: float | None = None
    high: float | None = None
    repeats: int = 0
    origin: str = MEASURED
    failure: str | None = None
    text: str = ""
    final: bool = False
    default: bool = False
    first_hash: str = ""
    caches: str = COLD
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> Plan:
        """The plan with the author's names."""
        return shown_plan(self.plan, self.names)

    @property
    def asked(self) -> Key:
        """The key of calls that leave the tunable constants open: with the first value of each."""
        return replace(self.key, kernel_hash=self.first_hash) if self.first_hash else self.key

    @cached_property
    def identity(self) -> str:
        """SHA-256 of what was measured and in which environment: a later entry of the same identity replaces it."""
        what = [
            self.key.digest, dict(sorted(self.shape.items())), plan_to_json(self.plan), dict(self.constants),
            list(self.provenance.environment),
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()

    @property
    def is_of_farm(self) -> bool:
        """Whether a farm measured it, on a machine that others share."""
        return self.provenance.by.startswith(FARM)

    @property
    def short(self) -> str:
        """The identity, shortened for people."""
        return self.identity[:12]

    @property
    def standing(self) -> int:
        """Of two entries with one identity, the one with the higher standing stays, or else the later one."""
        if self.failure is not None:
            return 4 if self.failure == WRONG else 0
        return 1 if self.origin == MODELLED else 3 if self.final else 2

    @property
    def rank(self) -> float:
        """Entries are ranked by the upper end of their interval, in seconds."""
        return float(self.high or self.seconds or 0.0)


def provenance_of(target: Target, slice: str, by: str, run: str = "") -> Provenance:
    """The provenance of a measurement on a device of this machine, or of a model of one."""
    parts = "cores" if target.vendor == "cpu" else "multiprocessors"
    clocks = {} if target.rates is None else {parts: target.rates.clock_mhz}
    driver = driver_version(target.vendor)
    return Provenance(target.name, slice, target.architecture, driver, clocks, versions(), by, run)
