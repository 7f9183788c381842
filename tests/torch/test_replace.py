"""A model whose layers are replaced computes, trains and saves as before, and can be put back."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import vkernels as vk
import vkernels.torch as vt
from vkernels.torch import layers, replacing

from ..library.reference import fresh_seed


class Block(nn.Module):
    """A transformer's, with one head; dropout leaves nothing out, so that results can be compared."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.RMSNorm(width, eps=1e-5)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width, bias=False)
        self.softmax, self.drop = nn.Softmax(-1), nn.Dropout(0.0)
        self.mlp = nn.Sequential(nn.Linear(width, 20), nn.GELU(), nn.Linear(20, width), nn.Dropout(0.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.first(x)).chunk(3, -1)
        x = x + self.drop(self.out(self.softmax(q @ k.transpose(-1, -2)) @ v))
        return x + self.mlp(self.second(x))


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding="same"),
        nn.ReLU(inplace=True),
        nn.Conv2d(6, 4, 3, stride=2, groups=2),
        nn.GroupNorm(2, 4),
        nn.SiLU(),
        nn.Flatten(),
        nn.Linear(4 * 3 * 3, 5),
        nn.LogSoftmax(-1),
    )


EXAMPLES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "block": (Block, (2, 7, 12)),
    "network": (network, (2, 3, 8, 8)),
}


def example(name: str) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(fresh_seed())
    make, shape = EXAMPLES[name]
    return make().double(), torch.randn(shape, dtype=torch.float64)


def gradients(model: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    out = model(x)
    return [out.detach(), *torch.autograd.grad(out.square().sum(), list(model.parameters()))]


def times(monkeypatch: pytest.MonkeyPatch, faster: Callable[[Any], bool]) -> list[Any]:
    """Let what is called with a call for which `faster` holds be twice as fast replaced; others half as fast."""
    seen = []

    def seconds(before: Any, after: Any, call: Any, parameters: Any) -> tuple[float, float]:
        seen.append(call)
        before(*call.arguments, **call.named)
        after(*call.arguments, **call.named)
        return (2e-3, 1e-3) if faster(after) else (1e-3, 2e-3)

    monkeypatch.setattr(replacing, "seconds", seconds)
    return seen


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", EXAMPLES)
def test_results_gradients_and_state_stay(name: str) -> None:
    model, x = example(name)
    expected, state, own = gradients(model, x), model.state_dict(keep_vars=True), list(model.modules())
    classes = [type(each) for each in model.modules()]
    report = vt.replace(model, everywhere=True)
    assert len(report.swapped) >= 5
    for one, other in zip(gradients(model, x), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
    now = model.state_dict(keep_vars=True)
    assert [(key, id(value)) for key, value in now.items()] == [(key, id(value)) for key, value in state.items()]
    assert [id(each) for each in model.modules()] == [id(each) for each in own]
    vt.restore(model)
    assert [type(each) for each in model.modules()] == classes
    assert all(torch.equal(one, other) for one, other in zip(gradients(model, x), expected, strict=True))


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", EXAMPLES)
def test_training_goes_the_same_way(name: str) -> None:
    model, x = example(name)
    other = copy.deepcopy(model)
    vt.replace(other, everywhere=True)
    for each in (model, other):
        optimiser = torch.optim.SGD(each.parameters(), 1e-2)
        for _ in range(3):
            optimiser.zero_grad()
            each(x).square().mean().backward()
            optimiser.step()
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_replaced_model_compiles_into_one_graph(name: str) -> None:
    model, x = example(name)
    expected = model(x)
    vt.replace(model, everywhere=True)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), expected, rtol=1e-10, atol=1e-10)


