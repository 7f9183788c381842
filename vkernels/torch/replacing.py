"""Replace a model's layers by the library's where measurements show that it helps, and restore them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_flatten, tree_map

from vkernels.compiler.default_session import patient
from vkernels.inspect.latency import in_microseconds
from vkernels.ir.errors import Error, OptionError

from .layers import FUSING, LAYERS, Sequential, activation_of, has_hooks, original, run_fused, unfit

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


WORTH = 1.05
"""The speed-up from which on a layer is replaced."""


@dataclass(frozen=True)
class Layer:
    """The decision for a layer. `name`: as in `named_modules`; two layers in one pass have both names.

    `kind`: the name of its torch class. `before`, `after`: seconds of a call of the original and the replacement, if
    measured.
    """

    name: str
    kind: str
    swapped: bool
    reason: str
    before: float | None = None
    after: float | None = None

    def __str__(self) -> str:
        times = ""
        if self.before is not None and self.after is not None:
            times = f"{in_microseconds(self.before)} → {in_microseconds(self.after)}, "
        return (
            f"{'swapped' if self.swapped else 'left   '}  {self.name or '(itself)'}: {self.kind}: {times}{self.reason}"
        )


@dataclass(frozen=True)
class ReplaceReport:
    """The decisions of `replace`, layer by layer; `str` lists them."""

    layers: tuple[Layer, ...]

    @property
    def swapped(self) -> tuple[Layer, ...]:
        return tuple(layer for layer in self.layers if layer.swapped)

    @property
    def left(self) -> tuple[Layer, ...]:
        return tuple(layer for layer in self.layers if not layer.swapped)

    def __str__(self) -> str:
        return "\n".join(map(str, self.layers)) or "there is no layer"


def replace(model: nn.Module, *arguments: Any, everywhere: bool = False, **named: Any) -> ReplaceReport:
    """Replace a model's layers, in place, by the library's where these are faster, and report the decisions.

    The model is called once with `arguments` and `named` as an example. Each layer that has a counterpart is then timed
    with the arguments that it got, original and replaced: with gradients if the model is in training mode, forward only
    in evaluation mode or within `torch.no_grad()`. It is replaced if that makes it at least 1.05 times as fast. A
    linear layer or convolution before an activation in an `nn.Sequential` is also tried in one pass. Random state and
    buffers are restored. `everywhere`: replace all supported layers, without an example.

    Parameters, their names, `state_dict`, layer objects and hooks are kept: only the classes of layers change.
    Subclasses of torch's layers are not replaced. A second call decides again for all layers. Raises `OptionError`
    without an example, and what the model raises.
    """
    restore(model)
    layers = {name: layer for name, layer in model.named_modules() if not any(True for _ in layer.children())}
    pairs = dict(_pairs(model))
    if everywhere:
        report = _all(layers, pairs)
    else:
        if not (arguments or named):
            raise OptionError("replace: expected arguments to call the model with, or everywhere=True")
        calls = _record(model, arguments, named)
        with patient(), _kept(model):
            report = _where_faster(layers, pairs, calls)
    modules = dict(model.named_modules())
    for each in report.swapped:
        first, _, second = each.name.partition(" + ")
        if second:
            parent, _, child = first.rpartition(".")
            _fuse(modules[parent], child)
        else:
            modules[first].__class__ = LAYERS[type(modules[first])]
    return report


def restore(model: nn.Module) -> None:
    """Undo `replace` for a model or a copy of it."""
    for layer in model.modules():
        if isinstance(layer, Sequential):
            del layer.fused
        if original(layer) is not type(layer):
            layer.__class__ = original(layer)


@dataclass(frozen=True)
class _Pair:
    first: str
    second: str
    layer: nn.Module
    following: nn.Module
    activation: str

    @property
    def kind(self) -> str:
        return f"{type(self.layer).__name__} + {type(self.following).__name__}"


def _pairs(model: nn.Module) -> Iterator[tuple[str, _Pair]]:
    for parent, module in model.named_modules():
        if type(module) is not nn.Sequential:
            continue
        inside = [(f"{parent}.{name}" if parent else name, layer) for name, layer in module._modules.items()]
        for (first, layer), (second, following) in pairwise(inside):
            activation = activation_of(following, True)
            if layer is None or following is None or type(layer) not in FUSING or activation is None:
                continue
            if unfit(layer) is None and not has_hooks(layer) and not has_hooks(following):
                yield first, _Pair(first, second, layer, following, activation)


def _all(layers: dict[str, nn.Module], pairs: dict[str, _Pair]) -> ReplaceReport:
    found = []
    behind = {pair.second for pair in pairs.values()}
    for name, layer in layers.items():
        if name in pairs:
            pair = pairs[name]
            found.append(Layer(f"{name} + {pair.second}", pair.kind, True, "as requested, in one pass"))
        elif name not in behind:
            reason = _unfit(layer)
            found.append(Layer(name, type(layer).__name__, reason is None, reason or "as requested"))
    return ReplaceReport(tuple(found))


def _unfit(layer: nn.Module) -> str | None:
    if type(layer) not in LAYERS and any(isinstance(layer, kind) for kind in LAYERS):
        return "a subclass of torch's layer, which may behave differently"
    return unfit(layer)


def _record(model: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[nn.Module, LayerCall]:
    calls: dict[nn.Module, LayerCall] = {}
    backward = model.training and torch.is_grad_enabled()

    def note(layer: nn.Module, given: tuple[Any, ...], by_name: dict[str, Any]) -> None:
        if layer not in calls:
            calls[layer] = recorded(given, by_name, backward)

    layers = [layer for layer in model.modules() if type(layer) in LAYERS]
    handles = [layer.register_forward_pre_hook(note, with_kwargs=True) for layer in layers]
    try:
        with _kept(model), torch.set_grad_enabled(backward):
            model(*arguments, **named)
    finally:
        for handle in handles:
            handle.remove()
    return calls


@contextmanager
def _kept(model: nn.Module) -> Iterator[None]:
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    try:
        with torch.random.fork_rng():
            yield
    finally:
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)


def _where_faster(
    layers: dict[str, nn.Module], pairs: dict[str, _Pair], calls: dict[nn.Module, LayerCall]
) -> ReplaceReport:
    timing = _Timing(calls)
    found = []
    done: set[str] = set()
    for name, layer in layers.items():
        if name in done:
            continue
        alone = timing.alone(name, layer)
        pair = pairs.get(name)
        if pair is not None:
            second = timing.alone(pair.second, pair.following)
            together = timing.together(pair, alone, second)
            done.add(pair.second)
            found += [together] if together.swapped else [alone, second]
        else:
            found.append(alone)
    return ReplaceReport(tuple(found))


class _Timing:
    """Times layers; equal layers with equal calls are timed once."""

    def __init__(self, calls: dict[nn.Module, LayerCall]):
        self.calls = calls
        self.known: dict[object, tuple[float, float] | str] = {}

    def alone(self, name: str, layer: nn.Module) -> Layer:
        kind, reason = type(layer).__name__, _unfit(layer)
        if reason is None and layer not in self.calls:
            reason = "not called with the example"
        if reason is not None:
            return Layer(name, kind, False, reason)
        ours = LAYERS[type(layer)]
        return self._layer(name, kind, layer, layer.forward, partial(ours.forward, layer))

    def together(self, pair: _Pair, alone: Layer, second: Layer) -> Layer:
        """Time one pass for both, against the better version of each alone."""
        name, layer = f"{pair.first} + {pair.second}", pair.layer
        if layer not in self.calls or pair.following not in self.calls:
            return Layer(name, pair.kind, False, "not called with the example")
        steps = [
            partial(LAYERS[type(module)].forward, module) if each.swapped else module.forward
            for module, each in ((layer, alone), (pair.following, second))
        ]
        return self._layer(
            name, pair.kind, layer, lambda x: steps[1](steps[0](x)), lambda x: run_fused(layer, x, pair.activation)
        )

    def _layer(
        self, name: str, kind: str, layer: nn.Module, before: Callable[..., Any], after: Callable[..., Any]
    ) -> Layer:
        call = self.calls[layer]
        key = (kind, layer.extra_repr(), tuple(p.requires_grad for p in layer.parameters()), call.key)
        if key not in self.known:
            self.known[key] = self._measure(layer, call, before, after)
        found = self.known[key]
        if isinstance(found, str):
            return Layer(name, kind, False, found)
        gain = found[0] / found[1]
        reason = f"{gain:.2f} times as fast" + ("" if gain >= WORTH else f", and {WORTH} is worth it")
        return Layer(name, kind, gain >= WORTH, reason, *found)

    @staticmethod
    def _measure(
        layer: nn.Module, call: LayerCall, before: Callable[..., Any], after: Callable[..., Any]
    ) -> tuple[float, float] | str:
        try:
            return seconds(before, after, call, layer.parameters())
        except Error as error:
            return f"refused: {error}"


def _fuse(sequential: Any, child: str) -> None:
    if not isinstance(sequential, Sequential):
        sequential.__class__, sequential.fused = Sequential, ()
    sequential.fused = (*sequential.fused, child)
