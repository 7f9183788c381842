"""Torch tensors and NumPy arrays as memory: address, dtype, shape, strides. Torch is not imported for it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from vkernels.compiler.arguments import CPU, ArrayView
from vkernels.ir.errors import ArgumentError


def is_torch(value: Any) -> bool:
    """Whether a value is a torch tensor; torch is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def view_of(value: Any, what: str) -> ArrayView:
    """A tensor or array as memory. `what` names the argument in errors.

    Raises `ArgumentError` for what is no tensor and for tensors that are not plain memory: masked arrays, sparse,
    nested, meta, fake and functional tensors, tensors of a transformation (`torch.vmap`, `torch.func.grad`), lazily
    negated ones, storage that was freed, strides that are not whole elements.
    """
    if isinstance(value, np.ndarray):
        return _numpy_view(value, what)
    if is_torch(value):
        return _torch_view(value, what)
    help = "; `.to_numpy()` gives one" if hasattr(value, "to_numpy") else ""
    raise ArgumentError(f"{what}: expected a torch tensor or a NumPy array, got {kind_of(value)}{help}")


PARTS = {"complex64": "float32", "complex128": "float64"}
"""The dtypes of complex numbers, and those of their parts."""


def as_parts(view: ArrayView) -> ArrayView:
    """Memory of complex numbers as that of their parts, with a last dimension of 2; other memory as it is."""
    if view.dtype not in PARTS:
        return view
    shape, strides = (*view.shape, 2), (*(2 * stride for stride in view.strides), 1)
    return replace(view, dtype=PARTS[view.dtype], itemsize=view.itemsize // 2, shape=shape, strides=strides)


def parts_of(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array of complex numbers as one of their parts, in the same memory; others as they are."""
    if array.dtype.kind != "c":
        return array
    real, half = np.asarray(array.real), array.itemsize // 2
    return as_strided(real, (*array.shape, 2), (*array.strides, half), writeable=array.flags.writeable)


def is_foreign(value: Any) -> bool:
    """Whether a value is an array of another library, by `__array_interface__` or DLPack."""
    if isinstance(value, np.ndarray | np.generic | bool | int | float | str) or is_torch(value):
        return False
    if isinstance(value, type):
        return False
    return hasattr(value, "__array_interface__") or (
        hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__")
    )


def adopted(value: Any) -> Any:
    """An array of another library (CuPy, JAX, …) as a NumPy array or torch tensor of the same memory.

    By `__array_interface__` or DLPack; what lies on a GPU becomes a torch tensor. Other values are returned as they
    are. Raises `ArgumentError` where the other library does not give its memory.
    """
    if not is_foreign(value):
        return value
    try:
        return np.asarray(value) if hasattr(value, "__array_interface__") else _from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ArgumentError(f"an array of type {type(value).__name__} does not give its memory: {error}") from error


CPU_IN_DLPACK = 1


def _from_dlpack(value: Any) -> Any:
    if value.__dlpack_device__()[0] == CPU_IN_DLPACK:
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError):  # a dtype that NumPy lacks, as bfloat16
            if "torch" not in sys.modules:
                raise
    from torch.utils.dlpack import from_dlpack

    return from_dlpack(value)


def kind_of(value: Any) -> str:
    """A value's type, and its text where that is short, for messages."""
    try:
        text = repr(value) if not hasattr(value, "__len__") or len(value) <= 40 else ""
    except Exception:  # a value of any kind may have no text
        text = ""
    return f"{type(value).__name__} {text}" if 0 < len(text) <= 40 else type(value).__name__


def _torch_view(tensor: Any, what: str) -> ArrayView:
    import torch

    _check_plain(tensor, what)
    if tensor.device.type not in (CPU, "cuda"):
        raise ArgumentError(f"{what}: expected a tensor on device cpu or cuda, got {tensor.device}")
    shape = tuple(tensor.shape)
    strides = _normal(shape, tuple(tensor.stride()))
    name = _dtype_name(tensor)
    writable = not (tensor.requires_grad and torch.is_grad_enabled())
    device = CPU if tensor.device.type == CPU else str(tensor.device)
    view = ArrayView(name, tensor.element_size(), shape, strides, tensor.data_ptr(), writable, device)
    bytes_needed = view.reach[1]
    if bytes_needed and (view.address == 0 or memory_left(tensor) < bytes_needed):
        held = memory_left(tensor) if view.address else 0
        raise ArgumentError(
            f"{what}: expected memory for {bytes_needed} bytes, got storage that holds {max(0, held)}: it was resized "
            f"or freed"
        )
    return view


AS_BYTES = ("float8_e8m0fnu", "float4_e2m1fn_x2")
"""Torch's dtypes whose tensors kernels read as bytes, uint8: scales, and pairs of fp4."""


def _dtype_name(tensor: Any) -> str:
    name = str(tensor.dtype).removeprefix("torch.")
    return "uint8" if name in AS_BYTES else name


def memory_left(tensor: Any) -> int:
    """Bytes of a torch tensor's storage from its first element on."""
    left: int = tensor.untyped_storage().nbytes() - tensor.storage_offset() * tensor.itemsize
    return left


def _check_plain(tensor: Any, what: str) -> None:
    kind = _kind_without_memory(tensor)
    if kind:
        raise ArgumentError(f"{what}: expected a dense tensor, got {kind}")
    if tensor.is_neg() or tensor.is_conj():
        lazily = "conjugated view; .resolve_conj() it" if tensor.is_conj() else "negated view; .resolve_neg() it"
        raise ArgumentError(f"{what}: expected plain memory, got a lazily {lazily}")


def _kind_without_memory(tensor: Any) -> str:
    """What kind of tensor has no plain memory; empty for a plain one."""
    import torch

    kind, plain = type(tensor), torch.Tensor
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    own = f"a {kind.__name__}, which has its own operations"
    overrides = kind.__torch_dispatch__ is not plain.__torch_dispatch__ and kind.data_ptr is plain.data_ptr
    kinds: tuple[tuple[Callable[[], bool], str], ...] = (
        (lambda: wrapped(tensor),
         "a tensor of a torch.func transformation (vmap, grad, jvp): `vkernels.torch` has operations for those"),
        (lambda: torch._is_functional_tensor(tensor), "a functional tensor"),
        (lambda: tensor.is_nested, "a nested tensor"),
        (lambda: overrides, own),
        (lambda: tensor.layout != torch.strided, f"layout {tensor.layout}"),
        (lambda: tensor.is_quantized, "a quantised tensor"),
        (lambda: tensor._is_zerotensor(), "a tensor of lazy zeros; .clone() it"),
    )  # fmt: skip
    return next((name for holds, name in kinds if holds()), "")


def _numpy_view(array: np.ndarray[Any, Any], what: str) -> ArrayView:
    itemsize = array.itemsize
    if not is_plain(array):
        raise ArgumentError(
            f"{what}: expected a plain NumPy array, got {type(array).__name__}: what it adds would be ignored; "
            f"np.asarray(…) makes it plain"
        )
    if not array.dtype.isnative:
        raise ArgumentError(f"{what}: expected native byte order, got {array.dtype!r}")
    if itemsize == 0 or any(stride % itemsize for stride in array.strides):
        raise ArgumentError(
            f"{what}: expected strides of whole elements ({itemsize} bytes), got strides of {array.strides} bytes"
        )
    strides = _normal(array.shape, tuple(stride // itemsize for stride in array.strides))
    return ArrayView(array.dtype.name, itemsize, array.shape, strides, numpy_address(array), array.flags.writeable)


def is_plain(array: np.ndarray[Any, Any]) -> bool:
    """Whether a NumPy array is nothing but memory: not masked, no matrix, no array with units."""
    return type(array) is np.ndarray or type(array) is np.memmap


def _normal(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in normal form: 1 in a last dimension of one element, or of an empty tensor."""
    return (*strides[:-1], 1) if shape and (shape[-1] == 1 or 0 in shape) else strides


def numpy_address(array: np.ndarray[Any, Any]) -> int:
    """The address of the first element."""
    address: int = array.__array_interface__["data"][0]
    return address


def address_reader(value: Any) -> Callable[[Any], int]:
    """A function that gives the address of arrays of this value's type."""
    return numpy_address if isinstance(value, np.ndarray) else type(value).data_ptr
