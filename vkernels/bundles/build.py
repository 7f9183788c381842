"""Build bundles: compile kernels for sizes and targets, and describe what was compiled."""

from __future__ import annotations

import hashlib
import inspect
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from vkernels.compiler.arguments import CPU
from vkernels.compiler.session import CompilerSession
from vkernels.ir.errors import ArgumentError, Error, OptionError
from vkernels.ir.plan_json import plan_to_json
from vkernels.ir.text import print_module
from vkernels.ir.transforms.merge_tensors import works_in_place
from vkernels.runtime.gpu.launch_ir import LAUNCH
from vkernels.runtime.native_functions import compiled_object, native_key
from vkernels.runtime.pool_ir import pool_ir
from vkernels.runtime.pool_wait_ir import FUTEX

from . import manifest as records
from .build_cpu import CpuPiece, CpuTarget, cpu_pieces, cpu_target
from .build_gpu import GpuPiece, GpuTarget, gpu_pieces, gpu_target
from .build_request import BuildOptions, BuildRequest
from .bundle import content_name
from .identify import source_hash
from .provenance import provenance_now


@dataclass
class Draft:
    """A bundle before it is written: what its manifest will say, and its files by name."""

    kernels: dict[str, records.Kernel] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)

    def add(self, folder: str, content: bytes, ending: str) -> str:
        """Add a file; its name follows from its content."""
        name = content_name(folder, content, ending)
        self.files[name] = content
        return name


def bundled(
    requests: Iterable[BuildRequest], options: BuildOptions, session: CompilerSession,
    progress: Callable[[str], object] = lambda step: None,
) -> tuple[records.Manifest, dict[str, bytes]]:  # fmt: skip
    """Compile kernels for targets. Returns the manifest and the files of a bundle, for `write_bundle`.

    `progress`: is told each step. Raises `OptionError` for targets that do not exist and kernels of the same name, and
    what compiling raises.
    """
    targets = [target_of(name) for name in dict.fromkeys(options.targets)]
    draft = Draft()
    for request in requests:
        variant = _variant(draft, request, targets, options, session, progress)
        _add_variant(draft, request, variant, options)
    machines = {target.machine for target in targets if isinstance(target, CpuTarget)}
    support = [*_support(draft, sorted(machines))]
    if len(targets) > sum(isinstance(target, CpuTarget) for target in targets):
        support.append(_launching(draft))
    return records.Manifest(provenance_now(options.command), (*draft.kernels.values(),), (*support,), ()), draft.files


def _variant(
    draft: Draft, request: BuildRequest, targets: Sequence[CpuTarget | GpuTarget], options: BuildOptions,
    session: CompilerSession, progress: Callable[[str], object],
) -> records.Variant:  # fmt: skip
    ir = session.variants(request.kernel).ir(request.kernel, request.signature)
    tensors = [name for name, _ in request.signature.tensors]
    pairs = tuple(
        (written, other)
        for written in ir.written
        for other in tensors
        if other != written and _works(lambda: works_in_place(ir.kernel, written, other))  # noqa: B023 (called at once)
    )
    codes: list[records.Code] = []
    constants = dict(request.signature.constants)
    for target in targets:
        if request.for_gpus is not None and request.for_gpus != isinstance(target, GpuTarget):
            continue
        for number, shape in enumerate(request.shapes):
            sizes = " ".join(f"{name}={size}" for name, size in shape.items())
            progress(f"{request.kernel.name} {sizes} for {target.name}")
            strides = request.strides[number] if request.strides else {}
            is_last = number == len(request.shapes) - 1
            same = [request.same[number] if request.same else ()]
            same += [((other, written),) for written, other in pairs] if options.in_place else []
            if isinstance(target, GpuTarget):
                of_gpu = gpu_pieces(request, shape, strides, target, options, session, same, is_last)
                made = [(_gpu_code(draft, piece, target, shape), piece.tuned) for piece in of_gpu]
            else:
                of_cpu = cpu_pieces(request, shape, strides, target, options, session, same, is_last)
                made = [(_code(draft, piece, target, shape), piece.tuned) for piece in of_cpu]
            for code, tuned in made:
                if code not in codes:
                    codes.append(code)
                constants |= tuned
    digest = hashlib.sha256(print_module(ir.module).encode()).hexdigest()
    return records.Variant(
        digest, request.signature.tensors, request.signature.scalars, (*constants.items(),), ir.written, pairs,
        (*codes,),
    )  # fmt: skip


