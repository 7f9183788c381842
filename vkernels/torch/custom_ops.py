"""Register kernels as torch operations, with gradients that their authors give."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch.library import Library

from vkernels.ir.errors import ArgumentError, OptionError
from vkernels.language import Kernel, Parameter
from vkernels.language.annotations import COMPLEX
from vkernels.language.declaration import with_dtype

from .registering import Context, Operation, define, like

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from vkernels.ir.dialect import KernelOp

_NAME = re.compile(r"([A-Za-z_]\w*)::([A-Za-z_]\w*)")

_SCALARS = {"f64": "float", "i64": "int", "i1": "bool"}
_CONSTANTS = {bool: "bool", int: "int", float: "float", str: "str"}


@dataclass(frozen=True)
class OperationDefinition:
    """The definition of a kernel's operation; the fields are `torch_op`'s arguments."""

    kernel: Kernel
    name: str
    fixed: dict[str, Any]
    sizes: dict[str, Callable[[Mapping[str, int]], int]]
    dtypes: dict[str, torch.dtype | str]

    def check(self) -> tuple[str, str]:
        """Check the options. Returns namespace and name. Raises `OptionError`."""
        match = _NAME.fullmatch(self.name)
        if match is None or match[1] in ("aten", "prim", "prims", "vkernels"):
            raise self.mistake(f"name is {self.name!r}, expected one like `mine::{self.kernel.name}`, not torch's own")
        self._check_names("fixed", self.fixed, [each.name for each in self.kernel.parameters if each.kind != "tensor"])
        for each in self.kernel.parameters:
            if each.kind == "constant" and each.name not in self.all_fixed and type(each.default) not in _CONSTANTS:
                raise self.mistake(f"the constant `{each.name}` has no default to tell its type by: fix it, fixed=")
        self._check_names("sizes", self.sizes, [each for each in self.kernel.sizes if each not in self.known_sizes])
        self._check_names("dtypes", self.dtypes, [result.name for result in self.results])
        for result in self.results:
            for size in _dimensions(result):
                if isinstance(size, str) and size not in (*self.known_sizes, *self.sizes):
                    raise self.mistake(f"`{result.name}` has a size {size}, which no argument has: give it, sizes=")
        return match[1], match[2]

    def _check_names(self, option: str, given: Mapping[str, Any], expected: Sequence[str]) -> None:
        for name in given:
            if name not in expected:
                raise self.mistake(f"{option} names {name!r}, expected one of {', '.join(expected) or 'none'}")

    def mistake(self, text: str) -> OptionError:
        return OptionError(f"torch_op: {self.kernel.name}: {text}")

    @cached_property
    def access(self) -> tuple[frozenset[str], frozenset[str]]:
        """Names of the tensors that the kernel writes, and of those that it reads."""
        from vkernels.compiler.specialise import kernel_in, written_tensors

        constants = {p.name for p in self.kernel.parameters if p.kind == "constant"}
        given = {name: value for name, value in self.fixed.items() if name in constants}
        scalars = {
            parameter.name: parameter.dtypes[0]
            for parameter in self.kernel.parameters
            if parameter.kind == "scalar" and parameter.default is Parameter.MISSING
        }
        module = self.kernel.build(self.kernel.signature(**with_dtype(self.kernel, None, {**scalars, **given})))
        built = kernel_in(module)
        return frozenset(written_tensors(built)), frozenset(_read(built))

    @property
    def tensors(self) -> tuple[Parameter, ...]:
        return tuple(parameter for parameter in self.kernel.parameters if parameter.kind == "tensor")

    @cached_property
    def results(self) -> tuple[Parameter, ...]:
        """Tensors that the operation allocates and returns."""
        written, read = self.access
        return tuple(each for each in self.tensors if each.name in written - read)

    @cached_property
    def arguments(self) -> tuple[Parameter, ...]:
        results = {result.name for result in self.results}
        return tuple(
            each for each in self.kernel.parameters if each.name not in results and each.name not in self.all_fixed
        )

    @cached_property
    def all_fixed(self) -> dict[str, Any]:
        """Values of fixed parameters, including constants whose default is None."""
        nothing = {p.name: None for p in self.kernel.parameters if p.kind == "constant" and p.default is None}
        return {**nothing, **self.fixed}

    @cached_property
    def known_sizes(self) -> dict[str, tuple[int, int]]:
        """Sizes known from arguments: an argument's position and a dimension."""
        found: dict[str, tuple[int, int]] = {}
        for place, argument in enumerate(self.arguments):
            for at, size in enumerate(_dimensions(argument)):
                if isinstance(size, str):
                    found.setdefault(size, (place, at))
        return found

    @cached_property
    def schema(self) -> str:
        """The operation's schema in torch's syntax."""
        written, _ = self.access
        shown, aliases = [], iter("abcdefghijklmnopqrstuvwxyz")
        for each in self.arguments:
            kind = self._type(each, f"({next(aliases)}!)" if each.name in written else "")
            default = "" if each.default is Parameter.MISSING else f"={_literal(each.default)}"
            shown.append(f"{kind} {each.name}{default}")
        results = ", ".join(["Tensor"] * len(self.results))
        results = results if len(self.results) == 1 else f"({results})"
        return f"{self.name.partition('::')[2]}({', '.join(shown)}) -> {results}"

    def _type(self, parameter: Parameter, alias: str) -> str:
        if parameter.kind == "tensor":
            return f"Tensor{alias}"
        if parameter.kind == "scalar":
            return _SCALARS[parameter.dtypes[0]] if len(parameter.dtypes) == 1 else "Scalar"
        return _CONSTANTS[type(parameter.default)]

    @cached_property
    def defaults(self) -> tuple[Any, ...]:
        return tuple(each.default for each in self.arguments)

    @cached_property
    def complex_places(self) -> frozenset[int]:
        """The places of complex arguments that are only read: torch may give them lazily conjugated."""
        written, _ = self.access
        return frozenset(n for n, each in enumerate(self.arguments) if each.is_complex and each.name not in written)

    @cached_property
    def sources(self) -> tuple[tuple[int, Any], ...]:
        """The source of each kernel parameter: (0, argument), (1, result) or (2, value)."""
        arguments = {each.name: place for place, each in enumerate(self.arguments)}
        results = {each.name: place for place, each in enumerate(self.results)}
        return tuple(
            (0, arguments[each.name]) if each.name in arguments
            else (1, results[each.name]) if each.name in results
            else (2, self.all_fixed[each.name])
            for each in self.kernel.parameters
        )  # fmt: skip

    def allocate(self, given: Sequence[Any]) -> list[torch.Tensor]:
        """Uninitialised results; sizes and tensors may be symbolic. Raises `ArgumentError` for wrong ranks."""
        for argument, value in zip(self.arguments, given, strict=True):
            dimensions = _dimensions(argument)
            if argument.kind == "tensor" and value.ndim != len(dimensions):
                raise ArgumentError(
                    f"{self.kernel.name}: argument `{argument.name}`: expected {len(dimensions)} dimensions "
                    f"[{', '.join(map(str, dimensions))}], got {list(value.shape)}"
                )
        sizes: dict[str, int] = {name: given[place].shape[at] for name, (place, at) in self.known_sizes.items()}
        sizes |= {name: follows(sizes) for name, follows in self.sizes.items()}
        first = next(each for each in given if isinstance(each, torch.Tensor))
        return [
            like(first, [size if isinstance(size, int) else sizes[size] for size in _dimensions(result)],
                 self.dtype_of(result, given))
            for result in self.results
        ]  # fmt: skip

    def dtype_of(self, result: Parameter, given: Sequence[Any]) -> torch.dtype:
        said = self.dtypes.get(result.name)
        if isinstance(said, torch.dtype):
            return said
        for argument, value in zip(self.arguments, given, strict=True):
            if argument.kind == "tensor" and said in (None, argument.name) and _short(value.dtype) in _dtypes(result):
                dtype: torch.dtype = value.dtype
                return dtype
        if said is None and "int64" in result.dtypes:
            return torch.int64
        if said is None and result.is_complex and len(result.dtypes) == 1:
            made: torch.dtype = getattr(torch, *_dtypes(result))
            return made
        raise self.mistake(f"`{result.name}` can have no argument's dtype: say which, dtypes=")

    def complete(self, given: Sequence[Any]) -> tuple[Any, ...]:
        """Arguments with the defaults that torch omits."""
        return (*given, *self.defaults[len(given) :])

    def run(self, *given: Any) -> Any:
        """Run the kernel on arguments, and return new results."""
        values = [value.resolve_conj() if n in self.complex_places else value
                  for n, value in enumerate(self.complete(given))]  # fmt: skip
        results = self.allocate(values)
        places = (values, results)
        self.kernel(*[what if kind == 2 else places[kind][what] for kind, what in self.sources])
        return _shown(results)

    def fake(self, *given: Any) -> Any:
        return _shown(self.allocate(self.complete(given)))


