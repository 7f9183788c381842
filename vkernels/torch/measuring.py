"""Compare a layer's time with its replacement's: both are called in turns with recorded arguments."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

ROUNDS = 7
"""Rounds of timing both; the shortest time of each counts, because disturbances only add time."""

ROUND_SECONDS = 2e-3
"""Time for calls of each in a round; each is called at least once."""


@dataclass(frozen=True)
class LayerCall:
    """A layer's arguments, detached; tensors keep `requires_grad`. `backward`: whether to time gradients too."""

    arguments: tuple[Any, ...]
    named: Mapping[str, Any]
    backward: bool

    @property
    def key(self) -> tuple[object, ...]:
        """A key that is equal for calls of equal time."""
        leaves, structure = tree_flatten((self.arguments, self.named))
        shapes = tuple(
            (each.dtype, each.shape, each.stride(), each.device, each.requires_grad)
            if isinstance(each, torch.Tensor)
            else repr(each)
            for each in leaves
        )
        return shapes, str(structure), self.backward


def recorded(arguments: tuple[Any, ...], named: Mapping[str, Any], backward: bool) -> LayerCall:
    """A call with these arguments, detached."""

    def detached(value: Any) -> Any:
        is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
        return value.detach().requires_grad_(value.requires_grad and is_float) if is_float else value

    return LayerCall(tree_map(detached, arguments), tree_map(detached, dict(named)), backward)


def seconds(
    run: Callable[..., Any], other: Callable[..., Any], call: LayerCall, parameters: Iterator[torch.Tensor]
) -> tuple[float, float]:
    """Seconds of a call of each of two layers. Raises what they raise."""
    wanted = [each for each in (*tree_flatten((call.arguments, call.named))[0], *parameters) if _is_wanted(each)]
    steps = [_step(each, call, wanted) for each in (run, other)]
    times: list[list[float]] = [[], []]
    counts = []
    for step in steps:
        for _ in range(2):
            step()
        counts.append(max(1, int(ROUND_SECONDS / max(1e-9, _timed(step, 1, call)))))
    for _ in range(ROUNDS):
        for step, count, found in zip(steps, counts, times, strict=True):
            found.append(_timed(step, count, call))
    return min(times[0]), min(times[1])


def _is_wanted(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _step(run: Callable[..., Any], call: LayerCall, wanted: list[torch.Tensor]) -> Callable[[], None]:
    def step() -> None:
        with torch.set_grad_enabled(call.backward):
            out = run(*call.arguments, **call.named)
            if call.backward and wanted and isinstance(out, torch.Tensor) and out.requires_grad:
                torch.autograd.grad(out, wanted, torch.ones_like(out), allow_unused=True)

    return step


def _timed(step: Callable[[], None], count: int, call: LayerCall) -> float:
    _wait(call)
    start = time.perf_counter()
    for _ in range(count):
        step()
    _wait(call)
    return (time.perf_counter() - start) / count


def _wait(call: LayerCall) -> None:
    for each in tree_flatten((call.arguments, call.named))[0]:
        if isinstance(each, torch.Tensor) and each.is_cuda:
            torch.cuda.synchronize(each.device)
