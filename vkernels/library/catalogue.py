"""The library's kernels by name, each with what it is typically called with: what `vk check` compiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A kernel and its typical arguments.

    `family`: the function that launches it. `name`: the kernel's, in `module`. `shape`: sizes by name. `dtype`: of its
    tensors that may have it, usually; `dtypes`: what that can be. `computed`: tensors of the dtype that kernels compute
    in, float32 where that has 16 bits.
    """

    family: str
    name: str
    module: str
    shape: Mapping[str, int]
    dtype: str
    computed: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ("float64", "float32", "float16", "bfloat16")


_ROWS, _LONG, _SPARSE, _ATTENTION, _SEGMENT_SUMS, _SCANS, _STENCILS = (
    f"vkernels.library.{module}"
    for module in ("rows", "long_rows", "sparse", "attention", "segments", "scans", "stencils")
)
_LOSSES, _NORMS, _ACTIVATIONS, _ELEMENTS, _REDUCTIONS, _PRODUCTS, _CONVOLUTION, _FINITE, _EXPERTS = (
    f"vkernels.library.{module}"
    for module in (
        "losses", "norms", "activations", "elements", "reductions", "sparse_products", "convolution",
        "finite_elements", "experts",
    )
)  # fmt: skip
_DENSE, _SPARSE_GRADIENTS, _SEGMENT_GRADIENTS, _EXPERT_GRADIENTS, _SELECTION = (
    f"vkernels.library.{module}"
    for module in ("dense", "sparse_gradients", "segment_gradients", "expert_gradients", "selection")
)
_SHORT_ROWS, _LONG_ROWS = {"M": 4096, "N": 1024}, {"M": 512, "N": 32768}
_SEGMENTS = {"M": 16, "S": 64, "L": 65536}
_BATCHES = {"B": 64, "M": 512, "N": 512, "K": 64}
_IMAGES = {"B": 16, "M": 1024, "N": 1024}

_CLASSES = {"M": 8192, "V": 32768}
_GROUPS = {"B": 32, "G": 32, "C": 8, "S": 3136}
_MIDDLE = {"A": 64, "N": 4096, "C": 64}
_IMAGE_STACK = {"B": 16, "G": 1, "C": 64, "H": 56, "W": 56, "O": 64, "R": 3, "S": 3, "Y": 54, "X": 54}
_WEIGHTS = {"G": 1, "O": 64, "C": 64, "R": 3, "S": 3}
_ROW_PARTS = {**_SHORT_ROWS, "P": 128}
_HEXAHEDRA = {"E": 8192, "C": 1, "P": 5, "Q": 6}

_ATTENTION_BLOCKS, _ATTENTION_GRADIENTS = "vkernels.library.attention_blocks", "vkernels.library.attention_gradients"
_BLOCKED = {"B": 4, "G": 8, "R": 4, "M": 2048, "N": 2048, "D": 64, "E": 64, "P": 32}

_UP_TO_FLOAT32 = ("float32", "float16", "bfloat16")

