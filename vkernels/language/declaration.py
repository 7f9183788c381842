"""What authors declare: kernels and helper functions, as the front end sees them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .annotations import Parameter, parse_parameters

if TYPE_CHECKING:
    from .source import FunctionSource


class SourceFunction:
    """A Python function that the front end reads instead of calling it."""

    def __init__(self, function: Callable[..., Any]):
        functools.update_wrapper(self, function)  # type: ignore[arg-type]
        self.name: str = function.__name__
        self.function = function

    @functools.cached_property
    def source(self) -> FunctionSource:
        """The function's source. Raises `UnsupportedError` if Python does not have it."""
        from .source import read_source

        return read_source(self.function)


class Function(SourceFunction):
    """A helper function: inlined into kernels; its arguments are tiles, axes, tensors or constants."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Only kernels call helpers. Raises `UnsupportedError`."""
        from vkernels.ir.errors import UnsupportedError

        raise UnsupportedError(f"`{self.name}` is a helper function of kernels; only a kernel calls it")


class DeclaredKernel(SourceFunction):
    """A kernel's declaration: its name, source and parameters."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__(function)
        self.parameters: tuple[Parameter, ...] = parse_parameters(function)

    @functools.cached_property
    def sizes(self) -> tuple[str, ...]:
        """The names of the sizes that the parameters declare, in order."""
        named = (d for p in self.parameters for d in p.dimensions if isinstance(d, str) and d != "_")
        return tuple(dict.fromkeys(named))