def test_only_layers_that_become_faster_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = example("block")
    calls = times(monkeypatch, lambda after: getattr(after, "func", None) in (layers.RMSNorm.forward,))
    report = vt.replace(model, x)
    assert [(each.name, each.kind) for each in report.swapped] == [("second", "RMSNorm")]
    assert type(model.second) is layers.RMSNorm
    assert type(model.first) is nn.LayerNorm
    assert "swapped  second: RMSNorm: 2000 µs → 1000 µs, 2.00 times as fast" in str(report)
    assert "left     first: LayerNorm: 1000 µs → 2000 µs, 0.50 times as fast, and 1.05 is worth it" in str(report)
    assert {each.name for each in report.layers} == {
        name for name, each in model.named_modules() if not [*each.children()]
    }
    assert all(call.backward for call in calls)


def test_forward_alone_counts_where_nothing_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = example("block")
    calls = times(monkeypatch, lambda after: True)
    vt.replace(model.eval(), x)
    assert not any(call.backward for call in calls)


def test_layers_alike_are_timed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Sequential(*(nn.LayerNorm(6) for _ in range(5)))
    calls = times(monkeypatch, lambda after: True)
    assert len(vt.replace(model, torch.randn(3, 6)).swapped) == 5
    assert len(calls) == 2  # the first is given what requires no grad


def test_a_layer_and_its_activation_are_tried_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = example("network")
    expected = model(x)
    times(monkeypatch, lambda after: not hasattr(after, "func"))
    report = vt.replace(model, x)
    assert [(each.name, each.kind) for each in report.swapped] == [("0 + 1", "Conv2d + ReLU")]
    assert type(model) is layers.Sequential
    assert type(model[0]) is nn.Conv2d
    torch.testing.assert_close(model(x), expected)
    seen = []
    handle = model[1].register_forward_hook(lambda *_: seen.append(1))
    torch.testing.assert_close(model(x), expected)
    assert seen == [1]  # who listens to a layer hears its calls
    handle.remove()
    assert "fused" in vars(copy.deepcopy(model))
    vt.restore(model)
    assert type(model) is nn.Sequential
    assert "fused" not in vars(model)


class Own(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input) * 2


def test_what_cannot_be_replaced_is_left_and_the_reason_said() -> None:
    model = nn.ModuleDict(
        {
            "own": Own(3, 3),
            "reflected": nn.Conv2d(3, 3, 3, padding=1, padding_mode="reflect"),
            "weighted": nn.CrossEntropyLoss(weight=torch.ones(3)),
            "placed": nn.ReLU(inplace=True),
            "bag": nn.EmbeddingBag(4, 3, padding_idx=0),
            "batch": nn.BatchNorm1d(3),
        }
    )
    report = vt.replace(model, everywhere=True)
    assert {each.name: each.reason for each in report.left} == {
        "own": "a subclass of torch's layer, which may behave differently",
        "reflected": "padding (1, 1) of mode 'reflect'",
        "weighted": "weights of classes",
        "placed": "works in place",
        "bag": "option padding_idx",
        "batch": "the library has no counterpart",
    }
    assert not report.swapped


def test_a_layer_that_the_example_does_not_call_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    class Half(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.idle = nn.Tanh(), nn.Sigmoid()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.used(x)

    times(monkeypatch, lambda after: True)
    report = vt.replace(Half(), torch.randn(3, 4))
    assert [(each.name, each.swapped, each.reason) for each in report.layers if each.name == "idle"] == [
        ("idle", False, "not called with the example")
    ]


def test_without_an_example_one_is_asked_for() -> None:
    with pytest.raises(vk.OptionError, match="expected arguments to call the model with, or everywhere=True"):
        vt.replace(nn.Tanh())


def test_buffers_and_random_state_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Tanh())
    times(monkeypatch, lambda after: True)
    before, state = copy.deepcopy(model.state_dict()), torch.random.get_rng_state()
    vt.replace(model, torch.randn(5, 4, generator=torch.Generator().manual_seed(1)))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_a_model_that_fails_is_left_as_it_was() -> None:
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3), nn.Linear(4, 3))
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        vt.replace(model, torch.randn(5, 4))
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert type(model[1]) is nn.Linear
    assert not model[1]._forward_pre_hooks


