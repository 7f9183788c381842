"""Plain Triton kernels, `@triton.jit` and `@triton.autotune`: what they declare, and their TTIR for an architecture."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from vkernels.ir.errors import ArgumentError, Error

from .triton_adapter import GpuOptions, backend_for

Value = bool | int | float | str | None
"""What a constant parameter can be given."""


class TritonSourceError(Error):
    """A plain Triton kernel that Triton's front end refuses, with its reasons."""


@dataclass(frozen=True)
class JitParameter:
    """`constant`: declared `tl.constexpr`."""

    name: str
    constant: bool


@dataclass(frozen=True)
class Configuration:
    """One way to compile a kernel: by name, constants and settings of Triton's; warps and stages where it says them."""

    constants: Mapping[str, Value]
    warps: int | None = None
    stages: int | None = None
    settings: Mapping[str, Value] | None = None


def is_triton_kernel(value: object) -> bool:
    """Whether this is what `@triton.jit`, `@triton.autotune` or `@triton.heuristics` gives."""
    from triton.runtime.jit import JITFunction

    return isinstance(innermost(value), JITFunction)


def jit_function(kernel: Any) -> Any:
    """The Python function of a kernel."""
    return innermost(kernel).fn


def jit_parameters(kernel: Any) -> tuple[JitParameter, ...]:
    """The kernel's parameters in their order."""
    return tuple(JitParameter(p.name, bool(p.is_constexpr)) for p in innermost(kernel).params)


def jit_configurations(kernel: Any) -> tuple[Configuration, ...]:
    """The kernel's autotune configurations; one that says nothing where it has none."""
    tuner = next((layer for layer in _layers(kernel) if hasattr(layer, "configs")), None)
    if tuner is None:
        return (Configuration({}),)
    names = {parameter.name for parameter in jit_parameters(kernel)}
    return tuple(_configuration(config, names) for config in tuner.configs)


def has_prune(kernel: Any) -> bool:
    """Whether its autotune leaves out configurations by the arguments of a launch."""
    tuner = next((layer for layer in _layers(kernel) if hasattr(layer, "configs")), None)
    return any(getattr(tuner, name, None) is not None for name in ("early_config_prune", "perf_model"))


def without_autotune(kernel: Any) -> Any:
    """What a kernel's autotune wraps: its heuristics stay; the kernel itself without an autotune."""
    layers = list(_layers(kernel))
    tuner = next((number for number, layer in enumerate(layers) if hasattr(layer, "configs")), -1)
    return layers[tuner + 1]


def jit_ttir(
    kernel: Any,
    types: Mapping[str, str],
    constants: Mapping[str, Value],
    divisible: tuple[str, ...],
    configuration: Configuration,
    architecture: str,
) -> tuple[str, GpuOptions]:
    """The TTIR of a plain Triton kernel for an architecture, and how Triton would compile it there.

    `types`: Triton's spelling by parameter; `divisible`: of them, multiples of 16. `constants`: of the others; the
    configuration's and the parameters' defaults are added, and what `@triton.heuristics` compute from all of these.
    Raises `ArgumentError` where a constant is missing and `TritonSourceError` with Triton's reasons where its front
    end refuses the kernel. The kernel's own Python code runs.
    """
    function = innermost(kernel)
    values = constants_of(kernel, types, {**constants, **configuration.constants})
    backend = backend_for(architecture)
    wanted = {"num_warps": configuration.warps, "num_stages": configuration.stages, **(configuration.settings or {})}
    known = backend.parse_options({}).__dataclass_fields__
    wanted = {name: value for name, value in wanted.items() if name in known and value is not None}
    try:
        options = backend.parse_options(dict(wanted))
        text = _lowered(_source(function, types, values, divisible), backend, options)
    except Exception as error:  # Triton's front end raises anything, and runs the author's own Python
        raise TritonSourceError(message_of(function, error)) from error
    settings = {name: value for name, value in wanted.items() if name not in ("num_warps", "num_stages")}
    settings["enable_fp_fusion"] = options.enable_fp_fusion
    return text, GpuOptions(options.num_warps, options.num_stages, settings=json.dumps(settings, sort_keys=True))


