"""Where launches begin in the plans of a space."""

from __future__ import annotations

import pytest

from vkernels.autotune.plan_space import read
from vkernels.inspect.cases import KernelSource, kernel_at
from vkernels.inspect.specialisation import SpecialisationRequest, specialise
from vkernels.ir.planning.fits import why_inapplicable
from vkernels.library.catalogue import CATALOGUE
from vkernels.targets import limits_of, target_named


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["softmax_rows", "layer_norm_rows"])
def test_launches_begin_where_what_crosses_them_may(name):
    """Not between a maximum and what goes online with it, nor within what shared memory keeps."""
    entry = next(each for each in CATALOGUE if each.name == name)
    source, shape = KernelSource(entry.name, entry.module), {"M": 4096, "N": 4096}
    found = kernel_at(source)
    request = SpecialisationRequest(dtype="float16", shape=shape)
    task = specialise(source, found.parameters, request, shape, entry.dtype, entry.computed, found.samples)
    space = read(task, limits_of(target_named("h200-sxm-141")), 5000)
    plans = [plan for plan in map(space.plan, space.space.listed) if plan.launches][::20]
    assert plans
    for plan in plans:
        assert why_inapplicable(space.versions[0].choices, plan) is None, plan
