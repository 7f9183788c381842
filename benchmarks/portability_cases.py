"""What the portability matrix is made of: kernels and sizes, devices and slices.

Tensors and swap space of every size must fit in the smallest memory, that of a `1g.5gb` (4.75 GiB). Segments have as
many values on average as planning takes them to have (16 steps: 512 values of sum_segments, 16 of csr_times_dense),
but for the absurd ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

from vkernels.inspect.cases import KernelCase, KernelSource
from vkernels.inspect.specialisation import SpecialisationRequest, kernel_case, specialise
from vkernels.library.catalogue import CATALOGUE
from vkernels.targets import Target, known_targets
from vkernels.targets.present import present_cpu
from vkernels.targets.slices import slice_of

Shape = Mapping[str, int]

SIZES = ("small", "large", "absurd")
ORDINARY = SIZES[:2]
DTYPES = ("float32", "float16")
LARGEST = "h200-sxm-141"
"""What the one fixed plan is tuned for."""


@dataclass(frozen=True)
class Subject:
    """A kernel of the library and its sizes."""

    name: str
    small: Shape
    large: Shape
    absurd: Shape


_SQUARE, _LONG_ROWS = {"M": 512, "N": 512}, {"M": 16, "N": 1 << 24}
_ROWS = (_SQUARE, {"M": 8192, "N": 8192}, _LONG_ROWS)
_ROW_PARTS = tuple({**shape, "P": parts} for shape, parts in zip(_ROWS, (256, 256, 4), strict=True))
_SCORES = (_SQUARE, {"M": 4096, "N": 32768}, _LONG_ROWS)
_CLASSES = ({"M": 512, "V": 1000}, {"M": 8192, "V": 32768}, {"M": 16, "V": 1 << 24})
_ELEMENTS = (_SQUARE, {"M": 4096, "N": 16384}, {"M": 1, "N": 1 << 28})
_GROUPS = (
    {"B": 4, "G": 8, "C": 8, "S": 256}, {"B": 32, "G": 32, "C": 16, "S": 4096}, {"B": 1, "G": 2, "C": 8, "S": 1 << 23},
)  # fmt: skip
_SEGMENTS = (
    {"M": 4, "S": 16, "L": 4096}, {"M": 16, "S": 64, "L": 65536}, {"M": 1, "S": 1 << 12, "L": 1 << 16},
)  # fmt: skip
_MIDDLE = ({"A": 16, "N": 512, "C": 16}, {"A": 64, "N": 1 << 16, "C": 64}, {"A": 1, "N": 1 << 28, "C": 1})
_IMAGES = ({"B": 4, "M": 256, "N": 256}, {"B": 16, "M": 4096, "N": 4096}, {"B": 1, "M": 16, "N": 1 << 24})
_STACKS = (
    {"B": 2, "G": 1, "C": 32, "H": 28, "W": 28, "O": 32, "R": 3, "S": 3, "Y": 26, "X": 26},
    {"B": 32, "G": 1, "C": 256, "H": 56, "W": 56, "O": 256, "R": 3, "S": 3, "Y": 54, "X": 54},
    {"B": 1, "G": 1, "C": 1 << 16, "H": 16, "W": 16, "O": 64, "R": 3, "S": 3, "Y": 14, "X": 14},
)
_BLOCKED = (
    {"B": 1, "G": 8, "R": 1, "M": 512, "N": 512, "D": 64, "E": 64, "P": 8},
    {"B": 4, "G": 8, "R": 4, "M": 4096, "N": 4096, "D": 128, "E": 128, "P": 64},
    {"B": 1, "G": 1, "R": 1, "M": 1 << 17, "N": 1 << 17, "D": 512, "E": 512, "P": 2048},
)
_WEIGHTS = tuple({name: shape[name] for name in "GOCRS"} for shape in _STACKS)
_HEXAHEDRA = (
    {"E": 512, "C": 1, "P": 4, "Q": 5}, {"E": 1 << 15, "C": 3, "P": 8, "Q": 9}, {"E": 64, "C": 1, "P": 17, "Q": 18},
)  # fmt: skip

_BAGS = (
    {"S": 4097, "R": 4096, "E": 1 << 16, "V": 4096, "C": 64},
    {"S": (1 << 18) + 1, "R": 1 << 18, "E": 1 << 22, "V": 1 << 20, "C": 256},
    {"S": 17, "R": 16, "E": 1 << 26, "V": 1 << 16, "C": 4096},
)
_NETWORKS = (
    {"L": 24, "N": 1024, "K": 32, "I": 4096}, {"L": 120, "N": 4096, "K": 32, "I": 16384},
    {"L": 12, "N": 1 << 16, "K": 32, "I": 4096},
)  # fmt: skip
_BATCHES = (
    {"B": 8, "M": 128, "N": 128, "K": 64}, {"B": 64, "M": 1024, "N": 1024, "K": 128},
    {"B": 1, "M": 64, "N": 64, "K": 1 << 22},
)  # fmt: skip
_LAYERS = (
    {"M": 512, "K": 256, "H": 1024, "N": 256}, {"M": 32768, "K": 1024, "H": 4096, "N": 1024},
    {"M": 512, "K": 1024, "H": 1 << 18, "N": 1024},
)  # fmt: skip

_SUBJECTS = (
    Subject("softmax_rows", *_SCORES),
    Subject("summarise_exponentials", *_SEGMENTS),
    Subject("normalise_exponentials", *_SEGMENTS),
    Subject("layer_norm_rows", {"M": 512, "N": 768}, {"M": 8192, "N": 8192}, _LONG_ROWS),
    Subject("summarise_moments", *_SEGMENTS),
    Subject("normalise_moments", *_SEGMENTS),
    Subject(
        "matmul_bias", {"M": 512, "N": 512, "K": 512}, {"M": 8192, "N": 8192, "K": 8192},
        {"M": 64, "N": 64, "K": 1 << 22},
    ),
    Subject("mlp_rows", *_LAYERS),
    Subject(
        "attention_rows", {"B": 1, "G": 8, "R": 1, "M": 512, "N": 512, "D": 64, "E": 64},
        {"B": 4, "G": 8, "R": 4, "M": 4096, "N": 4096, "D": 128, "E": 128},
        {"B": 1, "G": 1, "R": 1, "M": 1 << 17, "N": 1 << 17, "D": 512, "E": 512},
    ),
    Subject(
        "sum_segments", {"S": 4097, "R": 4096, "E": 1 << 21}, {"S": (1 << 17) + 1, "R": 1 << 17, "E": 1 << 26},
        {"S": 17, "R": 16, "E": 1 << 28},
    ),
    Subject(
        "sum_segment_rows", {"S": 4097, "R": 4096, "E": 1 << 16, "C": 64},
        {"S": (1 << 18) + 1, "R": 1 << 18, "E": 1 << 22, "C": 128}, {"S": 17, "R": 16, "E": 1 << 18, "C": 4096},
    ),
    Subject(
        "csr_times_dense", {"S": 4097, "R": 4096, "E": 1 << 16, "K": 4096, "C": 64},
        {"S": (1 << 18) + 1, "R": 1 << 18, "E": 1 << 22, "K": 1 << 18, "C": 256},
        {"S": 257, "R": 256, "E": 1 << 26, "K": 1 << 16, "C": 4096},
    ),
    Subject("cumulative_sum_rows", {"M": 512, "N": 1024}, {"M": 4096, "N": 32768}, _LONG_ROWS),
    Subject("sum_of_each_segment", *_SEGMENTS),
    Subject("cumulative_sum_segments", *_SEGMENTS),
    Subject("stencil_cross", *_IMAGES),
    Subject("stencil_square", *_IMAGES),
    Subject("log_softmax_rows", *_SCORES),
    Subject("log_softmax_gradient", *_SCORES),
    Subject("cross_entropy_rows", *_CLASSES),
    Subject("cross_entropy_gradient", *_CLASSES),
    Subject("add_up", {"M": 512}, {"M": 1 << 16}, {"M": 1 << 28}),
    Subject("layer_norm_gradient", *_ROW_PARTS),
    Subject("rms_norm_rows", *_ROWS),
    Subject("rms_norm_gradient", *_ROW_PARTS),
    Subject("group_norm_groups", *_GROUPS),
    Subject("group_norm_gradient", *_GROUPS),
    Subject("activate_elements", *_ELEMENTS),
    Subject("activation_gradient", *_ELEMENTS),
    Subject("drop_elements", *_ELEMENTS),
    Subject(
        "rotate_pairs", {"B": 1, "M": 256, "H": 8, "P": 32}, {"B": 4, "M": 4096, "H": 32, "P": 64},
        {"B": 1, "M": 1 << 20, "H": 1, "P": 128},
    ),
    Subject("adamw_elements", *_ELEMENTS),
    Subject("reduce_middle", *_MIDDLE),
    Subject("find_middle", *_MIDDLE),
    Subject(
        "largest_in_turn", {"M": 512, "N": 512, "B": 8, "K": 4}, {"M": 4096, "N": 32768, "B": 512, "K": 8},
        {"M": 16, "N": 1 << 24, "B": 1 << 18, "K": 64},
    ),
    Subject(
        "count_in_parts", {"E": 1 << 16, "P": 256, "B": 32}, {"E": 1 << 26, "P": 256, "B": 1024},
        {"E": 1 << 28, "P": 256, "B": 1 << 20},
    ),
    Subject(
        "ell_times_dense", {"R": 4096, "L": 16, "K": 4096, "C": 64}, {"R": 1 << 18, "L": 32, "K": 1 << 18, "C": 256},
        {"R": 256, "L": 1 << 18, "K": 1 << 16, "C": 4096},
    ),
    Subject(
        "blocks_times_dense", {"S": 65, "R": 64, "E": 1024, "P": 16, "Q": 16, "K": 64, "C": 64},
        {"S": 1025, "R": 1024, "E": 16384, "P": 64, "Q": 64, "K": 1024, "C": 4096},
        {"S": 3, "R": 2, "E": 64, "P": 1024, "Q": 1024, "K": 64, "C": 4096},
    ),
    Subject(
        "sampled_products", {"E": 1 << 14, "R": 1024, "C": 1024, "K": 64},
        {"E": 1 << 22, "R": 1 << 17, "C": 1 << 17, "K": 256}, {"E": 1024, "R": 64, "C": 64, "K": 1 << 22},
    ),
    Subject("bags_of_rows", *_BAGS),
    Subject("convolve", *_STACKS),
    Subject("convolution_weight_gradient", *({**shape, "P": min(16, shape["B"])} for shape in _STACKS)),
    Subject("arrange_weights", *_WEIGHTS),
    Subject("turn_weights", *_WEIGHTS),
    Subject(
        "channels_last",
        *({**{name: shape[name] for name in "BCHW"}, "Y": shape["H"], "X": shape["W"]} for shape in _STACKS),
    ),
    Subject(
        "channel_sums", {"B": 2, "C": 32, "S": 784}, {"B": 32, "C": 256, "S": 3136}, {"B": 1, "C": 2, "S": 1 << 28}
    ),
    Subject("mass", *_HEXAHEDRA),
    Subject("stiffness", *_HEXAHEDRA),
    Subject("stiffness_at_nodes", *_HEXAHEDRA),
    Subject(
        "multiply_blocks", {"T": 512, "K": 256, "S": 512, "G": 4, "N": 256, "B": 20},
        {"T": 16384, "K": 1024, "S": 32768, "G": 8, "N": 4096, "B": 1032},
        {"T": 64, "K": 1 << 20, "S": 64, "G": 2, "N": 64, "B": 4},
    ),
    Subject("softmax_gradient", *_SCORES),
    Subject("cumulative_sum_from_the_end", {"M": 512, "N": 1024}, {"M": 4096, "N": 32768}, _LONG_ROWS),
    Subject("cumulative_sum_segments_from_the_end", *_SEGMENTS),
    Subject("stencil_weight_gradient", *_IMAGES),
    Subject("matmul_batches", *_BATCHES),
    Subject(
        "select_largest", {"M": 512, "N": 512, "K": 64}, {"M": 4096, "N": 32768, "K": 64},
        {"M": 16, "N": 1 << 24, "K": 1 << 16},
    ),
    Subject(
        "sort_rows", {"M": 512, "N": 512, "K": 64}, {"M": 1 << 16, "N": 1024, "K": 1024},
        {"M": 1 << 18, "N": 1024, "K": 1024},
    ),
    Subject(
        "csr_value_gradient", {"E": 1 << 16, "R": 4096, "K": 4096, "C": 64},
        {"E": 1 << 22, "R": 1 << 18, "K": 1 << 18, "C": 256}, {"E": 1024, "R": 64, "K": 64, "C": 1 << 22},
    ),
    Subject(
        "ell_value_gradient", {"R": 4096, "L": 16, "K": 4096, "C": 64},
        {"R": 1 << 18, "L": 32, "K": 1 << 18, "C": 256}, {"R": 64, "L": 16, "K": 64, "C": 1 << 22},
    ),
    Subject(
        "block_gradient", {"E": 1024, "R": 64, "K": 64, "P": 16, "Q": 16, "C": 64},
        {"E": 16384, "R": 1024, "K": 1024, "P": 64, "Q": 64, "C": 4096},
        {"E": 64, "R": 2, "K": 64, "P": 1024, "Q": 1024, "C": 4096},
    ),
    Subject(
        "spread_over_segments", {"E": 1 << 16, "R": 4096, "C": 64}, {"E": 1 << 22, "R": 1 << 18, "C": 128},
        {"E": 1 << 18, "R": 16, "C": 4096},
    ),
    Subject("find_largest_of_bags", *_BAGS),
    Subject("bags_gradient", *({**shape, "T": shape["V"] + 1, "P": shape["R"]} for shape in _BAGS)),
    Subject(
        "group_weight_gradient", {"T": 512, "K": 256, "E": 512, "S": 5, "G": 4, "N": 256},
        {"T": 16384, "K": 1024, "E": 32768, "S": 9, "G": 8, "N": 4096},
        {"T": 64, "K": 1 << 20, "E": 64, "S": 3, "G": 2, "N": 64},
    ),
    Subject("spdnn", *_NETWORKS),
    Subject("sparse_layers", *_NETWORKS),
    Subject("equal_weight_layers", *_NETWORKS),
    Subject(
        "sparse_layer", {"M": 1024, "N": 64, "K": 32, "I": 4096}, {"M": 4096, "N": 256, "K": 512, "I": 16384},
        {"M": 1 << 16, "N": 1 << 16, "K": 32, "I": 4096},
    ),
    Subject(
        "block_layers", {"L": 24, "G": 64, "P": 16, "Q": 32, "I": 4096},
        {"L": 120, "G": 256, "P": 16, "Q": 32, "I": 16384},
        {"L": 12, "G": 1 << 12, "P": 16, "Q": 32, "I": 4096},
    ),
    Subject(
        "block_layer", {"M": 1024, "G": 4, "P": 16, "Q": 32, "I": 4096},
        {"M": 4096, "G": 16, "P": 16, "Q": 512, "I": 16384},
        {"M": 1 << 16, "G": 1 << 12, "P": 16, "Q": 32, "I": 4096},
    ),
    Subject("distance_to_state", {"N": 1024, "I": 1800}, {"N": 65536, "I": 2048}, {"N": 1 << 24, "I": 16}),
    Subject("find_extent", *_ELEMENTS),
    Subject("find_classes", {"M": 512}, {"M": 1 << 16}, {"M": 1 << 28}),
    Subject("find_fall", {"S": 4097}, {"S": (1 << 20) + 1}, {"S": (1 << 28) + 1}),
    Subject("attention_blocks", *_BLOCKED),
    Subject("attention_query_gradient", *_BLOCKED),
    Subject("attention_key_gradients", *_BLOCKED),
    Subject(
        "take_columns", {"N": 256, "P": 4096, "I": 2048}, {"N": 4096, "P": 65536, "I": 32768},
        {"N": 2, "P": 1 << 28, "I": 1 << 27},
    ),
)  # fmt: skip


def _subjects() -> tuple[Subject, ...]:
    """Every kernel of the library. Those without sizes above get the catalogue's, the largest those for a GPU."""
    found = {subject.name: subject for subject in _SUBJECTS}
    for entry in CATALOGUE:
        kernel = getattr(import_module(entry.module), entry.name)
        small = {**entry.shape, **(kernel.samples.cpu_sizes or {})}
        found.setdefault(entry.name, Subject(entry.name, small, entry.shape, entry.shape))
    return tuple(found.values())


_ENTRIES = {entry.name: entry for entry in CATALOGUE}
SUBJECTS = _subjects()

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
    entry = _ENTRIES[subject.name]
    source = KernelSource(entry.name, entry.module)
    parameters = getattr(import_module(source.module), source.name).parameters
    request = SpecialisationRequest()
    task = specialise(source, parameters, request, getattr(subject, size), dtype, entry.computed)
    return kernel_case(task, parameters, request, dtype)
