"""On a GPU: operations equal those on the CPU, go to the current stream, and training is captured and replayed."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import vkernels as vk
import vkernels.torch as vt

from ..library.reference import fresh_seed
from .samples import INTEGERS, SAMPLES, Maker


def there(value: Any) -> Any:
    """On the GPU, with the same strides."""
    if not isinstance(value, torch.Tensor):
        return value
    moved = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cuda").copy_(value.detach())
    return moved.requires_grad_(value.requires_grad)


@pytest.mark.parametrize("name", SAMPLES)
def test_results_and_gradients_are_those_of_the_cpu(name: str) -> None:
    operation = getattr(torch.ops.vkernels, name).default
    here = SAMPLES[name](Maker(fresh_seed()))
    found = []
    for arguments in (here, [there(each) for each in here]):
        results = operation(*arguments)
        results = results if isinstance(results, tuple) else (results,)
        floats = [each.sum() for each in results if each.requires_grad]
        wanted = [each for each in arguments if isinstance(each, torch.Tensor) and each.requires_grad]
        gradients = torch.autograd.grad(floats, wanted) if name not in INTEGERS else ()
        found.append([each.cpu() for each in (*results, *gradients)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_work_goes_to_the_current_stream() -> None:
    stream, x = torch.cuda.Stream(), torch.randn(1000, 1000, device="cuda")
    vt.softmax(x)  # compiled before the stream sleeps
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        vt.softmax(x)
    assert not stream.query()
    stream.synchronize()


def step(x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> list[torch.Tensor]:
    y = vt.matmul(vt.rms_norm(x), weight, activation="silu")
    heads = y.reshape(2, 16, 4, 8).transpose(1, 2)
    y = vt.attention(heads, heads, heads, causal=True).transpose(1, 2).reshape(32, 32)
    loss = vt.cross_entropy(vt.dropout(y, 0.1, 7), target, checked=False)
    return [loss.detach(), *torch.autograd.grad(loss, (x, weight))]


def test_a_training_step_is_captured_and_replayed() -> None:
    x, weight = (torch.randn(32, 32, device="cuda", requires_grad=True) for _ in range(2))
    target = torch.randint(0, 32, (32,), device="cuda")
    with vt.patient(), torch.cuda.stream(torch.cuda.Stream()):
        step(x, weight, target)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step(x, weight, target)
    with torch.no_grad():
        x.mul_(2.0)
    graph.replay()
    torch.cuda.synchronize()
    for one, other in zip(captured, step(x, weight, target), strict=True):
        torch.testing.assert_close(one, other)


def test_a_first_call_is_refused_and_the_capture_goes_on() -> None:
    x = torch.randn(3, 1235, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x + 1
        with pytest.raises(vk.ArgumentError, match="a first call with tensors of these shapes"):
            vt.softmax(x)
    graph.replay()
    torch.testing.assert_close(y, x + 1)


def test_cuda_graphs_of_compiled_models() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return vt.softmax(vt.layer_norm(x) * 2).square()

    x = torch.randn(64, 500, device="cuda")
    compiled = torch.compile(model, mode="reduce-overhead", fullgraph=True)
    for _ in range(4):
        torch.testing.assert_close(compiled(x), model(x))
        x = x + 1