def _works(check: Callable[[], bool]) -> bool:
    try:
        return check()
    except Error:
        return False


def _code(draft: Draft, piece: CpuPiece, target: CpuTarget, shape: Mapping[str, int]) -> records.Code:
    plan = draft.add("plans", msgspec.json.encode(plan_to_json(piece.plan)), "json")
    cpu = msgspec.structs.replace(piece.code, object=draft.add(f"cpu/{target.machine}", piece.object, "o"))
    shape = shape if piece.role == "shape" else {}
    return records.Code(
        target.name, target.machine, target.features, piece.role, dict(shape), target.limits_shown, plan, piece.rung,
        piece.assumes, cpu, same=piece.same,
    )  # fmt: skip


def _gpu_code(draft: Draft, piece: GpuPiece, target: GpuTarget, shape: Mapping[str, int]) -> records.Code:
    plan = draft.add("plans", msgspec.json.encode(plan_to_json(piece.plan)), "json")
    ending = "cubin" if target.architecture.startswith("sm_") else "hsaco"
    names = {
        name: draft.add(f"gpu/{target.architecture}", content, ending) for name, content in piece.binaries.items()
    }  # fmt: skip
    launches = tuple(msgspec.structs.replace(each, binary=names[each.binary]) for each in piece.code.launches)
    shape = shape if piece.role == "shape" else {}
    return records.Code(
        target.name, target.architecture, (), piece.role, dict(shape), target.limits_shown, plan, piece.rung,
        piece.assumes, gpu=msgspec.structs.replace(piece.code, launches=launches), same=piece.same,
    )  # fmt: skip


def target_of(name: str) -> CpuTarget | GpuTarget:
    """The target of a name: of a CPU, of a GPU or of a slice of one. Raises `OptionError` for other names."""
    return cpu_target(name) if name.partition(":")[0] == CPU else gpu_target(name)


def _add_variant(draft: Draft, request: BuildRequest, variant: records.Variant, options: BuildOptions) -> None:
    kernel = request.kernel
    parameters = tuple(_parameter(each, each.name in request.left_open) for each in kernel.parameters)
    is_deterministic = kernel.deterministic or options.deterministic
    made = records.Kernel(kernel.name, request.reference, source_hash(kernel), is_deterministic, parameters, ())
    known = draft.kernels.get(kernel.name)
    if known is not None and msgspec.structs.replace(known, variants=()) != made:  # another kernel of this name
        made = msgspec.structs.replace(made, name=qualified(request.reference))
        known = draft.kernels.get(made.name)
        if known is not None and msgspec.structs.replace(known, variants=()) != made:
            raise OptionError(f"two kernels are called {request.reference}: a bundle cannot tell them apart")
    known = known or made
    draft.kernels[known.name] = msgspec.structs.replace(
        known, variants=records.merged_variants([*known.variants, variant])
    )


def qualified(reference: str) -> str:
    """A kernel's name with that of its module or file: `norms.forward`."""
    where, _, name = reference.rpartition(":")
    return f"{where.removesuffix('.py').replace('/', '.').rpartition('.')[2]}.{name}"


def _parameter(parameter: Any, is_open: bool) -> records.Parameter:
    has_default = parameter.default is not inspect.Parameter.empty
    default = parameter.default if has_default else None
    if not isinstance(default, bool | int | float | str | None):
        raise ArgumentError(f"the default of `{parameter.name}` cannot be kept in a bundle: {default!r}")
    return records.Parameter(
        parameter.name, parameter.kind, tuple(parameter.dimensions), tuple(parameter.dtypes), has_default, default,
        is_open and parameter.tunable is not None,
    )  # fmt: skip


def _support(draft: Draft, machines: Iterable[str]) -> Iterable[records.Support]:
    """The thread pool's native code for each machine."""
    for machine in machines:
        if machine in FUTEX:
            text = pool_ir(machine)
            triple = f"{machine}-unknown-linux-gnu" if machine != platform.machine() else ""
            name = draft.add(f"runtime/{machine}", compiled_object(text, triple), "o")
            yield records.Support(native_key(text), machine, name)


def _launching(draft: Draft) -> records.Support:
    """The native code by which this machine's calls start launches on GPUs."""
    name = draft.add(f"runtime/{platform.machine()}", compiled_object(LAUNCH), "o")
    return records.Support(native_key(LAUNCH), platform.machine(), name)
