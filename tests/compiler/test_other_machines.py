"""With the calibration of another machine plans change, results stay right, and deterministic ones keep their bits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from jaxtyping import Int, Int8

import vkernels as vk
from vkernels import library
from vkernels.compiler.default_session import use_session
from vkernels.compiler.session import CompilerSession
from vkernels.runtime.determinism import using_deterministic
from vkernels.runtime.threads import using_threads
from vkernels.targets.cpu_rates import in_ranges

from ..library.reference import assert_close, fresh_seed, normal
from .calibrations import calibrating
from .rates import ABSURD, PLAUSIBLE

MACHINES = {**PLAUSIBLE, **ABSURD}


@vk.kernel
def products(a: Int8[vk.Tensor, "M K"], b: Int8[vk.Tensor, "K N"], out: Int[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    k = vk.whole("K")
    out[i, j] = vk.dot(a[i, k], b[k, j])


def matmul(dtype, turn=lambda a, b: (a, b)):
    def make(seed):
        a, b = turn(normal((70, 130), dtype, seed), normal((130, 90), dtype, seed + 1))
        return library.matmul(a, b), a.double() @ b.double(), 130

    return make


def integers(seed):
    draw = np.random.default_rng(seed)
    a, b = (torch.from_numpy(draw.integers(-128, 128, shape, np.int8)) for shape in ((40, 200), (200, 70)))
    out = torch.empty(40, 70, dtype=torch.int32)
    products(a, b, out)
    return out, a.int() @ b.int(), None


def softmax(seed):
    x = normal((300, 1000), torch.float32, seed)
    return library.softmax(x), x.double().softmax(-1), 1000


def attention(dtype):
    def make(seed):
        q, k, v = (normal((1, 2, 90, 32), dtype, seed + number) for number in range(3))
        expected = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double())
        return library.attention(q, k, v), expected, 90

    return make


def convolution(dtype):
    def make(seed):
        image, weight = normal((2, 16, 12, 12), dtype, seed), normal((24, 16, 3, 3), dtype, seed + 1)
        expected = torch.nn.functional.conv2d(image.double(), weight.double())
        return library.conv2d(image, weight), expected, 144

    return make


def sums(seed):
    x = normal((40, 3000), torch.float32, seed)
    return library.cumulative_sum(x), x.double().cumsum(-1), 3000


def gathers(seed):
    draw = np.random.default_rng(seed)
    table, index = normal((500, 48), torch.float32, seed), torch.from_numpy(draw.integers(0, 500, 700))
    start = torch.arange(0, 701, 7)
    return library.embedding_bag(table, index, start), table[index].double().reshape(100, 7, 48).sum(1), 7


CASES = {
    "matmul f32": matmul(torch.float32),
    "matmul bf16": matmul(torch.bfloat16),
    "matmul f16": matmul(torch.float16),
    "transposed": matmul(torch.float32, lambda a, b: (a.t().contiguous().t(), b.t().contiguous().t())),
    "transposed bf16": matmul(torch.bfloat16, lambda a, b: (a.t().contiguous().t(), b.t().contiguous().t())),
    "int8": integers,
    "softmax": softmax,
    "attention": attention(torch.float32),
    "attention bf16": attention(torch.bfloat16),
    "convolution": convolution(torch.float32),
    "convolution bf16": convolution(torch.bfloat16),
    "scan": sums,
    "gathers": gathers,
}


@pytest.fixture
def calibrated(monkeypatch):
    with calibrating(monkeypatch) as calibrate:
        yield calibrate


def run(make, seed):
    """What a new process gives for a case, and the plans of its calls."""
    events = []
    with use_session(CompilerSession(patience=600.0)), vk.on_launch(events.append):
        found = make(seed)
    return *found, tuple(repr(event.plan) for event in events)


@pytest.mark.parametrize("machine", MACHINES)
def test_these_calibrations_could_be_loaded(machine):
    assert in_ranges(MACHINES[machine]) == MACHINES[machine]


@pytest.mark.slow
@pytest.mark.sample(3)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("case", CASES)
def test_results_stay_right(calibrated, case, machine):
    calibrated(MACHINES[machine])
    seed = fresh_seed()
    with using_threads(2):
        found, expected, terms, _ = run(CASES[case], seed)
    if terms is None:
        assert torch.equal(found, expected)
    else:
        assert_close(found, expected, terms)


@pytest.mark.slow
@pytest.mark.sample(3)
@pytest.mark.parametrize("case", CASES)
def test_deterministic_results_keep_their_bits(calibrated, case):
    seed, found = fresh_seed(), set()
    with using_deterministic(True):
        for number, rates in enumerate((None, *MACHINES.values())):
            calibrated(rates)
            with using_threads(1 + number % 2):
                found.add(run(CASES[case], seed)[0].contiguous().view(torch.uint8).numpy().tobytes())
    assert len(found) == 1


@pytest.mark.slow
def test_plans_change(calibrated):
    """Most of them do between the machines that could be."""
    changed = {}
    for case, make in CASES.items():
        plans = set()
        for rates in PLAUSIBLE.values():
            calibrated(rates)
            with using_threads(1):
                plans.add(run(make, 0)[-1])
        changed[case] = len(plans) > 1
    print(changed)
    assert sum(changed.values()) > len(CASES) / 2
