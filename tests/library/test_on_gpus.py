"""Every kernel of the library is right as GPUs run it: its functions' own tests, called on a GPU that NumPy plays.

Each test of a function is called on a few sizes (odd, one, prime, longer than a tile) in several dtypes. The thorough
ones go through all the sizes and dtypes of those tests that are not too large, within random limits too.
"""

from __future__ import annotations

import inspect
import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest
import torch

from vkernels.ir.limits import Limits
from vkernels.library import attention_slopes, rows
from vkernels.library.catalogue import CATALOGUE

from ..generated.outcome import Outcome
from ..generated.planned_cases.group import run_limits
from ..generated.planned_cases.library import LibraryKernel, constants_of
from ..generated.planned_cases.limits import random_limits
from ..generated.planned_cases.subjects import library_subject
from . import (
    test_attention,
    test_attention_gradients,
    test_attention_of_sequences,
    test_convolution,
    test_dense,
    test_elements,
    test_expert_gradients,
    test_experts,
    test_finite_elements,
    test_losses,
    test_mlp,
    test_norms,
    test_reductions,
    test_rows,
    test_scan_gradients,
    test_scans,
    test_segment_gradients,
    test_segments,
    test_selection,
    test_sparse,
    test_sparse_gradients,
    test_sparse_products,
    test_stencils,
)
from .on_a_gpu import AMD, NVIDIA, SMALL, TooLargeError, on_a_gpu
from .reference import fresh_seed

F64, F32, F16, BF16 = torch.float64, torch.float32, torch.float16, torch.bfloat16
GPUS = {"nvidia": NVIDIA, "amd": AMD, "small": SMALL}
LARGEST = 20_000
"""Elements of a tensor that thorough tests take."""


@dataclass(frozen=True)
class Run:
    """A test of a function, the kernels that it runs, and what it is called with here, on each GPU in turn.

    `cut`: rows are long, and are cut into segments, from a few elements on. `lean`: without memory for slopes.
    """

    test: Callable[..., None]
    kernels: tuple[str, ...]
    calls: tuple[tuple[Any, ...], ...]
    cut: bool = False
    lean: bool = False

    @property
    def name(self) -> str:
        how = "_cut" * self.cut + "_lean" * self.lean
        return f"{self.test.__module__.rpartition('.')[2]}.{self.test.__name__}{how}"


def run(test: Callable[..., None], kernels: str, *calls: tuple[Any, ...], cut: bool = False, lean: bool = False) -> Run:
    return Run(test, tuple(kernels.split()), calls, cut, lean)


ROWS = (((17, 33), F32), ((3, 1021), F16), ((5, 127), F32), ((7, 4097), F32), ((2, 257), F64), ((1, 1), BF16))
LONG = (((2, 1024), F32), ((3, 1536), F64), ((1, 1024), F16))
GRADIENTS = (*ROWS, ((1009, 2), F32))
LENGTHS = (([5, 31, 32, 33, 1, 64, 65], F32), ([7, 211, 0], BF16), ([0, 0, 3, 0], F16), ([1], F64))
CROSSES = (((17, 33), F32, (5,)), ((9, 65), F16, (5,)), ((3, 7), F32, (5,)), ((1, 1), BF16, (5,)))
SQUARES = (((2, 9, 131), F32, (3, 3)), ((3, 20, 40), F64, (3, 3)), ((1, 7), F16, (3, 3)))
REDUCED = (
    ((7, 5), F32), ((3, 4, 5), F16), ((5, 1, 3), F32), ((1009, 2), F64), ((2, 3001, 3), F32), ((1,), BF16),
)  # fmt: skip

