"""Where in the user's program an operation comes from, and what the user's program calls its tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType, FunctionType, MethodType
from typing import Any

import torch

DEPTH = 4
"""Levels of functions, objects and containers in which names are looked for."""
MAX_PARTS = 1000
"""Elements of an object or a container that are looked at."""
NOT_THE_PROGRAM = (f"{Path(torch.__file__).parent}/", f"{Path(__file__).parents[1]}/")
"""Folders of torch and vkernels."""
LIBRARIES = ("/site-packages/", "/dist-packages/")


class SourceLines:
    """The program's line for each operation: `file.py:12 in forward`. A backward operation has that of its forward
    operation."""

    def __init__(self) -> None:
        self._forward: dict[int, str] = {}
        """By autograd's sequence number."""

    def now(self) -> str:
        """The line of the operation that is being dispatched; empty if there is none."""
        node = torch._C._current_autograd_node()
        if node is not None:
            return self._forward.get(node._sequence_nr(), "") or self._line()
        line = self._line()
        self._forward[torch._C._autograd._get_sequence_nr() - 1] = line
        return line

    def _line(self) -> str:
        """The innermost line outside torch and vkernels, of the program rather than of another library."""
        frame: FrameType | None = sys._getframe(1)
        library = ""
        while frame is not None:
            file = frame.f_code.co_filename
            if file.endswith(".py") and not file.startswith(NOT_THE_PROGRAM):
                line = f"{Path(file).name}:{frame.f_lineno} in {frame.f_code.co_name}"
                if not any(part in file for part in LIBRARIES):
                    return line
                library = library or line
            frame = frame.f_back
        return library


def named_storages(step: Callable[..., object]) -> dict[int, str]:
    """Names of the tensors that a step's own names, closure and object hold, by their storages' addresses in torch.

    Parameters and buffers of modules, states of optimisers, gradients, and tensors in containers and objects.
    """
    found: dict[int, str] = {}
    for name, tensor in _tensors(step):
        if tensor.layout == torch.strided:
            found.setdefault(tensor.untyped_storage()._cdata, name)
    return found


def _tensors(step: Callable[..., object]) -> Iterator[tuple[str, torch.Tensor]]:
    modules: dict[int, str] = {}
    optimisers: list[tuple[str, torch.optim.Optimizer]] = []
    seen: set[int] = set()
    pending: list[tuple[str, Any, int]] = [("", step, DEPTH)]
    while pending:
        name, value, depth = pending.pop(0)
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            yield name, value
        elif isinstance(value, torch.nn.Module):
            for kind in (value.named_parameters(), value.named_buffers()):
                for part, tensor in kind:
                    modules.setdefault(id(tensor), _join(name, part))
                    yield modules[id(tensor)], tensor
                    if tensor.grad is not None:
                        yield f"gradient of {modules[id(tensor)]}", tensor.grad
        elif isinstance(value, torch.optim.Optimizer):
            optimisers.append((name, value))
        elif depth:
            prefix = "" if isinstance(value, FunctionType | MethodType) else name
            pending += [(_join(prefix, part), held, depth - 1) for part, held in _parts(value)]
    for name, optimiser in optimisers:
        for tensor, state in optimiser.state.items():
            for key, part in state.items() if isinstance(state, Mapping) else ():
                if isinstance(part, torch.Tensor):
                    yield f"{key} of {modules.get(id(tensor), name)}", part


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What a function, an object or a container holds, by name."""
    if isinstance(value, MethodType):
        yield "", value.__self__
        yield "", value.__func__
    elif isinstance(value, FunctionType):
        code = value.__code__
        for name, cell in zip(code.co_freevars, value.__closure__ or (), strict=True):
            try:
                yield name, cell.cell_contents
            except ValueError:  # not assigned yet
                continue
        yield from ((name, value.__globals__[name]) for name in code.co_names if name in value.__globals__)
    elif isinstance(value, Mapping):
        yield from ((str(key), part) for key, part in [*value.items()][:MAX_PARTS])
    elif isinstance(value, list | tuple):
        yield from ((str(index), part) for index, part in enumerate(value[:MAX_PARTS]))
    elif hasattr(value, "__dict__") and not isinstance(value, type | type(sys)):
        yield from [*vars(value).items()][:MAX_PARTS]


def _join(name: str, part: str) -> str:
    return f"{name}.{part}" if name and part else name or part
