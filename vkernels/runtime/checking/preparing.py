"""What a child does before anything is compiled: finds a kernel and lowers it for some targets.

It runs users' files and our own lowering, both of which may hang or fail: that is then the result.
Requests and answers are JSON texts. A pool's jobs carry text and are answered by binaries, so an answer is the `code`
of one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from vkernels.ir.errors import ArgumentError, Error
from vkernels.ir.limits import limits_from
from vkernels.ir.plan_json import plan_from_json

from ..compile.jobs import CompileJob
from ..compile.triton_adapter import Binary, GpuOptions
from ..protocols import KernelLike
from .cases import Source
from .files import is_vk_kernel, kernel_at

PREPARER = f"{__name__}:preparer"

Answer = dict[str, Any]


def preparer() -> Callable[[str, str, GpuOptions], Binary]:
    """What a worker of a pool answers requests with."""
    return lambda text, architecture, options: _as_binary(json.dumps(answer_to(json.loads(text))))


def request_job(request: Mapping[str, Any]) -> CompileJob:
    """A request as a pool's job."""
    return CompileJob(json.dumps(request), "", GpuOptions(1, 1))


def answer_in(binary: Binary) -> Answer:
    """The answer to a request."""
    answer: Answer = json.loads(binary.code)
    return answer


def _as_binary(answer: str) -> Binary:
    return Binary("", "answer", answer.encode(), "", 0, 0, 0, 0, 0, "", "")


def answer_to(request: Mapping[str, Any]) -> Answer:
    """The answer: what was asked for, or, of a mistake that a user can put right, `error` (its class) and `message`."""
    try:
        return ANSWERS[request["kind"]](request)
    except Error as error:
        return _mistake(error)


def _described(request: Mapping[str, Any]) -> Answer:
    """What a kernel declares: its parameters, and a plain Triton kernel's configurations."""
    kernel = kernel_at(Source(**request["source"]))
    if not is_vk_kernel(kernel):
        from ..compile.triton_kernels import jit_configurations, jit_parameters

        return {
            "kind": "jit",
            "parameters": [asdict(parameter) for parameter in jit_parameters(kernel)],
            "configurations": [_plain(asdict(configuration)) for configuration in jit_configurations(kernel)],
        }
    return {"kind": "kernel", "parameters": [_parameter(parameter) for parameter in kernel.parameters]}


def _parameter(parameter: Any) -> Answer:
    import inspect

    optional = parameter.default is not inspect.Parameter.empty
    return {
        "name": parameter.name, "kind": parameter.kind, "dimensions": list(parameter.dimensions),
        "dtypes": list(parameter.dtypes), "optional": optional,
        "default": _plain(parameter.default) if optional else None,
    }  # fmt: skip


def _plain(value: Any) -> Any:
    """As JSON can hold it: what it cannot is shown as text."""
    if isinstance(value, Mapping):
        return {str(name): _plain(entry) for name, entry in value.items()}
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _prepared_kernel(request: Mapping[str, Any]) -> Answer:
    """Launches of a `@vk.kernel` for each target, and the plans; targets for which they are the same share them."""
    from .prepare_kernel import KernelPreparer

    kernel: KernelLike = kernel_at(Source(**request["source"]))
    fixed = request.get("fixed")
    preparer = KernelPreparer(
        kernel, request["shape"], request["dtypes"], request["scalars"], request["constants"],
        None if fixed is None else plan_from_json(fixed), request.get("strides", {}),
    )  # fmt: skip

    def prepare(target: Mapping[str, Any]) -> Answer:
        prepared = preparer.prepare(limits_from(target["limits"]), target.get("tried", ()))
        return {"launches": prepared.number, "planned": asdict(prepared.planned)}

    targets = _each(request["targets"], prepare)
    return {
        "targets": targets, "tensor_bytes": preparer.tensor_bytes,
        "launches": [lowered.launches for lowered in preparer.lowered],
        "own_bytes": [lowered.own_bytes for lowered in preparer.lowered],
    }  # fmt: skip


def _prepared_jit(request: Mapping[str, Any]) -> Answer:
    """The one launch of a plain Triton kernel for each target."""
    from dataclasses import replace

    from ..compile.triton_kernels import jit_configurations, jit_ttir

    kernel = kernel_at(Source(**request["source"]))
    configuration = jit_configurations(kernel)[request["number"]]
    configuration = replace(
        configuration, warps=request["warps"] or configuration.warps, stages=request["stages"] or configuration.stages
    )
    launches: list[list[Answer]] = []
    numbers: dict[str, int] = {}

    def prepare(target: Mapping[str, Any]) -> Answer:
        architecture = target["architecture"]
        if architecture not in numbers:
            text, options = jit_ttir(
                kernel, request["types"], request["constants"], tuple(request["divisible"]), configuration, architecture
            )
            numbers[architecture] = len(launches)
            launches.append([{"name": request["source"]["name"], "text": text, "options": asdict(options)}])
        return {"launches": numbers[architecture]}

    return {"targets": _each(request["targets"], prepare), "launches": launches}


def _each(targets: Sequence[Mapping[str, Any]], prepare: Callable[[Mapping[str, Any]], Answer]) -> list[Answer]:
    """For each target the number of its launches and its plan, or why it has none. What the caller left out is no
    answer."""
    answers: list[Answer] = []
    for target in targets:
        try:
            answers.append(prepare(target))
        except ArgumentError:
            raise
        except Error as error:
            answers.append(_mistake(error))
    return answers


def _mistake(error: Error) -> Answer:
    return {"error": type(error).__name__, "message": str(error)}


ANSWERS: Mapping[str, Callable[[Mapping[str, Any]], Answer]] = {
    "describe": _described, "kernel": _prepared_kernel, "jit": _prepared_jit,
}  # fmt: skip
