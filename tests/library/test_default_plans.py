"""The library's kernels are right on the CPU under the plan that any kernel gets, and interpreted as written."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import vkernels as vk

from ..ir.interpret.ttir.library import Call
from .reference import fresh_seed
from .test_ttir import cases


def outputs_of(call: Call, run: Callable[..., None]) -> dict[str, np.ndarray]:
    arguments = {name: a.copy() if name in call.expected else a for name, a in call.arguments.items()}
    outputs = {name: arguments[name] for name in call.expected}
    for out in outputs.values():
        out[...] = np.nan
    run(**arguments, **call.constants)
    return outputs


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", cases(np.float32, 0))
def test_a_kernel_is_right_by_default_and_interpreted(name):
    call = cases(np.float32, fresh_seed())[name]
    for run in (vk.kernel(call.kernel.function), call.kernel.interpret, call.kernel):
        assert not call.difference(outputs_of(call, run))
