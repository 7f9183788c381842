"""Models of the library's functions compile into one graph, for any sizes, forward and backward."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
import torch
from torch import nn

import vkernels.torch as vt

from ..library.reference import fresh_seed
from .samples import INTEGERS, SAMPLES, Maker


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


class Small(nn.Module):
    """A layer and its loss."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.weight, self.wide = nn.Parameter(torch.rand(width)), nn.Parameter(torch.randn(width, width))

    def forward(self, x: torch.Tensor, index: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        x = vt.matmul(vt.rms_norm(x, self.weight), self.wide, None, "tanh")
        return vt.cross_entropy(x, index[start[1:] - 1])


class Model(nn.Module):
    """Something of everything, with a gradient of each parameter."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.rand(width)), nn.Parameter(torch.zeros(width))
        self.wide, self.table = nn.Parameter(torch.randn(width, width)), nn.Parameter(torch.randn(5, width))

    def forward(self, x: torch.Tensor, index: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        x = vt.layer_norm(x, self.weight, self.bias)
        x = vt.matmul(x, self.wide, self.bias, "gelu") + vt.embedding_bag(self.table, index, start)
        x = vt.dropout(vt.rms_norm(x, self.weight), 0.1, 3)
        value, place = vt.topk(vt.softmax(x), 2)
        return vt.cross_entropy(x, vt.argmax(x, 1)) + vt.sum(value) + place.sum() + vt.cumulative_sum(x.t()).mean()


def step(model: Any, parameters: Any, *arguments: torch.Tensor) -> list[torch.Tensor]:
    loss = model(*arguments)
    return [loss.detach(), *torch.autograd.grad(loss, parameters)]


def arguments(rows: int, seed: int) -> tuple[torch.Tensor, ...]:
    make = Maker(seed, requires_grad=False)
    return make(rows, 8), make.integers(5, 3 * rows), 3 * torch.arange(rows + 1)


@pytest.mark.parametrize("kind", [Small, pytest.param(Model, marks=pytest.mark.thorough)])
def test_a_model_is_one_graph_for_all_sizes(kind: type[nn.Module]) -> None:
    seed = fresh_seed()
    torch.manual_seed(seed)
    model = kind().double()
    graphs = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        from torch._dynamo.backends.debugging import aot_eager

        return aot_eager(graph, inputs)

    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=backend)
    step(compiled, list(model.parameters()), *arguments(4, seed))
    first = len(graphs)  # floats may be looked at twice
    for rows in (4, 7):
        given = arguments(rows, seed + rows)
        for one, other in zip(
            step(compiled, list(model.parameters()), *given), step(model, list(model.parameters()), *given), strict=True
        ):
            torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
    assert len(graphs) == first


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("g++") is None and shutil.which("clang++") is None, reason="needs a C++ compiler")
def test_inductor_gives_the_same() -> None:
    seed = fresh_seed()
    torch.manual_seed(seed)
    model = Model().double()
    compiled = torch.compile(model, fullgraph=True)
    given = arguments(6, seed)
    for one, other in zip(
        step(compiled, list(model.parameters()), *given), step(model, list(model.parameters()), *given), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name in SAMPLES if name not in INTEGERS])
def test_every_function_is_one_graph(name: str) -> None:
    given = SAMPLES[name](Maker(fresh_seed()))
    operation = getattr(torch.ops.vkernels, name).default

    def total(*tensors: Any) -> torch.Tensor:
        results = operation(*tensors)
        results = results if isinstance(results, tuple) else (results,)
        return torch.stack([each.sin().sum() for each in results if each.is_floating_point()]).sum()

    wanted = [each for each in given if isinstance(each, torch.Tensor) and each.requires_grad]
    compiled = torch.compile(total, fullgraph=True, dynamic=True, backend="aot_eager")
    for one, other in zip(step(compiled, wanted, *given), step(total, wanted, *given), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_a_mistake_in_a_compiled_graph_reaches_the_caller() -> None:
    import vkernels as vk

    compiled = torch.compile(vt.cross_entropy, fullgraph=True, backend="aot_eager")
    with pytest.raises(vk.ArgumentError, match="target holds 9"):
        compiled(torch.randn(3, 4), torch.tensor([0, 9, 1]))
