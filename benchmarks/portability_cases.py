"""What the portability matrix is made of: kernels and sizes, devices and slices.

Tensors and swap space of every size must fit in the smallest memory, that of a `1g.5gb` (4.75 GiB). Segments have as
many values on average as planning takes them to have (16 steps: 512 values of sum_segments, 16 of csr_times_dense),
but for the absurd ones.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

from vkernels.commands.check.specialising import Declared, Wanted, kernel_case
from vkernels.runtime.checking.cases import KernelCase, Source
from vkernels.runtime.slices import slice_of
from vkernels.runtime.targets import Target, known_targets
from vkernels.runtime.targets.present import present_cpu

Shape = Mapping[str, int]

SIZES = ("small", "large", "absurd")
ORDINARY = SIZES[:2]
DTYPES = ("float32", "float16")
LARGEST = "h200-sxm-141"
"""What the one fixed plan is tuned for."""


@dataclass(frozen=True)
class Subject:
    """A kernel of the library, in a module, and its sizes."""

    name: str
    module: str
    small: Shape
    large: Shape
    absurd: Shape


_LONG_ROWS = {"M": 16, "N": 1 << 24}
_IMAGES = ({"B": 4, "M": 256, "N": 256}, {"B": 16, "M": 4096, "N": 4096}, {"B": 1, "M": 16, "N": 1 << 24})

SUBJECTS = (
    Subject("softmax_rows", "rows", {"M": 512, "N": 512}, {"M": 4096, "N": 32768}, _LONG_ROWS),
    Subject("layer_norm_rows", "rows", {"M": 512, "N": 768}, {"M": 8192, "N": 8192}, _LONG_ROWS),
    Subject(
        "matmul_bias", "dense", {"M": 512, "N": 512, "K": 512}, {"M": 8192, "N": 8192, "K": 8192},
        {"M": 64, "N": 64, "K": 1 << 22},
    ),
    Subject(
        "mlp_rows", "mlp", {"M": 512, "K": 256, "H": 1024, "N": 256}, {"M": 32768, "K": 1024, "H": 4096, "N": 1024},
        {"M": 512, "K": 1024, "H": 1 << 18, "N": 1024},
    ),
    Subject(
        "attention_rows", "attention", {"B": 1, "G": 8, "R": 1, "M": 512, "N": 512, "D": 64, "E": 64},
        {"B": 4, "G": 8, "R": 4, "M": 4096, "N": 4096, "D": 128, "E": 128},
        {"B": 1, "G": 1, "R": 1, "M": 1 << 17, "N": 1 << 17, "D": 512, "E": 512},
    ),
    Subject(
        "sum_segments", "segments", {"S": 4097, "R": 4096, "E": 1 << 21},
        {"S": (1 << 17) + 1, "R": 1 << 17, "E": 1 << 26}, {"S": 17, "R": 16, "E": 1 << 28},
    ),
    Subject(
        "csr_times_dense", "segments", {"S": 4097, "R": 4096, "E": 1 << 16, "K": 4096, "C": 64},
        {"S": (1 << 18) + 1, "R": 1 << 18, "E": 1 << 22, "K": 1 << 18, "C": 256},
        {"S": 257, "R": 256, "E": 1 << 26, "K": 1 << 16, "C": 4096},
    ),
    Subject("cumulative_sum_rows", "scans", {"M": 512, "N": 1024}, {"M": 4096, "N": 32768}, _LONG_ROWS),
    Subject("stencil_cross", "stencils", *_IMAGES),
    Subject("stencil_square", "stencils", *_IMAGES),
    Subject(
        "spdnn", "sparse", {"L": 24, "N": 1024, "K": 32, "I": 4096}, {"L": 120, "N": 4096, "K": 32, "I": 16384},
        {"L": 12, "N": 1 << 16, "K": 32, "I": 4096},
    ),
)  # fmt: skip

SLICES: Mapping[str, tuple[str, ...]] = {
    "t4": ("mps=50",),
    "a100-sxm4-40": ("1g.5gb", "2g.10gb"),
    "a100-sxm4-80": ("1g.10gb", "3g.40gb"),
    "a30-24": ("1g.6gb",),
    "rtx4090": ("mps=12.5",),
    "h100-sxm5-80": ("1g.10gb", "2g.20gb", "3g.40gb", "mps=25", "sms=8"),
    "h200-sxm-141": ("1g.18gb",),
    "gh200-96": ("1g.12gb",),
    "b200-sxm-180": ("1g.23gb", "4g.90gb"),
    "b300-sxm-288": ("1g.34gb",),
    "rtx-pro-6000-ws": ("1g.24gb",),
    "mi210": ("cus=13",),
    "mi300x": ("dpx/nps1", "cpx/nps4"),
    "mi355x": ("qpx", "cpx"),
    "rx7900xtx": ("cus=8",),
}
CPU_SLICES = ("cores=1", "cores=1,l2=65536", "cores=1,registers=8")


def targets() -> dict[str, Target]:
    """Every device of the project's table, slices of every kind, this machine's CPU and slices of it, by key."""
    found: list[Target] = []
    for device in known_targets().values():
        found += [device, *(slice_of(device, text) for text in SLICES.get(device.key, ()))]
    cpu = present_cpu()
    found += [cpu, *(slice_of(cpu, text) for text in CPU_SLICES)]
    return {target.key: target for target in found}


def one_of_each(found: Mapping[str, Target]) -> dict[str, Target]:
    """Slices, and of each architecture the first device."""
    first: dict[str, str] = {}
    for key, target in found.items():
        first.setdefault(target.architecture, key)
    return {key: target for key, target in found.items() if ":" in key or key == first[target.architecture]}


def case_of(subject: Subject, dtype: str, size: str) -> KernelCase:
    """A kernel for a dtype and a size."""
    source = Source(subject.name, f"vkernels.library.{subject.module}")
    parameters = [
        Declared(
            p.name, p.kind, tuple(p.dimensions), tuple(p.dtypes), p.default is not inspect.Parameter.empty, p.default
        )
        for p in getattr(import_module(source.module), source.name).parameters
    ]
    shape = getattr(subject, size)
    return kernel_case(source, parameters, Wanted(), shape, dtype)