RUNS = (
    run(test_rows.test_softmax_is_right, "softmax_rows", *ROWS),
    run(test_rows.test_layer_norm_is_right, "layer_norm_rows", *ROWS),
    run(test_rows.test_softmax_is_right, "summarise_exponentials normalise_exponentials", *LONG, cut=True),
    run(test_rows.test_layer_norm_is_right, "summarise_moments normalise_moments", *LONG, cut=True),
    run(test_rows.test_the_gradient_of_softmax_is_right, "softmax_gradient", *ROWS),
    run(test_scans.test_cumulative_sum_is_right, "cumulative_sum_rows", *ROWS),
    run(test_scans.test_cumulative_sum_is_right, "sum_of_each_segment cumulative_sum_segments", *LONG, cut=True),
    run(
        test_scan_gradients.test_gradients_of_cumulative_sums_add_up_from_the_end, "cumulative_sum_from_the_end", *ROWS
    ),
    run(
        test_scan_gradients.test_gradients_of_cumulative_sums_add_up_from_the_end,
        "sum_of_each_segment cumulative_sum_segments_from_the_end", *LONG, cut=True,
    ),
    run(test_losses.test_log_softmax_is_right_forward_and_backward, "log_softmax_rows log_softmax_gradient", *ROWS),
    run(
        test_losses.test_cross_entropy_is_right_forward_and_backward,
        "cross_entropy_rows cross_entropy_gradient add_up find_classes",
        ((17, 33), F32, 0.1, "mean"), ((3, 1021), F16, 0.1, "none"), ((5, 127), F64, 0.1, "mean"),
        ((7, 4097), F32, 0.1, "sum"), ((300, 7), BF16, 0.0, "mean"), ((1, 1), F64, 0.0, "sum"),
    ),
    run(
        test_norms.test_rms_norm_is_right_forward_and_backward,
        "rms_norm_rows rms_norm_gradient", *GRADIENTS,
    ),
    run(
        test_norms.test_the_gradients_of_layer_norm_are_right,
        "layer_norm_gradient", *GRADIENTS,
    ),
    run(
        test_norms.test_group_norm_is_right_forward_and_backward,
        "group_norm_groups group_norm_gradient reduce_middle",
        ((3, 2, 4, 5), F32), ((2, 3, 1, 77), F16), ((1, 32, 2, 9), BF16), ((2, 1, 6, 1000), F32),
        ((2, 2, 3, 1009), F32), ((1, 1, 1, 2), F64),
    ),
    run(
        test_elements.test_activations_are_right_forward_and_backward, "activate_elements activation_gradient",
        ("gelu", F32), ("gelu_tanh", F16), ("silu", F64), ("relu", BF16), ("tanh", F32), ("sigmoid", F32),
    ),
    run(
        test_elements.test_dropout_keeps_the_right_share_and_the_same_for_the_gradient, "drop_elements",
        ((17, 33), F32), ((1009, 2), F64), ((2, 3, 4), F16), ((1, 2003), F32), ((1, 1), BF16), ((3, 5), F32),
    ),
    run(
        test_elements.test_rotary_embedding_is_right_and_turns_back, "rotate_pairs",
        ((2, 9, 3, 8), F32, False), ((3, 17, 2, 66), F16, False), ((1, 1, 1, 2), F64, True),
        ((1, 131, 1, 130), F32, True), ((2, 5, 7, 6), BF16, True),
    ),
    run(
        test_elements.test_adamw_takes_the_steps_that_torch_takes, "adamw_elements",
        ((33, 7), F32), ((1000,), BF16), ((5, 4, 3), F64), ((257, 31), F32), ((1, 1), F16),
    ),
    run(test_reductions.test_sums_and_means_are_right_along_every_dimension, "reduce_middle", *REDUCED),
    run(test_reductions.test_extremes_and_their_places_are_right, "reduce_middle find_middle", *REDUCED),
    run(
        test_selection.test_any_number_is_right, "largest_of_blocks largest_in_turn",
        ((33, 1009), F32, 0.005), ((7, 40), F16, 0.1), ((3, 40), BF16, 0.1), ((17, 13), F64, 0.3), ((1, 1), F32, 1.0),
    ),
    run(
        test_selection.test_any_number_is_right, "select_largest sort_rows",
        ((5, 521), F32, 0.03), ((3, 128), F64, 0.1), ((2, 40), F16, 0.3),
    ),
    run(
        test_reductions.test_histograms_are_right, "count_in_parts reduce_middle",
        ((1000,), F32), ((3, 5, 7), F64), ((1,), F16), ((17, 211), BF16), ((0, 3), F32),
    ),
    run(
        test_sparse_products.test_ell_is_right, "ell_times_dense",
        ((21, 5, 40, 33), F32, "gelu"), ((64, 32, 64, 100), F16, "relu"), ((9, 4, 3, 1), BF16, "none"),
        ((67, 7, 31, 131), F32, "none"), ((1, 1, 1, 1), F64, "none"), ((5, 0, 4, 7), F32, "relu"),
    ),
    run(
        test_sparse_gradients.test_gradients_of_ell_are_right, "ell_value_gradient csr_times_dense",
        ((21, 5, 40, 33), F32, "gelu"), ((33, 8, 17, 20), F16, "none"), ((5, 3, 4, 7), F64, "none"),
        ((1, 1, 1, 1), BF16, "none"),
    ),
    run(
        test_sparse_products.test_blocks_are_right, "blocks_times_dense",
        ((9, 11, 30, 4, 8, 50), F32), ((6, 5, 17, 16, 16, 33), F16), ((1, 1, 1, 1, 1, 1), F64),
        ((3, 5, 9, 33, 17, 65), F32), ((6, 5, 17, 16, 16, 33), BF16), ((3, 2, 5, 4, 4, 9), F32),
    ),
    run(
        test_sparse_gradients.test_gradients_of_blocks_are_right, "block_gradient blocks_times_dense",
        ((9, 11, 30, 4, 8, 50), F32, "none"), ((6, 5, 17, 16, 16, 33), F16, "sigmoid"),
        ((1, 1, 1, 1, 1, 1), F64, "none"),
    ),
    run(
        test_sparse_products.test_sampled_products_are_right, "sampled_products",
        ((31, 45, 200, 40), F32), ((7, 9, 63, 128), F64), ((3, 5, 17, 61), F32), ((7, 9, 131, 1021), F32),
        ((4, 4, 0, 5), BF16), ((1, 1, 1, 1), F16),
    ),
    run(
        test_sparse_products.test_bags_are_right, "bags_of_rows",
        ((21, 45, 33, 100), F32, "sum"), ((40, 9, 130, 77), F16, "max"), ((3, 2, 4, 0), F32, "max"),
        ((7, 45, 257, 61), BF16, "mean"), ((21, 45, 33, 100), F32, "max"), ((1, 1, 1, 1), F64, "mean"),
    ),
    run(
        test_segment_gradients.test_gradients_of_bags_are_right, "bags_gradient",
        ((21, 45, 33, 100), F32, "sum"), ((40, 9, 30, 77), F16, "mean"), ((3, 2, 4, 7), F64, "sum"),
    ),
    run(
        test_segment_gradients.test_gradients_of_bags_are_right, "find_largest_of_bags bags_gradient",
        ((21, 45, 33, 100), F32, "max"), ((40, 9, 30, 77), BF16, "max"), ((3, 2, 4, 7), F64, "max"),
    ),
    run(test_segments.test_segment_sum_is_right, "sum_segments sum_segment_rows", *LENGTHS),
    run(test_segments.test_csr_matmul_is_right, "csr_times_dense find_extent find_fall", *LENGTHS),
    run(
        test_segment_gradients.test_gradients_of_segment_sums_are_those_of_their_segments, "spread_over_segments",
        *LENGTHS,
    ),
    run(
        test_sparse_gradients.test_gradients_of_csr_are_right, "csr_value_gradient csr_times_dense",
        ((9, 40, 7, 30), F32, "sigmoid"), ((31, 200, 45, 17), F16, "none"), ((5, 7, 4, 7), F64, "none"),
        ((65, 127, 1, 1), BF16, "sigmoid"),
    ),
    run(
        test_convolution.check,
        "convolve arrange_weights turn_weights convolution_weight_gradient channels_last channel_sums",
        ("strides", F32, 1), ("depthwise", F16, 2), ("wide padding", F64, 3),
        ("wide padding", BF16, 4), ("dilation and groups", F32, 5), ("one place", F32, 6),
    ),
    run(
        test_experts.test_grouped_products_are_right, "multiply_blocks",
        (([13, 0, 67, 20], 24, 37), F32), (([32, 33, 31], 16, 64), F16), (([2] * 3, 13, 3), BF16),
        (([100], 7, 9), F32), (([0, 0], 5, 6), F32), (([1], 1, 1), F64),
    ),
    run(
        test_experts.test_mixtures_are_right, "multiply_blocks",
        ((40, 2, 4, 12, 30, 9), F32), ((9, 2, 3, 7, 17, 5), F16), ((1, 1, 1, 1, 1, 1), F64),
    ),
    run(
        test_expert_gradients.test_gradients_of_grouped_products_are_right, "group_weight_gradient multiply_blocks",
        (([13, 0, 67, 20], 24, 37), F32), (([5, 2, 9], 16, 17), F16), (([3, 1], 3, 5), F64),
    ),
    run(
        test_finite_elements.test_operators_are_right, "mass stiffness stiffness_at_nodes",
        (1, 1, 9, F32), (2, 3, 2, F64), (1, 1, 1, F16),
    ),
    run(
        test_dense.test_matmul_is_right, "matmul_bias",
        ((17, 31, 5), F32), ((65, 64, 130), F16), ((2, 3, 4), F32), ((1, 500, 200), BF16), ((67, 131, 31), F32),
        ((1, 1, 1), F64),
    ),
    run(
        test_dense.test_batches_are_right, "matmul_batches",
        ((3, 17, 31, 5), F32, False), ((5, 64, 33, 65), F16, False), ((2, 3, 5, 7), F64, False),
        ((3, 17, 31, 5), BF16, False),
    ),
    run(
        test_mlp.test_mlp_is_right, "mlp_rows",
        ((17, 31, 65, 9), F32), ((65, 64, 130, 33), F16), ((2, 3, 4, 5), BF16), ((5, 61, 257, 7), F32),
        ((17, 31, 65, 9), F64), ((1, 1, 1, 1), F64),
    ),
    run(
        test_attention.test_attention_is_right, "attention_rows",
        ((4, 2, 5, 7, 3, 9), F32, False), ((2, 2, 17, 33, 24, 17), F16, False), ((1, 1, 3, 5, 2, 3), F64, False),
        ((6, 2, 1, 100, 16, 16), BF16, False), ((1, 1, 1, 1, 1, 1), F64, False),
    ),
    run(
        test_attention.test_windows_are_right, "attention_blocks",
        ((2, 2, 70, 90, 16, 24), F32, {"window": 5}),
        ((2, 1, 40, 70, 16, 24), F16, {"causal": True, "window": (17, 5)}),
    ),
    run(
        test_attention_gradients.test_gradients_are_right,
        "attention_blocks attention_means attention_slopes attention_slopes_times_keys",
        ((4, 2, 20, 70, 24, 17), F32, {"causal": True}), ((2, 1, 17, 33, 7, 5), F16, {}),
    ),
    run(
        test_attention_gradients.test_gradients_are_right,
        "attention_blocks attention_query_gradient attention_key_gradients",
        ((4, 2, 20, 70, 24, 17), F32, {"causal": True}), ((2, 1, 17, 33, 7, 5), F16, {}), lean=True,
    ),
    run(
        test_attention_of_sequences.test_results_and_gradients_are_those_of_each_alone,
        "attention_blocks attention_slopes attention_slopes_times_keys",
    ),
    run(test_stencils.test_stencil_is_right, "stencil_cross", *CROSSES),
    run(test_stencils.test_stencil_is_right, "stencil_square", *SQUARES),
    run(test_scan_gradients.test_gradients_of_stencils_are_right, "stencil_weight_gradient", *SQUARES, *CROSSES[:2]),
    run(
        test_sparse.test_spdnn_is_right, "spdnn",
        ((7, 3, 2, 5), F32), ((33, 5, 4, 129), F16), ((5, 2, 3, 7), F32), ((64, 8, 3, 64), F32), ((6, 2, 0, 10), BF16),
        ((1, 1, 1, 1), F32),
    ),
    run(
        test_sparse.test_layers_with_biases_and_caps_of_their_own_are_right, "sparse_layers sparse_layer",
        ((7, 3, 2, 5), F32), ((33, 5, 4, 129), F16), ((5, 2, 3, 7), BF16),
    ),
    run(
        test_sparse.test_layers_with_one_weight_an_output_are_right, "equal_weight_layers",
        ((7, 3, 2, 5), F32), ((33, 5, 4, 129), F16), ((5, 2, 3, 7), BF16),
    ),
    run(
        test_sparse.test_layers_in_blocks_are_right, "block_layers block_layer",
        ((2, 4, 3, 2, 5), F32), ((5, 7, 5, 4, 129), F16), ((3, 8, 2, 3, 7), BF16),
    ),
    run(test_sparse.test_distances_are_the_largest_of_each_image, "distance_to_state", (F32,), (BF16,), (F64,)),
    run(test_sparse.test_take_columns, "take_columns", (F32,), (BF16,), (F64,)),
    run(test_attention.test_attention_is_right, "attention_blocks", ((2, 1, 33, 129, 64, 40), F32, True)),
)  # fmt: skip


