"""Operations without gradients of calls that are not watched: more of them are noticed before they run."""

from __future__ import annotations

import pytest
import torch
from torch._C import _len_torch_function_stack
from torch.overrides import TorchFunctionMode

import vkernels.memory
from vkernels.memory.followed_functions import Called, FunctionFollower, FunctionRecorder, common_stretches

from .layers import ROWS, WIDTH, Layers
from .matrix_programs import Lbfgs
from .meter import Meter
from .test_unwatched_changes import check, metered_all

pytestmark = pytest.mark.usefixtures("one_thread")


class Evaluates(Layers):
    """Trains, and evaluates with functions, without modules: `rounds(i)` times, with all predictions at the end."""

    rounds = staticmethod(lambda i: 12 if i in (7, 10) else 2)
    depths: tuple = ()

    def step(self, i):
        x = torch.randn(4 * ROWS, WIDTH, generator=self.draw)
        with torch.no_grad():
            found = [(x * (k + 1)).tanh() for k in range(self.rounds(i))]
            score = sum(each.sum() for each in found)
        del found
        self.depths = (*self.depths, _len_torch_function_stack())
        return super().step(i) + score * 0


class Widens(Evaluates):
    """As many rounds in all calls, but of more rows."""

    rounds = staticmethod(lambda i: 2)

    def step(self, i):
        with torch.no_grad():
            found = torch.zeros(16 * ROWS if i in (7, 10) else ROWS, WIDTH)
            self.scores = [(found + k).exp().sum() for k in range(3)]
        self.scores = None
        return super().step(i)


@pytest.mark.parametrize("make", [Evaluates, Widens])
@pytest.mark.parametrize("share", [1.02, 1.3])
def test_more_operations_without_gradients_keep_the_limit(make, share):
    step = check(make, lambda *_: None, share, 14)
    assert step.report.planned > 3
    assert "was not called there before, or with other sizes" in step.report.why
    assert step.report.over == 0
    assert _len_torch_function_stack() == 0