def _read(kernel: KernelOp) -> list[str]:
    from vkernels.ir.dialect import AccessOp, GatherOp, LoadOp, WriteOp

    arguments = kernel.body.block.args
    names: dict[SSAValue, str] = dict(zip(arguments, (name.data for name in kernel.parameters), strict=True))
    accesses = [op for op in kernel.walk() if isinstance(op, AccessOp)]
    reads = [op for op in accesses if isinstance(op, LoadOp | GatherOp) or (isinstance(op, WriteOp) and op.atomic)]
    return [names[op.base] for op in reads if op.base in names]


def _shown(results: list[torch.Tensor]) -> Any:
    if len(results) == 1:
        return results[0]
    return tuple(results) if results else None


def _dimensions(parameter: Parameter) -> tuple[str | int, ...]:
    """The dimensions of a tensor as torch has it: complex numbers are one there, not two parts."""
    return parameter.dimensions[:-1] if parameter.is_complex else parameter.dimensions


def _dtypes(parameter: Parameter) -> tuple[str, ...]:
    if not parameter.is_complex:
        return parameter.dtypes
    return tuple(name for name, dtype in COMPLEX.items() if dtype.part.name in parameter.dtypes)


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _literal(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


@dataclass(frozen=True)
class AuthorsGradient:
    """An author's gradient function; it receives values of a call by name."""

    made: OperationDefinition
    function: Callable[..., Any]

    def __post_init__(self) -> None:
        written, _ = self.made.access
        changed = [argument.name for argument in self.made.arguments if argument.name in written]
        if changed:
            raise self.made.mistake(f"it changes `{changed[0]}`, so it cannot have a gradient: backward=")
        known = [each.name for each in (*self.made.arguments, *self.made.results)]
        for name in self.names:
            if name not in known:
                raise self.made.mistake(f"backward asks for `{name}`, expected one of {', '.join(known)}")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the values that it receives after the gradient of each result."""
        return tuple(inspect.signature(self.function).parameters)[len(self.made.results) :]

    def keep(self, ctx: Context, inputs: tuple[Any, ...], output: Any) -> None:
        results = output if isinstance(output, tuple) else (output,)
        values = {
            **{each.name: value for each, value in zip(self.made.arguments, inputs, strict=True)},
            **{each.name: value for each, value in zip(self.made.results, results, strict=True)},
        }
        kept = [values[name] for name in self.names]
        ctx.others = [None if isinstance(value, torch.Tensor) else value for value in kept]
        ctx.save_for_backward(*[value if isinstance(value, torch.Tensor) else None for value in kept])

    def backward(self, ctx: Context, *grads: Any) -> tuple[Any, ...]:
        kept = [other if saved is None else saved for saved, other in zip(ctx.saved_tensors, ctx.others, strict=True)]
        found = self.function(*grads, *kept)
        gradients = iter(found if isinstance(found, tuple | list) else (found,))
        given = [next(gradients, ...) if each.kind == "tensor" else None for each in self.made.arguments]
        if ... in given or next(gradients, ...) is not ...:
            number = sum(each.kind == "tensor" for each in self.made.arguments)
            raise self.made.mistake(f"backward returns other than {number} gradients, one for each tensor argument")
        return tuple(given)


_MADE: dict[str, Library] = {}
"""The library of each operation; registering a name again replaces the operation."""


def torch_op(
    kernel: Kernel,
    name: str | None = None,
    *,
    fixed: Mapping[str, Any] | None = None,
    sizes: Mapping[str, Callable[[Mapping[str, int]], int]] | None = None,
    dtypes: Mapping[str, torch.dtype | str] | None = None,
    backward: Callable[..., Any] | None = None,
) -> Operation:
    """Register a kernel as a torch operation, for use with `torch.compile` and autograd, and return the operation.

    Its arguments are the kernel's, in order, except tensors that the kernel writes and does not read: the operation
    allocates these, contiguous, and returns them. Tensors that the kernel reads and writes, also atomically, stay
    arguments and are changed in place.

    `name`: `"namespace::name"`, by default `vk::` and the kernel's name. Registering a name again replaces it.
    `fixed`: values of constants or scalars that are no arguments; constants without a typed default must be fixed.
    `sizes`: functions for sizes that only results have, from the other sizes by name: `{"Y": lambda n: n["H"] - 2}`.
    `dtypes`: of results, a dtype or an argument's name; else that of the first argument whose dtype the result can
    have. `backward`: takes the gradient of each result, and what its further parameters name among arguments and
    results, which are kept for it: `def backward(grad, out, eps)`; it returns the gradient of each tensor argument in
    order, None for one that has none. It is made of torch's operations, such as this function returns. Without it, or
    of kernels that change arguments, differentiating is refused.
    Raises `OptionError` for what does not go together, and what building the kernel raises.
    """
    made = OperationDefinition(
        kernel, name or f"vk::{kernel.name}", dict(fixed or {}), dict(sizes or {}), dict(dtypes or {})
    )
    namespace, _ = made.check()
    gradient = None if backward is None else AuthorsGradient(made, backward)
    before = _MADE.pop(made.name, None)
    if before is not None:
        before._destroy()
    library = Library(namespace, "FRAGMENT")
    keep, back = (None, None) if gradient is None else (gradient.keep, gradient.backward)
    operation = define(made.schema, made.run, made.fake, keep, back, library)
    _MADE[made.name] = library
    return operation
