"""What calls of library functions must do on a GPU where they repeat earlier ones, as functions of it: `LIBRARY`.

They are as the `LAUNCHES` of launches.py. The first calls are recorded, later ones only start their launches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tests.library.reference import assert_close, fresh_seed, normal
from vkernels.library import matmul, rms_norm, softmax
from vkernels.library import sum as sum_of

from .launches import Check, _in_threads

LIBRARY: dict[str, Check] = {}
Function = Callable[[torch.Tensor], torch.Tensor]
ROW_FUNCTIONS: dict[str, tuple[Function, Function]] = {
    "softmax": (lambda x: softmax(x), lambda x: torch.softmax(x, -1)),
    "rms_norm": (lambda x: rms_norm(x), lambda x: x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()),
    "matmul": (lambda x: matmul(x, x.mT), lambda x: x @ x.mT),
    "sum": (lambda x: sum_of(x, dim=-1), lambda x: x.sum(-1)),
}
"""Functions of rows, and the same in torch, for references in float64."""
FIRST = 3
"""Calls until the rest only repeat."""


def _repeated(name: str, gpu: Any) -> tuple[Function, Function, torch.Tensor]:
    ours, exact = ROW_FUNCTIONS[name]
    x = gpu.put(normal((5, 60) if gpu.is_simulated else (500, 700), torch.float32, fresh_seed()))
    for _ in range(FIRST):
        assert_close(ours(x).cpu(), exact(x.cpu().double()), x.shape[1])
    return ours, exact, x


def _on_streams(name: str) -> Check:
    def check(gpu: Any) -> None:
        ours, exact, x = _repeated(name, gpu)
        inputs = [x * (1 + number) for number in range(4 if gpu.is_simulated else 40)]
        found = []
        for number, each in enumerate(inputs):
            if number % 2:
                with gpu.stream():
                    found.append(ours(each))
            else:
                found.append(ours(each))
        gpu.synchronize()
        for each, result in zip(inputs, found, strict=True):
            assert_close(result.cpu(), exact(each.cpu().double()), x.shape[1])

    return check


def _in_a_graph(name: str) -> Check:
    def check(gpu: Any) -> None:
        ours, exact, x = _repeated(name, gpu)
        results: list[torch.Tensor] = []
        replay = gpu.captured(lambda: results.append(ours(x)))
        for factor in (2.0, 0.5):
            x.mul_(factor)
            results[-1].fill_(float("nan"))
            replay()
            gpu.synchronize()
            assert_close(results[-1].cpu(), exact(x.cpu().double()), x.shape[1])
        assert_close(ours(x).cpu(), exact(x.cpu().double()), x.shape[1])

    return check


def _of_any_alignment(name: str) -> Check:
    def check(gpu: Any) -> None:
        ours, exact, x = _repeated(name, gpu)
        for start in (1, 0, 2, 4, 3, 0):
            memory = gpu.put(torch.empty(x.numel() + 4))
            moved = memory[start : start + x.numel()].view(x.shape)
            moved.copy_(x)
            assert_close(ours(moved).cpu(), exact(x.cpu().double()), x.shape[1])

    return check


def _in_threads_at_once(name: str) -> Check:
    def check(gpu: Any) -> None:
        ours, exact, x = _repeated(name, gpu)
        inputs = [x * (1 + number) for number in range(6)]
        found: dict[int, torch.Tensor] = {}

        def work(number: int) -> None:
            for _ in range(2 if gpu.is_simulated else 50):
                found[number] = ours(inputs[number])

        _in_threads([lambda number=number: work(number) for number in range(len(inputs))])  # type: ignore[misc]
        gpu.synchronize()
        for number, each in enumerate(inputs):
            assert_close(found[number].cpu(), exact(each.cpu().double()), x.shape[1])

    return check


LIBRARY |= {
    f"repeated calls of {name} {how}": make(name)
    for name in ROW_FUNCTIONS
    for how, make in {
        "on two streams": _on_streams, "in a graph": _in_a_graph, "of any alignment": _of_any_alignment,
        "in threads at once": _in_threads_at_once,
    }.items()
}  # fmt: skip
