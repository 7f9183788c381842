"""The catalogue has every kernel of the library, and each can be prepared for every device."""

from __future__ import annotations

import itertools
import json
import pkgutil
from dataclasses import asdict
from importlib import import_module

import pytest

import vkernels.library
from vkernels.inspect.resolve import JitOptions, resolve_cases
from vkernels.inspect.specialisation import SpecialisationRequest
from vkernels.inspect.worker_service import answer_to
from vkernels.language.kernel import Kernel
from vkernels.library.catalogue import CATALOGUE, names
from vkernels.targets import known_targets, limits_of


def test_every_kernel_of_the_library_is_in_it():
    modules = [import_module(m.name) for m in pkgutil.walk_packages(vkernels.library.__path__, "vkernels.library.")]
    there = {value.name for module in modules for value in vars(module).values() if isinstance(value, Kernel)}
    assert there == {entry.name for entry in CATALOGUE}


def test_names_are_told_apart():
    assert "all" not in names()
    families = {entry.family for entry in CATALOGUE}
    assert not [e for e in CATALOGUE if e.name in families and e.family != e.name]


def check_lowering(dtype, choices):
    """Lower every kernel that takes the dtype for devices: for one of the `choices` after the other, in turn."""
    cases = resolve_cases(["all"], SpecialisationRequest(dtype), JitOptions(), CATALOGUE, None)
    assert len(cases) == sum(dtype is None or dtype in entry.dtypes for entry in CATALOGUE)
    for case, devices in zip(cases, itertools.cycle(choices), strict=False):
        targets = [{"architecture": t.architecture, "limits": asdict(limits_of(t))} for t in devices]
        answer = answer_to({**case.as_request(), "targets": targets})
        assert "error" not in answer, (case, answer)
        assert not [found for found in answer["targets"] if "error" in found], (case, answer["targets"])
        assert all(launches for launches in answer["launches"])


@pytest.mark.slow
def test_small_devices_get_code_of_every_family():
    """Every fourth kernel, for one of two; tests/commands checks every kernel for a slice of an H100."""
    small, other = known_targets()["t4"], known_targets()["rx7900xtx"]
    check_lowering(None, [[small], *[[]] * 3, [other], *[[]] * 3])


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_each_is_lowered_for_every_device_in_every_dtype(dtype):
    check_lowering(dtype, [list(known_targets().values())])


@pytest.mark.slow
def test_devices_of_one_plan_share_their_launches():
    (case,) = resolve_cases(["take_columns"], SpecialisationRequest(), JitOptions(), CATALOGUE, None)
    targets = [{"architecture": t.architecture, "limits": asdict(limits_of(t))} for t in known_targets().values()]
    answer = answer_to({**case.as_request(), "targets": targets})
    plans = {json.dumps(found["planned"]["plan"], sort_keys=True) for found in answer["targets"]}
    assert len(answer["launches"]) == len(plans) < len(targets)
