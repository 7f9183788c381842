"""What a tuned plan is found by: kernel, shape class, dtypes, the limits' sizes, and what makes code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from vkernels.ir.dialect import KernelOp
from vkernels.ir.limits import Limits
from vkernels.ir.text import print_module

EXACT = 8
"""Sizes up to this are classes of their own."""
STEPS = 4
"""Classes of larger sizes in a power of two: the sizes of one differ by a quarter at most."""
WIDE = 16
"""Sizes that this divides are classes apart: their loads are wide and their chunks leave no tail."""

RATES = ("clock", "memory_bandwidth", "cache_bandwidth", "shared_bandwidth", "multiply_adds", "tensor_multiply_adds",
         "launch_seconds")  # fmt: skip
"""Limits that are measured rather than counted, and differ from day to day: no part of a key."""
MEMORY = "memory"
"""Nor is this: what is left of it for swap space is asked when an entry is read."""

MAKES_CODE = (
    "ir/*.py", "ir/dialect/**/*.py", "ir/transforms/**/*.py", "ir/lowering/**/*.py", "compiler/backends/**/*.py",
    "compiler/compile_cpu.py", "compiler/specialise.py", "compiler/compile_gpu.py", "runtime/pool_ir.py",
    "runtime/pool_work_ir.py",
)  # fmt: skip
"""Our own files that decide what code a plan gives. What chooses plans is not among them."""


@dataclass(frozen=True)
class Key:
    """What plans are compared under.

    `kernel_hash`: SHA-256 of the kernel's IR as written, constants in it. `shape_class`: see `shape_class`. `dtypes`:
    `out=float32 x=float16`. `limits_hash`: SHA-256 of the sizes that the slice offers, whatever device it is part of.
    `compilers`: versions of what makes the code.
    """

    kernel_hash: str
    shape_class: str
    dtypes: str
    limits_hash: str
    compilers: str

    @cached_property
    def digest(self) -> str:
        """All of it as one SHA-256."""
        return hashlib.sha256(json.dumps(astuple(self)).encode()).hexdigest()


def key_of(
    kernel: KernelOp,
    sizes: Mapping[str, int],
    dtypes: Mapping[str, str],
    limits: Limits,
    strides: Mapping[str, Sequence[int]] | None = None,
) -> Key:
    """The key of calls on this machine's compilers.

    `kernel`: as written. `limits`: the slice's, within the kernel's budget, as launches plan for them (`Plans.allowed`;
    of a CPU `cpu_slice_limits`). `strides`: in elements; None where elements of the last dimension lie side by side.
    """
    return Key(
        kernel_hash(kernel), shape_class(sizes, strides), dtypes_text(dtypes), limits_hash(limits),
        compilers(on_gpu=limits.warp > 1),
    )  # fmt: skip


def kernel_hash(kernel: KernelOp) -> str:
    """Of the IR's text, in which neither places nor names of values stand."""
    return hashlib.sha256(print_module(ModuleOp([kernel.clone()])).encode()).hexdigest()


def shape_class(sizes: Mapping[str, int], strides: Mapping[str, Sequence[int]] | None = None) -> str:
    """Which sizes one plan may serve: `M=1024/16 N=1280`, and how tensors lie where that is not row by row: `x:1+`.

    >>> shape_class({"N": 1000, "M": 1024, "K": 3}, {"x": (1, 1024), "y": (3, 1)})
    'K=3 M=1024/16 N=1024 x:1+'
    """
    laid = {} if strides is None else {name: layout(of) for name, of in strides.items()}
    parts = [f"{name}={size_class(sizes[name])}" for name in sorted(sizes)]
    return " ".join([*parts, *(f"{name}:{laid[name]}" for name in sorted(laid) if laid[name])])


def size_class(size: int) -> str:
    """The largest size of a class; with `/16` where 16 divides all of them.

    >>> [size_class(n) for n in (0, 7, 100, 112, 1024, 1025)]
    ['0', '7', '112', '112/16', '1024/16', '1280']
    """
    if size <= EXACT:
        return str(size)
    step = 1 << max(0, size.bit_length() - STEPS.bit_length())
    top = -(-size // step) * step
    return f"{top}/{WIDE}" if size % WIDE == 0 else f"{top}"


def layout(strides: Sequence[int]) -> str:
    """Strides of 0 and 1, and `+` for others; empty where only the last is 1 and none is 0."""
    text = "".join(str(stride) if stride in (0, 1) else "+" for stride in strides)
    return "" if not text or (text.endswith("1") and "0" not in text) else text


def dtypes_text(dtypes: Mapping[str, str]) -> str:
    """By name, in their order."""
    return " ".join(f"{name}={dtypes[name]}" for name in sorted(dtypes))


def limits_hash(limits: Limits) -> str:
    """Of what is counted: rates are measured, and are recorded beside."""
    counted = {name: value for name, value in asdict(limits).items() if name not in (*RATES, MEMORY)}
    return hashlib.sha256(json.dumps(counted, sort_keys=True).encode()).hexdigest()


@cache
def compilers(on_gpu: bool) -> str:
    """Versions of what makes code, and our own part of that."""
    libraries = ["triton"] if on_gpu else ["llvmlite", "triton"]
    return " ".join([*(f"{name}={_version(name)}" for name in libraries), f"vkernels={ours()}"])


@cache
def ours() -> str:
    """Our own code that makes code, in sixteen digits."""
    found, root = hashlib.sha256(), Path(__file__).parents[2]
    for path in sorted({path for pattern in MAKES_CODE for path in root.glob(pattern)}):
        found.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return found.hexdigest()[:16]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"