def test_the_stack_of_modes_is_as_before():
    class Seen(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    program, seen, depths = Evaluates(), Seen(), []

    def inner(i):
        x = torch.zeros(3).exp()
        with seen:
            loss = program.step(i)
            depths.append(_len_torch_function_stack())
        depths.append(_len_torch_function_stack())
        return loss + x.sum() * 0

    step = vkernels.memory.limit(inner, 1 << 30)
    for i in range(9):
        step(i)
        assert _len_torch_function_stack() == 0
    assert depths[:4] == [1, 0, 2, 1]  # called on demand, and recorded
    assert program.depths[4:7] == (2, 2, 2)
    assert step.report.changed == 1


def followed(stretches, calls):
    """Why a follower of these stretches has left, if it has."""
    why = []
    follower = FunctionFollower(lambda reason, given: why.append(reason))
    follower.enter(0, [stretches])
    try:
        calls(follower)
    finally:
        follower.leave()
    return why


def larger(x):
    """Operations without gradients that need 2 MiB; returns a tensor of ones."""
    with torch.no_grad():
        found = [torch.zeros(1 << 17) + x.flatten()[0].detach() * 0 for _ in range(4)]
        return sum(each.sum() for each in found) * 0 + 1


class Scaled(torch.autograd.Function):
    """Multiplies the gradient by one, at times in more operations."""

    @staticmethod
    def forward(context, x, is_larger):
        context.is_larger = is_larger
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        return gradient * (larger(gradient) if context.is_larger else 1), None


class InBackward(Layers):
    """Layers, whose backward calls other functions in calls 7 and 10; `way`: of a hook, a function, a last function."""

    way = "function"

    def step(self, i):
        x = y = torch.randn(ROWS, WIDTH, generator=self.draw)
        for number, part in enumerate(self.parts):
            y = part(y)
            is_larger = number == 1 and i in (7, 10)
            if self.way == "function":
                y = Scaled.apply(y, is_larger)
            elif is_larger:
                y.register_hook(lambda gradient: gradient * larger(gradient))
        loss = (y - x).square().mean()
        self.opt.zero_grad()
        if self.way == "grad":
            loss = loss + sum(each.sum() for each in torch.autograd.grad(loss, [*self.parts.parameters()])) * 0
        else:
            loss.backward()
            self.opt.step()
        return loss.detach()


class Hooked(InBackward):
    way = "hook"


class ByGrad(InBackward):
    way = "grad"


class Between(Layers):
    """Other functions between modules, in calls 7 and 10."""

    def __init__(self):
        super().__init__()
        self.inside = lambda i: larger(self.parts[0][0].weight) if i in (7, 10) else None


class AfterAttention(Layers):
    """The same after a module that must not see modes."""

    def __init__(self):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(WIDTH, 2)

    def step(self, i):
        x = torch.randn(ROWS, WIDTH, generator=self.draw)
        with torch.no_grad():
            y = self.attention.eval()(x, x, x, need_weights=False)[0]
            scale = larger(y) if i in (7, 10) else 1
        return super().step(i) + y.sum() * scale * 0


@pytest.mark.slow
@pytest.mark.sample(2)
@pytest.mark.parametrize("share", [1.05, 1.3])
@pytest.mark.parametrize("make", [InBackward, Hooked, ByGrad, Between, AfterAttention])
def test_functions_in_backward_and_between_modules_keep_the_limit(make, share):
    plain, program = make(), make()
    expected, without = metered_all(plain.step, plain, lambda address: False, range(13))
    most = int(share * max(max(without[:5]), 4 << 19))
    assert most < max(without) or share > 1.05
    step = vkernels.memory.limit(program.step, most)
    found, peaks = metered_all(step, program, step.on_host, range(13))
    assert found == expected
    assert all(map(torch.equal, plain.state(), program.state()))
    assert max(peaks) <= most
    assert step.report.planned > 3
    assert step.report.changed
    assert _len_torch_function_stack() == 0


def test_a_stretch_is_what_the_program_calls():
    x, recorder = torch.ones(4, 4), FunctionRecorder()
    weight = torch.ones(4, 4, requires_grad=True)

    def calls(mode):
        y = torch.nn.functional.relu(x + 1)
        mode.next(torch.nn.Module) if mode is recorder else mode.enter(1, [(first, second)])
        (y @ weight).sum().backward()
        assert y.size(0) == 4
        assert y.dtype == torch.float32

    with recorder.on_stack():
        calls(recorder)
    first, second = recorder.stretches()
    assert [each.function.__name__ for each in first] == ["add", "relu"]
    assert [each.function.__name__ for each in second] == ["matmul", "sum"]
    assert not followed((first, second), calls)
    assert followed(((), None), calls)
    assert followed((first[:1], None), calls)
    assert followed(((first[0], first[1]._replace(shape=torch.Size([5, 4]))), None), calls)


def test_what_is_never_compiled_is_followed():
    @torch.compiler.disable
    def calls():
        torch.ones(3).exp().log()

    recorder = FunctionRecorder()
    with recorder.on_stack():
        calls()
    (stretch,) = recorder.stretches()
    assert [each.function.__name__ for each in stretch] == ["ones", "exp", "log"]


@pytest.mark.parametrize("nested", [False, True])
def test_modules_that_see_modes_have_the_same_bits(nested):
    """In evaluation they call other kernels where a mode of functions is on the stack."""
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval() if nested else layer.eval()

    def step(x):
        with torch.inference_mode():
            return model(x * 2).exp() + 1

    batches = torch.randn(25, 4, 16, 32)
    expected = [step(x) for x in batches]
    limited = vkernels.memory.limit(step, 64 << 20)
    assert all(torch.equal(limited(x), each) for x, each in zip(batches, expected, strict=True))
    assert limited.report.planned > 15


@pytest.mark.slow
def test_a_line_search_that_keeps_more_gradients_is_noticed():
    plain, program = Lbfgs(), Lbfgs()
    with Meter(plain.state()) as meter:
        expected = [plain.step(i).item() for i in range(20)]
    most = int(0.85 * meter.peak)
    step = vkernels.memory.limit(program.step, most)
    with Meter(program.state(), step.on_host) as limited:
        found = [step(i).item() for i in range(20)]
    assert found == expected
    assert all(map(torch.equal, plain.state(), program.state()))
    assert limited.peak <= most
    assert step.report.planned > 2


def test_what_stretches_have_in_common():
    add, zeros = Called(torch.add, (), torch.Size([3])), Called(torch.zeros, (3,), torch.Size([3]))
    other = Called(torch.zeros, (4,), torch.Size([4]))
    assert common_stretches(((add,), None), ((add,), (add,))) == ((add,), None)
    assert common_stretches(((zeros,),), ((other,),)) == ((Called(torch.zeros, None, None),),)
    assert common_stretches(((add,),), ((zeros,),)) is None
    assert common_stretches(((add,),), ((add, add),)) is None