OTHERS = sorted({entry.name for entry in CATALOGUE} - {name for each in RUNS for name in each.kernels})
"""Kernels without a run: they are called with their sample inputs."""


@pytest.mark.sample(1)
@pytest.mark.parametrize("on", GPUS.values(), ids=list(GPUS))
@pytest.mark.parametrize("name", OTHERS)
def test_other_kernels_are_right_on_a_gpu(name: str, on: Limits) -> None:
    seed, outcome = fresh_seed(), Outcome()
    constants = tuple((key, values[0]) for key, values in constants_of(name).items())
    for dtype in next(entry.dtypes for entry in CATALOGUE if entry.name == name):
        run_limits(
            library_subject(LibraryKernel(name, dtype, constants)), random.Random(seed), True, outcome, limits=on
        )
    assert not outcome.failures, "\n".join(f"{each.where}\n{each.message}" for each in outcome.failures)


def each_on_one() -> Iterator[Any]:
    """Tests with one call for each GPU, of those that are its turn; which one differs from test to test."""
    for turn, each in enumerate(RUNS):
        for number, (name, limits) in enumerate(GPUS.items()):
            if calls := each.calls[number :: len(GPUS)]:
                yield pytest.param(each, [calls[turn % len(calls)]], limits, id=f"{each.name}-{name}")


