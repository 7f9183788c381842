"""Steps that call what `torch.compile` has made: under a limit it runs as it was written, with the same bits."""

from __future__ import annotations

import warnings

import pytest
import torch

import vkernels as vk
import vkernels.memory

from .meter import Meter

pytestmark = pytest.mark.usefixtures("one_thread")
WIDTH, ROWS, CALLS = 32, 64, 36


class Trained:
    """A model, and how it is compiled."""

    def __init__(self, how: str = "no"):
        torch.manual_seed(0)
        linear = torch.nn.Linear
        blocks = ((linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), linear(4 * WIDTH, WIDTH)) for _ in range(3))
        self.model = torch.nn.Sequential(*(torch.nn.Sequential(*each) for each in blocks))
        self.call = self.model
        self.optimiser = torch.optim.SGD(self.model.parameters(), 0.1)
        if how == "module":
            self.call = torch.compile(self.model, backend="aot_eager")
        elif how == "in place":
            self.model.compile(backend="aot_eager")
        elif how == "function":
            self.call = torch.compile(lambda x: self.model(x), backend="aot_eager", fullgraph=True)

    def step(self, x):
        self.optimiser.zero_grad()
        loss = self.call(x).square().mean()
        loss.backward()
        self.optimiser.step()
        return loss.detach()


@pytest.fixture(autouse=True)
def forgets():
    yield
    torch._dynamo.reset()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["module", "in place", "function"])
@pytest.mark.parametrize(("share", "ran_before"), [(1.1, True), (1.1, False), (0.7, True)])
def test_compiled_code_keeps_the_limit_and_the_bits(how, share, ran_before):
    draw = torch.Generator().manual_seed(torch.seed() % 2**31)
    print("seed", draw.initial_seed())
    batches = torch.randn(CALLS, ROWS, WIDTH, generator=draw)
    plain = Trained()
    with Meter([*plain.model.parameters()]) as meter:
        expected = [plain.step(x) for x in batches]
    program = Trained(how)
    if ran_before:
        state = {name: each.clone() for name, each in program.model.state_dict().items()}
        program.step(batches[0])
        program.model.load_state_dict(state)
    step = vk.memory.limit(program.step, most := int(share * meter.peak))
    with (
        warnings.catch_warnings(record=True) as caught,
        Meter([*program.model.parameters()], step.on_host) as limited,
    ):
        warnings.simplefilter("always")
        found = [step(x) for x in batches]
    told = [each for each in caught if issubclass(each.category, vk.KernelWarning)]
    assert len(told) == 1
    assert "without being compiled" in str(told[0].message)
    assert all(map(torch.equal, found, expected))
    assert all(map(torch.equal, program.model.parameters(), plain.model.parameters()))
    assert limited.peak <= most
    assert step.report.planned > CALLS // 2


@pytest.mark.compile
def test_a_model_that_is_compiled_elsewhere_is_not_told():
    other = torch.compile(lambda x: x * 2, backend="aot_eager")
    other(torch.ones(3))
    plain = Trained()
    step = vk.memory.limit(plain.step, 1 << 24)
    with warnings.catch_warnings():
        warnings.simplefilter("error", vk.KernelWarning)
        for x in torch.randn(12, ROWS, WIDTH):
            step(x)
    assert step.report.planned > 3


@pytest.mark.compile
def test_what_is_compiled_first_in_a_call_that_is_not_watched_runs():
    """Its landmarks are not traced into what is compiled; the next call is as it was written."""
    program, calls = Trained(), 0

    def step(x):
        nonlocal calls
        calls += 1
        if calls == 9:
            program.call = torch.compile(program.model, backend="aot_eager")
        return program.step(x)

    limited = vk.memory.limit(step, 1 << 24)
    for x in torch.randn(14, ROWS, WIDTH):
        assert limited(x).isfinite()
    assert limited.report.planned > 3
