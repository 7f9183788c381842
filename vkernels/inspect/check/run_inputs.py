"""Run a kernel's Triton IR in the interpreter on its author's own inputs, to find races and accesses out of bounds.

It runs in a worker process: it executes the author's file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from vkernels.compiler.backends.triton_adapter import inlined_ttir
from vkernels.compiler.backends.triton_kernels import constants_of, jit_configurations, jit_parameters, jit_ttir
from vkernels.compiler.default_session import default_session
from vkernels.compiler.request import CompileRequest
from vkernels.ir.dialect import tt
from vkernels.ir.errors import ArgumentError, CheckError, FileError, IRError, OptionError, UnsupportedError
from vkernels.ir.interpret.ttir import interpret_ttir, run_ttir
from vkernels.ir.interpret.ttir.triton_text import parse_triton
from vkernels.ir.limits import limits_from
from vkernels.runtime.aliasing import same_tensors
from vkernels.runtime.bind_arguments import bind, in_order
from vkernels.runtime.interpret import memory_of

from ..cases import KernelSource, executed, kernel_at
from .argument_values import values_of
from .grid import Grid, grid_of
from .input_file import ENDING, inputs_shown, read_inputs
from .prepare_kernel import target_with

SEED = 0
"""Of the order of programs: another one than they are numbered in."""


def ran_on_inputs(request: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a request: `programs` that ran, and the `finding`, which ended the run, or why it is `unknown`.

    `inputs`: a function of the author's file, or a file of arrays; for the latter `grid`: of a plain Triton kernel.
    Raises `OptionError`, `ArgumentError` and `FileError` for inputs that are not as they should be.
    """
    case = request["case"]
    source = KernelSource(**case["source"])
    kernel = kernel_at(source)
    inputs = request["inputs"]
    made = _of_file(case, request) if inputs.endswith(ENDING) else _made(source, inputs)
    run = _jit_run if case["kind"] == "jit" else _kernel_run
    try:
        programs = run(kernel, made, case, request)
    except CheckError as error:
        return {"finding": str(error)}
    except (UnsupportedError, IRError) as error:
        return {"unknown": str(error)}
    return {"programs": programs}


def _made(source: KernelSource, name: str) -> Any:
    """What the author's function returns."""
    make = getattr(executed(source.file), name, None) if source.file else None
    if not callable(make):
        raise OptionError(f"--inputs: {source.shown} has no function {name} beside it")
    try:
        return make()
    except Exception as error:  # the author's own code
        raise FileError(f"{source.file}: {name}() raised {type(error).__name__}: {error}") from error


def _of_file(case: Mapping[str, Any], request: Mapping[str, Any]) -> Any:
    """What a file of arrays says, as a function of the author's would return it."""
    arguments = read_inputs(Path(request["inputs"]))
    if case["kind"] != "jit":
        given = {name: value for name, value in case["constants"].items() if name not in case["left_open"]}
        return {**given, **arguments}
    if unknown := [name for name in arguments if name not in case["types"]]:
        raise ArgumentError(
            f"{request['inputs']}: `{unknown[0]}` is no argument of a launch; these are {', '.join(case['types'])}"
        )
    if (grid := request.get("grid")) is None:
        raise OptionError("--inputs: a plain Triton kernel needs its grid, too: --grid 'cdiv(count, BLOCK)'")
    return arguments, lambda known: grid_of(grid, known)


def _jit_run(kernel: Any, made: Any, case: Mapping[str, Any], request: Mapping[str, Any]) -> int:
    """Run a plain Triton kernel with one of its configurations; return how many programs it has."""
    name, types, architecture = inputs_shown(request["inputs"]), case["types"], request["architecture"]
    if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], Mapping)):
        raise ArgumentError(f"{name} must return the arguments by name, and the grid: (dict, grid)")
    arguments, grid = made
    configuration = jit_configurations(kernel)[case["number"]]
    configuration = replace(
        configuration, warps=case["warps"] or configuration.warps, stages=case["stages"] or configuration.stages
    )
    constants = constants_of(kernel, types, {**case["constants"], **configuration.constants})
    programs = _grid(grid, {**arguments, **constants}, name)
    text, _ = jit_ttir(kernel, types, case["constants"], tuple(case["divisible"]), configuration, architecture)
    module = parse_triton(inlined_ttir(text, architecture, locations=True), _is_own)
    names = [parameter.name for parameter in jit_parameters(kernel) if parameter.name in types]
    if missing := [each for each in names if each not in arguments]:
        raise ArgumentError(f"{name} gives no value for {', '.join(missing)}")
    values = values_of({each: arguments[each] for each in names}, _types(module))
    run_ttir(module, programs, values, order=SEED, same_lane_is_ordered=True, names=names)
    return int(np.prod(programs))


def _is_own(file: str) -> bool:
    """Whether a file is not of Triton's own language."""
    return f"{os.sep}triton{os.sep}language{os.sep}" not in file


def _grid(grid: Any, known: Mapping[str, Any], name: str) -> Grid:
    found = grid(known) if callable(grid) else grid
    sizes = (found,) if isinstance(found, int) else tuple(found) if isinstance(found, Sequence) else ()
    if not 1 <= len(sizes) <= 3 or not all(isinstance(size, int) and size > 0 for size in sizes):
        raise ArgumentError(f"{name}: expected a grid of one to three numbers of programs, got {found!r}")
    return sizes


def _types(module: ModuleOp) -> Sequence[Any]:
    (function,) = (op for op in module.ops if isinstance(op, tt.FuncOp))
    return tuple(function.body.blocks[0].arg_types)


def _kernel_run(kernel: Any, made: Any, case: Mapping[str, Any], request: Mapping[str, Any]) -> int:
    """Run a `@vk.kernel` as it is planned for a GPU; return how many programs its launches have."""
    if not isinstance(made, Mapping):
        raise ArgumentError(f"{inputs_shown(request['inputs'])} must return the arguments by name: a dict")
    values = in_order(kernel, (), made)
    arguments = bind(kernel, values)
    target = target_with(limits_from(request["limits"]), request["architecture"])
    compilation = default_session().compile(CompileRequest(kernel, arguments, target))
    ir = compilation.ir
    compilation = compilation.given(arguments, same_tensors(ir.kernel, ir.written, arguments.tensors))
    plan = compilation.plans.author_plan() or next(compilation.plans.ranked()).plan
    lowered = compilation.lower(plan).lowered
    parameters = zip(kernel.parameters, values, strict=True)
    arrays = {each.name: memory_of(value) for each, value in parameters if each.kind == "tensor"}
    interpret_ttir(lowered, {**arrays, **arguments.scalars}, arguments.sizes, order=SEED)
    return sum(lowered.prepare(arguments.sizes).programs)