def _layers(kernel: Any) -> Iterator[Any]:
    """The decorated function and what the decorators wrapped it in, outermost first."""
    from triton.runtime.autotuner import Autotuner, Heuristics

    yield kernel
    while isinstance(kernel, Autotuner | Heuristics):
        kernel = kernel.fn
        yield kernel


def innermost(kernel: Any) -> Any:
    """What `@triton.jit` gave, without the layers of other decorators."""
    *_, function = _layers(kernel)
    return function


def _configuration(config: Any, parameters: set[str]) -> Configuration:
    """Triton's `Config`: keyword arguments that are no parameters of the kernel are settings of a back end."""
    settings = {name: value for name, value in config.kwargs.items() if name not in parameters}
    settings |= {"num_ctas": config.num_ctas, "maxnreg": config.maxnreg}
    constants = {name: value for name, value in config.kwargs.items() if name in parameters}
    return Configuration(constants, config.num_warps, config.num_stages, settings)


def constants_of(kernel: Any, types: Mapping[str, str], given: Mapping[str, Value]) -> dict[str, Any]:
    """Values of all parameters that are not passed at a launch."""
    function = innermost(kernel)
    signature = inspect.signature(function.fn)
    values: dict[str, Any] = {}
    for parameter in function.params:
        default = signature.parameters[parameter.name].default
        if parameter.name in given:
            values[parameter.name] = given[parameter.name]
        elif parameter.name not in types and default is not inspect.Parameter.empty:
            values[parameter.name] = default
    for layer in _layers(kernel):
        for name, compute in getattr(layer, "values", {}).items():
            if name not in given:
                values[name] = _computed(name, compute, values)
    missing = [p.name for p in function.params if p.name not in values and p.name not in types]
    if missing:
        raise ArgumentError(f"{function.__name__}: no value for {', '.join(missing)}: give it with --constants")
    return values


def _computed(name: str, compute: Any, values: Mapping[str, Any]) -> Any:
    try:
        return compute(dict(values))
    except Exception as error:  # the author's own function
        reason = f"its heuristic needs more than the constants ({type(error).__name__}: {error})"
        raise ArgumentError(f"no value for {name}: {reason}; give it with --constants") from error


def _source(function: Any, types: Mapping[str, str], values: Mapping[str, Any], divisible: tuple[str, ...]) -> Any:
    from triton.compiler import ASTSource

    signature = {name: types.get(name, "constexpr") for name in function.arg_names}
    numbers = {name: number for number, name in enumerate(function.arg_names)}
    attributes = {(numbers[name],): [["tt.divisibility", 16]] for name in divisible}
    constants = {(numbers[name],): value for name, value in values.items()}
    return ASTSource(fn=function, signature=signature, constexprs=constants, attrs=attributes)


def _lowered(source: Any, backend: Any, options: Any) -> str:
    from triton._C.libtriton import ir

    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    module = source.make_ir(
        backend.target, options, backend.get_codegen_implementation(options), backend.get_module_map(), context
    )
    return str(module)


def message_of(function: Any, error: Exception) -> str:
    """Triton's reason, behind the author's line where it is known, without the lines of source that Triton quotes."""
    lines = [line.strip() for line in str(error).split("\n") if line.strip()]
    reason = lines[-1] if lines else ""
    cause = error.__cause__
    while cause is not None and not reason.strip("^ "):
        reason, cause = str(cause).strip().split("\n")[0], cause.__cause__
    node = getattr(error, "node", None)
    if node is None:
        return f"{type(error).__name__}: {reason}"
    return f"line {_first_line(function.fn) + node.lineno - 1}: {reason}"


def _first_line(function: Any) -> int:
    """The line of its file on which a function's `def` stands, behind the decorators."""
    lines, first = inspect.getsourcelines(function)
    return first + next((n for n, line in enumerate(lines) if line.lstrip().startswith("def ")), 0)


__all__ = [
    "Configuration", "JitParameter", "TritonSourceError", "has_prune", "innermost", "is_triton_kernel",
    "jit_configurations", "jit_parameters", "jit_ttir", "message_of", "without_autotune",
]  # fmt: skip
