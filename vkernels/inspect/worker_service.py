"""The service of worker processes: find a kernel and lower it for some targets, before anything is compiled.

It runs users' files and our own lowering, which may hang or fail: that is then the result. Requests and answers are
JSON.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from vkernels.compiler.backends.triton_adapter import inlined_ttir
from vkernels.compiler.backends.triton_kernels import (
    Configuration,
    TritonSourceError,
    has_prune,
    jit_configurations,
    jit_parameters,
    jit_ttir,
)
from vkernels.compiler.backends.triton_launches import compile_launch
from vkernels.compiler.protocols import KernelLike
from vkernels.compiler.workers.frames import Handler, Send
from vkernels.ir.errors import ArgumentError, Error
from vkernels.ir.limits import limits_from
from vkernels.ir.plan_json import plan_from_json

from .cases import KernelSource, is_vk_kernel, kernel_at

Answer = dict[str, Any]


def serve(send: Send) -> Handler:
    """Answer requests; see `vkernels.compiler.workers.worker_main`."""
    return lambda request: json.dumps(answer_to(json.loads(request))).encode()


def answer_to(request: Mapping[str, Any]) -> Answer:
    """The answer; for a user's mistake its class as `error`, and `message`; for a bug of ours its traceback."""
    try:
        return ANSWERS[request["kind"]](request)
    except Error as error:
        return _mistake(error)
    except Exception:
        return {"bug": traceback.format_exc()}


def _described(request: Mapping[str, Any]) -> Answer:
    kernel = kernel_at(KernelSource(**request["source"]))
    if not is_vk_kernel(kernel):
        return {
            "kind": "jit",
            "parameters": [asdict(parameter) for parameter in jit_parameters(kernel)],
            "configurations": [_plain(asdict(configuration)) for configuration in jit_configurations(kernel)],
            "has_prune": has_prune(kernel),
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
    if isinstance(value, Mapping):
        return {str(name): _plain(entry) for name, entry in value.items()}
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _prepared_kernel(request: Mapping[str, Any]) -> Answer:
    from .check.prepare_kernel import KernelPreparer

    kernel: KernelLike = kernel_at(KernelSource(**request["source"]))
    fixed = request.get("fixed")
    preparer = KernelPreparer(
        kernel, request["shape"], request["dtypes"], request["scalars"], request["constants"],
        None if fixed is None else plan_from_json(fixed), request.get("strides", {}),
        request.get("deterministic", False),
    )  # fmt: skip

    def prepare(target: Mapping[str, Any]) -> Answer:
        limits = limits_from(target["limits"])
        if "judge" in target:
            present = target.get("present")
            judged, near, spilling = (
                [plan_from_json(plan) for plan in target[name]] for name in ("judged", "near", "spilling")
            )
            present = None if present is None else plan_from_json(present)
            plans = (
                preparer.near(limits, near, judged, spilling)
                if near
                else preparer.to_judge(limits, target["judge"], present, target["of_use"])
            )
            return {"judge": [_to_judge(each) for each in plans]}
        prepared = preparer.prepare(limits, target.get("tried", ()))
        return {"launches": prepared.number, "planned": asdict(prepared.planned)}

    targets = _each(request["targets"], prepare)
    return {
        "targets": targets, "tensor_bytes": preparer.tensor_bytes,
        "launches": [lowered.launches for lowered in preparer.lowered],
        "own_bytes": [lowered.own_bytes for lowered in preparer.lowered],
    }  # fmt: skip


def _to_judge(each: Any) -> Answer:
    if isinstance(each, Error):
        return _mistake(each)
    prepared = each.prepared
    return {"launches": prepared.number, "planned": asdict(prepared.planned), "unseen": asdict(each.unseen)}


def _prepared_jit(request: Mapping[str, Any]) -> Answer:
    kernel = kernel_at(KernelSource(**request["source"]))
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


def _lowered_configuration(request: Mapping[str, Any]) -> Answer:
    """The TTIR of a configuration of a plain Triton kernel for an architecture, or why there is none."""
    kernel = kernel_at(KernelSource(**request["source"]))
    names = [parameter.name for parameter in jit_parameters(kernel) if parameter.name in request["types"]]

    def lower(given: Mapping[str, Any]) -> Answer:
        text, options = jit_ttir(
            kernel, request["types"], request["constants"], tuple(request["divisible"]), Configuration(**given),
            request["architecture"],
        )  # fmt: skip
        return {"text": inlined_ttir(text, request["architecture"]), "options": asdict(options), "parameters": names}

    return {"lowered": _each([request["configuration"]], lower)[0]}


def _compiled_launch(request: Mapping[str, Any]) -> Answer:
    """Compile a launch of a plain Triton kernel into Triton's cache."""
    try:
        return {"compiled": compile_launch(kernel_at(KernelSource(**request["source"])), request["launch"])}
    except TritonSourceError as error:
        return {"compiled": False, "refused": str(error)}


def _explained(request: Mapping[str, Any]) -> Answer:
    from .explain.analyze import Question, find

    question = Question(
        kernel_at(KernelSource(**request["source"])), request["shape"], request["dtypes"], request["scalars"],
        request["constants"], limits_from(request["limits"]), request["only_texts"], tuple(request["left_open"]),
        tuple(request.get("tried", ())), request.get("strides", {}), request.get("deterministic", False),
        request.get("architecture", "gpu"), request.get("judge", 1),
        None if request.get("plan") is None else plan_from_json(request["plan"]),
        {text: limits_from(limits) for text, limits in request.get("supposed", {}).items()},
    )  # fmt: skip
    return asdict(find(question))


def _on_inputs(request: Mapping[str, Any]) -> Answer:
    from .check.run_inputs import ran_on_inputs

    return ran_on_inputs(request)


def _each(targets: Sequence[Mapping[str, Any]], prepare: Callable[[Mapping[str, Any]], Answer]) -> list[Answer]:
    """The answer for each target, or its error. A missing argument is an error of the whole request."""
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
    "describe": _described, "kernel": _prepared_kernel, "jit": _prepared_jit, "explain": _explained,
    "configuration": _lowered_configuration, "launch": _compiled_launch, "inputs": _on_inputs,
}  # fmt: skip
