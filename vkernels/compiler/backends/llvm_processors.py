"""Machine code for CPUs that are not this machine's: as text that is read, and as object files for bundles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from vkernels.ir.errors import SetupError
from vkernels.ir.lowering.llvm.lower_to_llvm import LlvmModule
from vkernels.targets.instruction_sets import InstructionSet
from vkernels.targets.processors import AARCH64, PROCESSORS, X86_64

from .llvm import LLVM_LOCK, WHOLE_REGISTERS, assembly_of, object_of, opened, optimise
from .llvm_units import unit_functions, with_sve
from .triton_adapter import mlir_to_llvm_ir

T = TypeVar("T")

TRIPLES = {machine: f"{machine}-unknown-linux-gnu" for machine in (X86_64, AARCH64)}
"""Linux, whose code reads as that of other systems does."""


def assembly_for(lowered: LlvmModule, processor: str) -> str:
    """The assembly of a lowered kernel for a CPU by LLVM's name.

    Raises `SetupError` for a name that is not one of `PROCESSORS`: LLVM would end the process at one it does not know.
    """
    if processor not in PROCESSORS:
        raise SetupError(f"there is no processor {processor!r} to compile for; there are {', '.join(PROCESSORS)}")
    known = PROCESSORS[processor]
    features = WHOLE_REGISTERS if "avx512f" in known.features else ""
    return _emitted(lowered, known.machine, processor, features, assembly_of, known.sve_bytes)


def object_for(lowered: LlvmModule, instructions: InstructionSet) -> bytes:
    """The relocatable object file of a lowered kernel for CPUs with these instructions."""
    whole = [WHOLE_REGISTERS] if "avx512f" in instructions.features else []
    features = ",".join(filter(None, [instructions.llvm_features, *whole]))
    return _emitted(lowered, instructions.machine, instructions.processor, features, object_of)


def _emitted(
    lowered: LlvmModule, machine_name: str, processor: str, features: str, emit: Callable[[Any, Any], T],
    sve_bytes: int = 0,
) -> T:  # fmt: skip
    """What `emit` gives of the optimised module of a lowered kernel, and LLVM's target machine for a CPU. `sve_bytes`:
    of SVE's vectors, where code is for that length alone."""
    import llvmlite.binding as llvm

    llvm_ir = mlir_to_llvm_ir(lowered.text)
    if sve_bytes:
        llvm_ir = with_sve(llvm_ir, sve_bytes)
    triple = TRIPLES[machine_name]
    with LLVM_LOCK:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        try:
            target = llvm.Target.from_triple(triple)
        except RuntimeError as error:
            raise SetupError(f"this LLVM does not compile for {triple}: {error}") from None
        machine = target.create_target_machine(
            cpu=processor, features=features, opt=2, reloc="pic", codemodel="small", jit=False
        )
        with opened(llvm_ir, unit_functions(llvm_ir, machine_name, sve_bytes > 0)) as module:
            module.triple, module.data_layout = triple, str(machine.target_data)
            optimise(module, machine)
            return emit(module, machine)