@pytest.mark.sample(4)
@pytest.mark.parametrize(("each", "calls", "limits"), list(each_on_one()))
def test_the_library_is_right_on_a_gpu(each, calls, limits):
    """One call on each of the GPUs."""
    check(each, calls, limits)


@pytest.mark.thorough
@pytest.mark.parametrize("gpu", [*GPUS, "random"])
@pytest.mark.parametrize("each", RUNS, ids=[each.name for each in RUNS])
def test_the_library_is_right_on_any_gpu_at_any_size(each, gpu):
    """Every call of the table, and all that the test itself is called with, on every GPU."""
    check(each, (*each.calls, *own_calls(each.test)), GPUS.get(gpu), LARGEST)


def check(each: Run, calls: tuple[tuple[Any, ...], ...], limits: Limits | None, largest: int = 1 << 62) -> None:
    """Call a test on a GPU, of random limits where none are given; calls that are too large are left out."""
    seed, ran = fresh_seed(), set()
    for number, call in enumerate(calls):
        found = random_limits(random.Random(f"{seed}/{number}"), True) if limits is None else limits
        print(f"{each.name}{call} on {found}")
        how = cut_rows(each.cut), without_slopes(each.lean)
        with how[0], how[1], on_a_gpu(found, seed, largest) as gpu, suppress(TooLargeError):
            each.test(*call)
        ran |= set(gpu.ran)
    assert set(each.kernels) <= ran


