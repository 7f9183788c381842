"""Build a module with one `vk.kernel` from an author's function and a signature."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ModuleOp, f64, i1, i64
from xdsl.ir import Attribute

from vkernels.compiler.protocols import Signature, size_name
from vkernels.ir.analysis.accesses import has_effect
from vkernels.ir.dialect import KernelOp, TensorArgumentType
from vkernels.ir.errors import ArgumentError, KernelWarning, warn_caller
from vkernels.ir.transforms.allow_approximate import allow_approximate

from ..annotations import Packed, Parameter
from ..declaration import DeclaredKernel
from ..dtypes import DTYPES, bool_, complex_of, float64, int64
from ..operation import building
from ..values import ComplexTensor, PackedTensor, Tensor, Tile
from .complex_numbers import ComplexBuilder
from .form_dots import form_dots
from .frame import CallFrame
from .races import refuse_races
from .syntax import HANDLERS
from .types import memory_element

_SCALARS: dict[str, tuple[Attribute, Any]] = {"f64": (f64, float64), "i64": (i64, int64), "i1": (i1, bool_)}


def build_kernel(kernel: DeclaredKernel, signature: Signature) -> ModuleOp:
    """Build a new module with the kernel's `vk.kernel`, specialised on dtypes, scalar types and constants.

    The module is not verified. Raises the author's mistakes as `SourceError`, and `ArgumentError` if the signature
    does not match the kernel's parameters.
    """
    tensors, scalars = dict(signature.tensors), dict(signature.scalars)
    constants = dict(signature.constants)
    passed = [parameter for parameter in kernel.parameters if parameter.kind != "constant"]
    types = [(p.name, _type_of(kernel, p, tensors, scalars)) for p in passed]
    op = KernelOp(kernel.name, types)
    builder = ComplexBuilder(op.body.block, kernel.sizes, _only_in_bytes(kernel))
    names: dict[str, Any] = {}
    for parameter in kernel.parameters:
        if parameter.kind == "constant":
            names[parameter.name] = _constant(kernel, parameter, constants)
    for parameter, argument in zip(passed, op.body.block.args, strict=True):
        if parameter.kind == "tensor":
            dtype = DTYPES[tensors[parameter.name]]
            tensor = Tensor(parameter.name, argument, dtype, _dimensions(parameter))
            names[parameter.name] = _as_declared(tensor, parameter)
        else:
            dtype = _SCALARS[scalars[parameter.name]][1]
            names[parameter.name] = Tile(argument, dtype, weak=True)
    frame = CallFrame(builder, HANDLERS, kernel.source, kernel.function, names)
    op.location = kernel.source.location(kernel.source.definition)
    with building(builder):
        frame.execute(kernel.source.definition.body)
    if not has_effect(op):
        place = kernel.source.place(kernel.source.definition)
        warn_caller(KernelWarning(f"{place.file}:{place.line}: `{kernel.name}` stores nothing: write `out[i] = …`"))
    refuse_races(op, frame.sites)
    form_dots(op)
    if kernel.approximate is not False:
        allow_approximate(op, everywhere=kernel.approximate is True)
    return ModuleOp([op])


def _type_of(
    kernel: DeclaredKernel, parameter: Parameter, tensors: dict[str, str], scalars: dict[str, str]
) -> Attribute:
    given = tensors if parameter.kind == "tensor" else scalars
    if parameter.name not in given:
        raise ArgumentError(f"{kernel.name}: the signature says nothing of the {parameter.kind} `{parameter.name}`")
    found = given[parameter.name]
    if found not in parameter.dtypes:
        expected = ", ".join(parameter.dtypes)
        raise ArgumentError(f"{kernel.name}: `{parameter.name}` is {found}, expected one of {expected}")
    if parameter.kind == "scalar":
        return _SCALARS[found][0]
    return TensorArgumentType(_dimensions(parameter), memory_element(DTYPES[found]))


def _dimensions(parameter: Parameter) -> tuple[str | int, ...]:
    return tuple(size_name(parameter.name, number, d) for number, d in enumerate(parameter.dimensions))


def _as_declared(storage: Tensor, parameter: Parameter) -> Tensor:
    """A tensor of bytes or parts as one of the values that its author declares."""
    if parameter.packed is not None:
        return _unpacked(storage, parameter.packed)
    if parameter.is_complex:
        dtype, dimensions = complex_of(storage.dtype), storage.dimensions[:-1]
        return ComplexTensor(storage.name, storage.ssa, dtype, dimensions, storage)
    return storage


def _unpacked(storage: Tensor, packed: Packed) -> PackedTensor:
    dimensions = (*storage.dimensions[:-1], packed.extent)
    return PackedTensor(storage.name, storage.ssa, packed.dtype, dimensions, storage)


def _only_in_bytes(kernel: DeclaredKernel) -> frozenset[str]:
    """The sizes that no tensor has as a dimension, only bytes of two values each."""
    sizes = {p.packed.extent for p in kernel.parameters if p.packed is not None and isinstance(p.packed.extent, str)}
    return frozenset(sizes.difference(*(p.dimensions for p in kernel.parameters)))


def _constant(kernel: DeclaredKernel, parameter: Parameter, constants: dict[str, Any]) -> Any:
    if parameter.name in constants:
        return constants[parameter.name]
    if parameter.default is not parameter.MISSING:
        return parameter.default
    raise ArgumentError(f"{kernel.name}: the signature gives no value to the constant `{parameter.name}`")
