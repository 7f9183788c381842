"""Calls like an earlier one are repeated without the function around their kernels: operations give the same so."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import vkernels as vk
import vkernels.torch as vt

from ..library.reference import fresh_seed
from .samples import GRADIENTS, SAMPLES, WITHOUT_GRADIENTS, Maker
from .test_operations import cases, operation

NAMES = {**SAMPLES, **GRADIENTS, **WITHOUT_GRADIENTS}


def results(name: str, seed: int) -> tuple[Any, ...]:
    with torch.no_grad():
        found = operation(name)(*NAMES[name](Maker(seed, False)))
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("name", cases(NAMES))
def test_a_repeated_call_gives_what_the_function_gives(name: str) -> None:
    """The third call of a kind, on other numbers, beside one that is told of launches, which nothing repeats."""
    seed = fresh_seed()
    with vt.patient():
        for each in range(2):
            results(name, seed + each)
        found = results(name, seed + 2)
        with vk.on_launch(lambda launch: None):
            expected = results(name, seed + 2)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12, equal_nan=True)
