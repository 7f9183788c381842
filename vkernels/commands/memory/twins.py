"""A program from a file, twice: one runs plainly, the other under a limit, and they are compared bit by bit."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

SEED = 0


class Twin:
    """FILE.py:FUNCTION, of a module of its own. Random numbers are the same in each twin's calls."""

    def __init__(self, named: str):
        from .record import step_named

        seed(SEED)
        self.path, self.name, self.step = step_named(named, afresh=True)
        self._calls = 0

    def __call__(self, step: Callable[[], Any] | None = None) -> Any:
        """One iteration, of `step` in place of its own if that is said. Raises `FileError` with the line where it fails
        in the file; errors of vkernels go through."""
        from vkernels.ir.errors import Error

        self._calls += 1
        seed(SEED + self._calls)
        try:
            return (step or self.step)()
        except Error:
            raise
        except Exception as error:
            raise failed(self.path, self.name, error) from error

    def state(self) -> Iterator[torch.Tensor]:
        """All tensors that the file's own names hold, by themselves or in lists, modules and optimisers."""
        return tensors_of([getattr(self.step, "__globals__", {}).get(name) for name in self._names()])

    def _names(self) -> list[str]:
        return sorted(name for name in getattr(self.step, "__globals__", {}) if not name.startswith("__"))


def seed(number: int) -> None:
    """Of all generators that programs usually draw from."""
    import numpy as np
    import torch

    random.seed(number)
    np.random.seed(number)
    torch.manual_seed(number)


def tensors_of(value: Any) -> Iterator[torch.Tensor]:
    """Those in nested lists, tuples and dicts; of modules and optimisers their state."""
    import torch
    from torch.utils._pytree import tree_leaves

    for leaf in tree_leaves(value):
        if isinstance(leaf, torch.Tensor):
            yield leaf.detach()
        elif isinstance(leaf, torch.nn.Module | torch.optim.Optimizer):
            yield from tensors_of(leaf.state_dict())


def storages(tensors: list[torch.Tensor]) -> Iterator[int]:
    """The addresses of their storages in torch."""
    import torch

    for tensor in tensors:
        if tensor.layout == torch.strided:
            yield tensor.untyped_storage()._cdata


def same_bits(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    """Whether they are the same in number, kind, shape and every bit."""
    return len(one) == len(other) and all(map(_same, one, other))


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    import torch

    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.layout != torch.strided:
        return torch.equal(one, other)
    as_bytes = [each.contiguous().reshape(-1).view(torch.uint8) for each in (one, other)]
    return torch.equal(*as_bytes)


def failed(path: str, name: str, error: Exception) -> Exception:
    """The `FileError` for what a step raised, with its line in the file."""
    from vkernels.ir.errors import FileError

    here = Path(path).resolve()
    frames = traceback.extract_tb(error.__traceback__)
    lines = [each.lineno for each in frames if Path(each.filename).resolve() == here]
    where = f"{path}:{lines[-1]}" if lines else path
    return FileError(f"{where}: {name}: {type(error).__name__}: {error}")
