"""The arguments of a call for the compiler: tensors as views of memory, scalars, constants and sizes by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from vkernels.ir.did_you_mean import did_you_mean
from vkernels.ir.errors import ArgumentError, OptionError

from .protocols import Constant, KernelLike, ParameterLike, Signature, size_name

CPU = "cpu"
"""The device of NumPy arrays and of most tensors."""

Scalar = bool | int | float

Same = tuple[tuple[str, str], ...]
"""Parameters that a call gives a tensor which another has as well, each with that one; empty where there are none."""

_ADDRESS = 1 << 20


@dataclass(frozen=True)
class ArrayView:
    """A tensor argument as memory. `strides` are in elements, 1 in a last dimension of at most one element.

    `device`: `cpu`, or as torch names it: `cuda:0`, also for AMD's.
    """

    dtype: str
    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    address: int
    writable: bool
    device: str = CPU

    @property
    def size(self) -> int:
        """Elements."""
        return prod(self.shape)

    @property
    def reach(self) -> tuple[int, int]:
        """The bytes that its elements occupy, from the first one's: lowest and past the highest; equal if empty."""
        if self.size == 0:
            return 0, 0
        ends = [(length - 1) * stride * self.itemsize for length, stride in zip(self.shape, self.strides, strict=True)]
        return sum(min(0, end) for end in ends), sum(max(0, end) for end in ends) + self.itemsize


@dataclass(frozen=True)
class Arguments:
    """The arguments of one call, checked against the parameters, and the sizes that tensors give, all by name."""

    tensors: Mapping[str, ArrayView]
    scalars: Mapping[str, Scalar]
    constants: Mapping[str, Constant]
    sizes: Mapping[str, int]

    @property
    def device(self) -> str:
        """Where all tensors are; `cpu` where there are none."""
        return next((view.device for view in self.tensors.values()), CPU)

    @property
    def dtypes(self) -> dict[str, str]:
        """The dtype of each tensor."""
        return {name: view.dtype for name, view in self.tensors.items()}

    @property
    def strides(self) -> dict[str, tuple[int, ...]]:
        """The strides of each tensor, in elements."""
        return {name: view.strides for name, view in self.tensors.items()}

    @property
    def signature(self) -> Signature:
        """What the kernel's IR depends on."""
        return Signature(
            tuple((name, view.dtype) for name, view in self.tensors.items()),
            tuple((name, scalar_kind(value)) for name, value in self.scalars.items()),
            tuple(self.constants.items()),
        )


def scalar_kind(value: Scalar) -> str:
    """The type of a scalar in the kernel: `i1`, `i64` or `f64`."""
    if isinstance(value, bool):
        return "i1"
    return "i64" if isinstance(value, int) else "f64"


EXAMPLE_SCALARS: Mapping[str, Scalar] = {"f64": 1.0, "i64": 1, "i1": True}
"""A scalar of each kind; code depends on no value."""


def example_arguments(
    kernel: KernelLike,
    signature: Signature,
    sizes: Mapping[str, int],
    strides: Mapping[str, Sequence[int]] = {},
) -> Arguments:
    """Arguments of this signature and these sizes, without memory: row after row but for the `strides` that are given.

    Raises `ArgumentError` for a size that is missing.
    """
    tensors = dense_tensors(kernel, sizes, dict(signature.tensors), strides)
    scalars = {name: EXAMPLE_SCALARS[kind] for name, kind in signature.scalars}
    return Arguments(tensors, scalars, dict(signature.constants), dict(sizes))


def strides_in_order(
    kernel: str, parameters: Sequence[ParameterLike], sizes: Mapping[str, int], layouts: Mapping[str, str]
) -> dict[str, tuple[int, ...]]:
    """Strides, in elements, of dense tensors whose dimensions lie in memory in another order than they are declared in.

    `layouts`: for such tensors by name, their dimensions as declared, from the slowest to the fastest in memory:
    `{"q": "B M H D"}` for a q that is declared as `"B H M D"`. Raises `OptionError` for a tensor that does not exist,
    and where an order is not one of its dimensions.
    """
    tensors = {parameter.name: parameter for parameter in parameters if parameter.kind == "tensor"}
    found = {}
    for name, layout in layouts.items():
        if name not in tensors:
            raise OptionError(f"{kernel} has no tensor {name!r}; {did_you_mean(name, [*tensors] or ['none'])}")
        order, declared = layout.split(), [str(each) for each in tensors[name].dimensions]
        if sorted(order) != sorted(declared) or len({*declared}) < len(declared):
            why = "in another order" if len({*declared}) == len(declared) else "but no order can be told of equal ones"
            raise OptionError(f"{kernel}: the layout of `{name}`: expected {' '.join(declared)} {why}, got {layout!r}")
        found[name] = dense_strides(_shape(kernel, tensors[name], sizes), [declared.index(each) for each in order])
    return found


def dense_strides(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Strides, in elements, of a tensor without gaps. `order`: its dimensions from the slowest to the fastest."""
    strides, reach = [0] * len(shape), 1
    for dimension in reversed(order):
        strides[dimension] = reach
        reach *= shape[dimension]
    return tuple(strides)


def dense_tensors(
    kernel: KernelLike,
    sizes: Mapping[str, int],
    dtypes: Mapping[str, str],
    strides: Mapping[str, Sequence[int]] = {},
) -> dict[str, ArrayView]:
    """The kernel's tensors, each in memory of its own, row after row but for those whose `strides` are given.

    Raises `ArgumentError` for a size that is missing.
    """
    tensors = {}
    for number, parameter in enumerate(kernel.parameters):
        if parameter.kind == "tensor":
            shape = _shape(kernel.name, parameter, sizes)
            dense = dense_strides(shape, range(len(shape)))
            dtype = dtypes[parameter.name]
            laid = tuple(strides.get(parameter.name, dense))
            address = (number + 1) * _ADDRESS
            tensors[parameter.name] = ArrayView(dtype, item_bytes(dtype), shape, laid, address, True)
    return tensors


def _shape(kernel: str, parameter: ParameterLike, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(_length(kernel, parameter.name, n, d, sizes) for n, d in enumerate(parameter.dimensions))


def _length(kernel: str, tensor: str, number: int, declared: str | int, sizes: Mapping[str, int]) -> int:
    name = size_name(tensor, number, declared)
    if isinstance(name, str) and name not in sizes:
        raise ArgumentError(f"{kernel}: the size {name} is not given")
    return sizes[name] if isinstance(name, str) else name


def item_bytes(dtype: str) -> int:
    """Bytes of an element, by torch's name of its dtype."""
    if dtype == "bfloat16":
        return 2
    return 1 if dtype.startswith("float8") else np.dtype(dtype).itemsize
