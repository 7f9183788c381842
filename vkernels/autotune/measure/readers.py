"""Readers of results: what a plan leaves in the caches decides how long the next kernel waits for its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Int

import vkernels.language as vk
from vkernels.compiler.default_session import default_session
from vkernels.compiler.request import CompileRequest
from vkernels.runtime.bind_arguments import bind
from vkernels.runtime.present_target import present_target

from ..arguments import copied
from .fixed_plans import chosen_plan, with_plan


@vk.kernel
def copy_words(x: Int[vk.Tensor, "N"], out: Int[vk.Tensor, "N"]) -> None:
    """The least that a consumer does: read every element once, in order, and write as many."""
    i = vk.tile("N")
    out[i] = x[i]


def reader_of(values: Mapping[str, Any], names: Sequence[str], device: str) -> Callable[[], object]:
    """A call that copies these tensors, compiled; tensors without elements or with gaps in memory are left out."""
    calls = []
    for name in names:
        words = words_of(values[name])
        if words is None:
            continue
        arguments = [words, copied(words)]
        kernel = with_plan(copy_words, chosen_plan(copy_words, arguments, device))
        default_session().compile(CompileRequest(kernel, bind(kernel, arguments), present_target(device))).executable()
        calls.append(partial(kernel, *arguments))

    def read() -> None:
        for call in calls:
            call()

    return read


def words_of(value: Any) -> Any:
    """A tensor's memory as a vector of 32-bit integers, or of bytes; None if it has gaps or no elements."""
    is_numpy = isinstance(value, np.ndarray)
    strides = value.strides if is_numpy else value.stride()
    order = sorted(range(value.ndim), key=lambda dimension: -abs(strides[dimension]))
    laid = value.transpose(order) if is_numpy else value.permute(order)
    if not (laid.flags.c_contiguous if is_numpy else laid.is_contiguous()) or 0 in value.shape:
        return None
    flat, size = laid.reshape(-1), value.nbytes
    if is_numpy:
        return flat.view(np.int32 if size % 4 == 0 else np.int8)
    import torch

    return flat.view(torch.int32 if size % 4 == 0 else torch.int8)