@contextmanager
def cut_rows(cut: bool) -> Iterator[None]:
    """Rows are long from 1024 elements on, and few rows are always cut."""
    if not cut:
        yield
        return
    with (
        patch.object(rows, "LONG", 1024),
        patch.object(rows, "SHORTEST_SEGMENT", 64),
        patch.object(rows, "LONGEST_SEGMENT", 512),
        patch("vkernels.library.scans.threads_to_plan_for", lambda: 64),
    ):
        yield


def without_slopes(lean: bool) -> AbstractContextManager[object]:
    """No memory for slopes, so that blocks of queries compute scores again, as on GPUs."""
    return patch.object(attention_slopes, "SLOPES_BYTES", 0) if lean else nullcontext()


def own_calls(test: Callable[..., None]) -> list[tuple[Any, ...]]:
    """What pytest calls a test with, by its marks."""
    names = list(inspect.signature(test).parameters)
    choices = []
    for mark in getattr(test, "pytestmark", []):
        if mark.name == "parametrize":
            keys = mark.args[0] if isinstance(mark.args[0], tuple) else (mark.args[0],)
            plain = [value.values if hasattr(value, "marks") else value for value in mark.args[1]]
            values = [value if len(keys) > 1 else (value,) for value in plain]
            choices.append([dict(zip(keys, value, strict=True)) for value in values])
    products = ({k: v for part in parts for k, v in part.items()} for parts in itertools.product(*choices))
    return [tuple(found[name] for name in names) for found in products if set(found) == set(names)]
