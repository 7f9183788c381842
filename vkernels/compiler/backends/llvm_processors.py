"""Machine code for CPUs that are not this machine's, as text: it is read, and never run."""

from __future__ import annotations

from vkernels.ir.errors import SetupError
from vkernels.ir.lowering.llvm.lower_to_llvm import LlvmModule
from vkernels.targets.processors import AARCH64, PROCESSORS, X86_64

from .llvm import LLVM_LOCK, WHOLE_REGISTERS, opened, optimise
from .llvm_units import unit_functions
from .triton_adapter import mlir_to_llvm_ir

TRIPLES = {machine: f"{machine}-unknown-linux-gnu" for machine in (X86_64, AARCH64)}
"""Linux, whose code reads as that of other systems does."""


def assembly_for(lowered: LlvmModule, processor: str) -> str:
    """The assembly of a lowered kernel for a CPU by LLVM's name.

    Raises `SetupError` for a name that is not one of `PROCESSORS`: LLVM would end the process at one it does not know.
    """
    import llvmlite.binding as llvm

    if processor not in PROCESSORS:
        raise SetupError(f"there is no processor {processor!r} to compile for; there are {', '.join(PROCESSORS)}")
    llvm_ir = mlir_to_llvm_ir(lowered.text)
    known = PROCESSORS[processor]
    triple = TRIPLES[known.machine]
    with LLVM_LOCK:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        features = WHOLE_REGISTERS if "avx512f" in known.features else ""
        try:
            target = llvm.Target.from_triple(triple)
        except RuntimeError as error:
            raise SetupError(f"this LLVM does not compile for {triple}: {error}") from None
        machine = target.create_target_machine(
            cpu=processor, features=features, opt=2, reloc="pic", codemodel="small", jit=False
        )
        with opened(llvm_ir, unit_functions(llvm_ir, known.machine)) as module:
            module.triple, module.data_layout = triple, str(machine.target_data)
            optimise(module, machine)
            return str(machine.emit_assembly(module))