CATALOGUE = (
    Entry("softmax", "softmax_rows", _ROWS, _SHORT_ROWS, "float16"),
    Entry("softmax", "softmax_rows", _ROWS, _LONG_ROWS, "float16"),
    Entry("softmax", "summarise_exponentials", _LONG, _SEGMENTS, "float16", computed=("peak", "total")),
    Entry("softmax", "normalise_exponentials", _LONG, _SEGMENTS, "float16", computed=("peak", "total")),
    Entry("softmax", "softmax_gradient", _ROWS, _SHORT_ROWS, "float16"),
    Entry("layer_norm", "layer_norm_rows", _ROWS, _SHORT_ROWS, "float16"),
    Entry("layer_norm", "layer_norm_rows", _ROWS, _LONG_ROWS, "float16"),
    Entry("layer_norm", "summarise_moments", _LONG, _SEGMENTS, "float16", computed=("mean", "squares")),
    Entry("layer_norm", "normalise_moments", _LONG, _SEGMENTS, "float16", computed=("mean", "squares")),
    Entry("matmul", "matmul_bias", "vkernels.library.dense", {"M": 4096, "N": 4096, "K": 4096}, "float16"),
    Entry("batched_matmul", "matmul_batches", _DENSE, _BATCHES, "float16"),
    Entry("mlp", "mlp_rows", "vkernels.library.mlp", {"M": 4096, "K": 1024, "H": 4096, "N": 1024}, "float16"),
    Entry(
        "attention",
        "attention_rows",
        _ATTENTION,
        {"B": 4, "G": 8, "R": 4, "M": 2048, "N": 2048, "D": 64, "E": 64},
        "float16",
    ),
    Entry(
        "attention",
        "attention_rows",
        _ATTENTION,
        {"B": 1, "G": 8, "R": 1, "M": 1024, "N": 1024, "D": 512, "E": 512},
        "float16",
    ),
    Entry("attention", "attention_blocks", _ATTENTION_BLOCKS, _BLOCKED, "float16", computed=("normaliser",)),
    Entry("attention", "attention_query_gradient", _ATTENTION_GRADIENTS, _BLOCKED, "float16", ("normaliser", "mean")),
    Entry("attention", "attention_key_gradients", _ATTENTION_GRADIENTS, _BLOCKED, "float16", ("normaliser", "mean")),
    Entry("segment_sum", "sum_segments", _SEGMENT_SUMS, {"S": 65537, "R": 65536, "E": 1 << 22}, "float32"),
    Entry("segment_sum", "sum_segment_rows", _SEGMENT_SUMS, {"S": 65537, "R": 65536, "E": 1 << 20, "C": 64}, "float32"),
    Entry(
        "csr_matmul",
        "csr_times_dense",
        _SEGMENT_SUMS,
        {"S": 65537, "R": 65536, "E": 1 << 20, "K": 65536, "C": 64},
        "float32",
    ),
    Entry("cumulative_sum", "cumulative_sum_rows", _SCANS, _SHORT_ROWS, "float32"),
    Entry("cumulative_sum", "cumulative_sum_rows", _SCANS, _LONG_ROWS, "float32"),
    Entry("cumulative_sum", "sum_of_each_segment", _SCANS, _SEGMENTS, "float32", computed=("total",)),
    Entry("cumulative_sum", "cumulative_sum_segments", _SCANS, _SEGMENTS, "float32", computed=("total",)),
    Entry("cumulative_sum", "cumulative_sum_from_the_end", _SCANS, _SHORT_ROWS, "float32"),
    Entry("cumulative_sum", "cumulative_sum_segments_from_the_end", _SCANS, _SEGMENTS, "float32", ("total",)),
    Entry("stencil", "stencil_cross", _STENCILS, _IMAGES, "float32"),
    Entry("stencil", "stencil_square", _STENCILS, _IMAGES, "float32"),
    Entry("stencil", "stencil_weight_gradient", _STENCILS, _IMAGES, "float32", computed=("part",)),
    Entry("log_softmax", "log_softmax_rows", _LOSSES, _SHORT_ROWS, "float16"),
    Entry("log_softmax", "log_softmax_gradient", _LOSSES, _SHORT_ROWS, "float16"),
    Entry("cross_entropy", "cross_entropy_rows", _LOSSES, _CLASSES, "float16", computed=("loss", "normaliser")),
    Entry("cross_entropy", "cross_entropy_gradient", _LOSSES, _CLASSES, "float16", computed=("grad", "normaliser")),
    Entry("cross_entropy", "add_up", _LOSSES, {"M": 8192}, "float32"),
    Entry("layer_norm", "layer_norm_gradient", _NORMS, _ROW_PARTS, "float16", computed=("of_weight", "of_bias")),
    Entry("rms_norm", "rms_norm_gradient", _NORMS, _ROW_PARTS, "float16", computed=("of_weight",)),
    Entry("rms_norm", "rms_norm_rows", _NORMS, _SHORT_ROWS, "float16"),
    Entry("group_norm", "group_norm_groups", _NORMS, _GROUPS, "float16"),
    Entry("group_norm", "group_norm_gradient", _NORMS, _GROUPS, "float16", computed=("middle", "inverse")),
    Entry("group_norm", "group_norm_parameter_gradients", _NORMS, _GROUPS, "float16", computed=("middle", "inverse")),
    Entry("activate", "activate_elements", _ACTIVATIONS, _SHORT_ROWS, "float16"),
    Entry("activate", "activation_gradient", _ACTIVATIONS, _SHORT_ROWS, "float16"),
    Entry("dropout", "drop_elements", _ELEMENTS, _SHORT_ROWS, "float16"),
    Entry("rotary_embedding", "rotate_pairs", _ELEMENTS, {"B": 4, "M": 2048, "H": 32, "P": 64}, "float16"),
    Entry("adamw", "adamw_elements", _ELEMENTS, _SHORT_ROWS, "float32"),
    Entry("sum", "reduce_middle", _REDUCTIONS, _MIDDLE, "float16"),
    Entry("argmax", "find_middle", _REDUCTIONS, _MIDDLE, "float16"),
    Entry("topk", "largest_in_turn", _SELECTION, {"M": 4096, "N": 1024, "K": 8}, "float16"),
    Entry("topk", "select_largest", _SELECTION, {"M": 4096, "N": 32768, "K": 64}, "float16"),
    Entry("topk", "sort_rows", _SELECTION, {"M": 4096, "N": 1024, "K": 1024}, "float16"),
    Entry("histogram", "count_in_parts", _REDUCTIONS, {"E": 1 << 24, "P": 256, "B": 256}, "float32"),
    Entry("ell_matmul", "ell_times_dense", _PRODUCTS, {"R": 65536, "L": 32, "K": 65536, "C": 64}, "float32"),
    Entry(
        "block_matmul",
        "blocks_times_dense",
        _PRODUCTS,
        {"S": 513, "R": 512, "E": 8192, "P": 32, "Q": 32, "K": 512, "C": 256},
        "float16",
    ),
    Entry("sampled_matmul", "sampled_products", _PRODUCTS, {"E": 1 << 18, "R": 4096, "C": 4096, "K": 64}, "float32"),
    Entry(
        "embedding_bag",
        "bags_of_rows",
        _PRODUCTS,
        {"S": 65537, "R": 65536, "E": 1 << 20, "V": 1 << 17, "C": 64},
        "float32",
    ),
    Entry(
        "csr_matmul",
        "csr_value_gradient",
        _SPARSE_GRADIENTS,
        {"E": 1 << 20, "R": 65536, "K": 65536, "C": 64},
        "float32",
    ),
    Entry("ell_matmul", "ell_value_gradient", _SPARSE_GRADIENTS, {"R": 65536, "L": 32, "K": 65536, "C": 64}, "float32"),
    Entry(
        "block_matmul",
        "block_gradient",
        _SPARSE_GRADIENTS,
        {"E": 8192, "R": 512, "K": 512, "P": 32, "Q": 32, "C": 256},
        "float16",
    ),
    Entry("segment_sum", "spread_over_segments", _SEGMENT_GRADIENTS, {"E": 1 << 20, "R": 65536, "C": 64}, "float32"),
    Entry(
        "embedding_bag",
        "find_largest_of_bags",
        _SEGMENT_GRADIENTS,
        {"S": 65537, "R": 65536, "E": 1 << 20, "V": 1 << 17, "C": 64},
        "float32",
    ),
    Entry(
        "embedding_bag",
        "bags_gradient",
        _SEGMENT_GRADIENTS,
        {"S": 65537, "R": 65536, "T": (1 << 17) + 1, "E": 1 << 20, "P": 65536, "V": 1 << 17, "C": 64},
        "float32",
    ),
    Entry("conv2d", "convolve", _CONVOLUTION, _IMAGE_STACK, "float16"),
    Entry("conv2d", "arrange_weights", _CONVOLUTION, _WEIGHTS, "float16"),
    Entry("conv2d", "turn_weights", _CONVOLUTION, _WEIGHTS, "float16"),
    Entry("conv2d", "convolution_weight_gradient", _CONVOLUTION, {**_IMAGE_STACK, "P": 16}, "float16", ("out",)),
    Entry("conv2d", "channels_last", _CONVOLUTION, {"B": 16, "C": 64, "Y": 54, "X": 54}, "float16"),
    Entry("conv2d", "channel_sums", _CONVOLUTION, {"B": 16, "C": 64, "S": 2916}, "float16"),
    Entry("apply_mass", "mass", _FINITE, _HEXAHEDRA, "float64"),
    Entry("apply_stiffness", "stiffness", _FINITE, _HEXAHEDRA, "float64"),
    Entry("apply_stiffness", "stiffness_at_nodes", _FINITE, _HEXAHEDRA, "float64"),
    Entry(
        "grouped_matmul",
        "multiply_blocks",
        _EXPERTS,
        {"T": 8192, "K": 1024, "S": 16384, "G": 8, "N": 1024, "B": 520},
        "float16",
    ),
    Entry(
        "grouped_matmul",
        "group_weight_gradient",
        _EXPERT_GRADIENTS,
        {"T": 8192, "K": 1024, "E": 16384, "S": 9, "G": 8, "N": 1024},
        "float16",
    ),
    Entry("indices", "find_classes", _LOSSES, {"M": 8192}, "int64"),
    Entry("indices", "find_extent", "vkernels.library.indices", {"M": 1, "N": 1 << 20}, "int64"),
    Entry("indices", "find_fall", "vkernels.library.indices", {"S": 65537}, "int64"),
    Entry("spdnn", "spdnn", _SPARSE, {"L": 120, "N": 1024, "K": 32, "I": 60000}, "float32", dtypes=_UP_TO_FLOAT32),
    Entry(
        "spdnn", "sparse_layers", _SPARSE, {"L": 120, "N": 1024, "K": 32, "I": 60000}, "float32", dtypes=_UP_TO_FLOAT32
    ),
    Entry(
        "spdnn",
        "equal_weight_layers",
        _SPARSE,
        {"L": 120, "N": 1024, "K": 32, "I": 60000},
        "float32",
        dtypes=_UP_TO_FLOAT32,
    ),
    Entry(
        "spdnn", "sparse_layer", _SPARSE, {"M": 1024, "N": 64, "K": 32, "I": 60000}, "float32", dtypes=_UP_TO_FLOAT32
    ),
    Entry(
        "spdnn",
        "block_layers",
        _SPARSE,
        {"L": 120, "G": 64, "P": 16, "Q": 32, "I": 60000},
        "float32",
        dtypes=_UP_TO_FLOAT32,
    ),
    Entry(
        "spdnn",
        "block_layer",
        _SPARSE,
        {"M": 1024, "G": 16, "P": 16, "Q": 32, "I": 60000},
        "float32",
        dtypes=_UP_TO_FLOAT32,
    ),
    Entry("spdnn", "distance_to_state", _SPARSE, {"N": 1024, "I": 1800}, "float32"),
    Entry("spdnn", "take_columns", _SPARSE, {"N": 1024, "P": 60000, "I": 30000}, "float32"),
)
"""Every kernel of the library."""


def entries_named(name: str) -> tuple[Entry, ...]:
    """Those of a kernel's name or a family's; none where there is no such name."""
    return tuple(entry for entry in CATALOGUE if name in (entry.name, entry.family))


def names() -> tuple[str, ...]:
    """Names of kernels and families."""
    return tuple(dict.fromkeys(name for entry in CATALOGUE for name in (entry.family, entry.name)))