def test_real_times_are_taken() -> None:
    model = nn.Sequential(nn.Tanh(), nn.Flatten())
    tanh, flatten = vt.replace(model, torch.randn(3, 4)).layers
    assert (tanh.name, flatten.name) == ("0", "1")
    assert tanh.before is not None
    assert tanh.after is not None
    assert min(tanh.before, tanh.after) > 0
    assert flatten.before is None


def test_replaced_models_are_pickled_and_copied() -> None:
    model, x = example("block")
    vt.replace(model, everywhere=True)
    expected = model(x)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(x), expected)
        vt.restore(other)
        assert type(other.first) is nn.LayerNorm
    assert "vkernels.LayerNorm((12,)" in repr(model)


CALLS: list[tuple[nn.Module, tuple[torch.Tensor, ...]]] = [
    (nn.LayerNorm((3, 4)), (torch.randn(2, 3, 4),)),
    (nn.RMSNorm((3, 4)), (torch.randn(2, 3, 4),)),
    (nn.LayerNorm(4, elementwise_affine=False), (torch.randn(4),)),
    (nn.GroupNorm(2, 4, affine=False), (torch.randn(2, 4),)),
    (nn.Softmax(0), (torch.randn(3, 4),)),
    (nn.LogSoftmax(1), (torch.randn(3, 4),)),
    (nn.GELU("tanh"), (torch.randn(3, 4),)),
    (nn.Sigmoid(), (torch.randn(()),)),
    (nn.Linear(4, 3), (torch.randn(4),)),
    (nn.Linear(4, 3).bfloat16(), (torch.randn(2, 4).bfloat16(),)),
    (nn.Conv2d(3, 2, 3, padding="valid"), (torch.randn(3, 5, 5),)),
    (nn.Conv2d(2, 2, 2, padding="same"), (torch.randn(1, 2, 5, 5),)),
    (nn.CrossEntropyLoss(), (torch.randn(3, 4), torch.tensor([1, -100, 3]))),
    (nn.CrossEntropyLoss(reduction="none"), (torch.randn(2, 4, 3), torch.ones(2, 3, dtype=torch.int64))),
    (nn.CrossEntropyLoss(label_smoothing=0.1), (torch.randn(3, 4), torch.rand(3, 4))),
    (nn.CrossEntropyLoss(), (torch.randn(4), torch.tensor(2))),
    (nn.EmbeddingBag(6, 3), (torch.tensor([0, 5, 2, 2]), torch.tensor([0, 3]))),
    (nn.EmbeddingBag(6, 3, mode="max"), (torch.tensor([[0, 5], [2, 2]]),)),
    (nn.EmbeddingBag(6, 3, include_last_offset=True), (torch.tensor([0, 5, 2]), torch.tensor([0, 1, 3]))),
    (nn.EmbeddingBag(6, 3, mode="sum"), (torch.tensor([1, 2]), torch.tensor([0]), torch.rand(2))),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_layers_of_every_setting_are_right(number: int) -> None:
    layer, arguments = CALLS[number]
    other = copy.deepcopy(layer)
    vt.replace(other, everywhere=True)
    torch.testing.assert_close(other(*arguments), layer(*arguments))


def test_autocast_and_mistakes_are_torchs() -> None:
    layer = nn.Linear(4, 3)
    vt.replace(layer, everywhere=True)
    assert type(layer) is layers.Linear
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(torch.randn(2, 4)).dtype == torch.bfloat16
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        layer(torch.randn(2, 5))


def test_dropout_follows_torchs_seed_and_ends_with_training() -> None:
    layer, x = nn.Dropout(0.25), torch.ones(100, 100)
    vt.replace(layer, everywhere=True)
    torch.manual_seed(5)
    one, other = layer(x), layer(x)
    torch.manual_seed(5)
    assert torch.equal(layer(x), one)
    assert not torch.equal(one, other)
    assert sorted(one.unique().tolist()) == pytest.approx([0.0, 4 / 3])
    assert abs(float((one == 0).double().mean()) - 0.25) < 0.03
    assert layer.eval()(x) is x
