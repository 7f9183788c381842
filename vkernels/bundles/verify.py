"""Check a bundle beyond its hashes: whether each object file and plan can be read, and needs nothing unknown."""

from __future__ import annotations

from vkernels.ir.errors import BundleError
from vkernels.runtime.objects import read_object, refuse_other_imports
from vkernels.runtime.objects.load_object import Layout

from .bundle import Bundle, as_bundle_error
from .loaded_code import read_plan
from .manifest import CpuCode

MACHINES = {"sm": 190, "gfx": 224}
"""ELF's numbers of NVIDIA's and of AMD's GPUs."""


def check_contents(bundle: Bundle) -> None:
    """Read every plan and object file of a bundle. Nothing is loaded or run.

    Raises `BundleError` for the first that is not as the manifest states.
    """
    with as_bundle_error():
        for support in bundle.manifest.support:
            read_object(bundle.read(support.object), f"{bundle.path.name}: {support.object}")
        _check_codes(bundle)
    for entry in bundle.manifest.files:
        bundle.read(entry.name)


def _check_codes(bundle: Bundle) -> None:
    for code in bundle.manifest.codes:
        read_plan(bundle, code)
        if code.cpu is not None:
            _check_object(bundle, code.cpu, code.machine)
        for name in code.binaries if code.gpu is not None else ():
            _check_binary(bundle, name, code.machine)


def _check_object(bundle: Bundle, cpu: CpuCode, machine: str) -> None:
    where = f"{bundle.path.name}: {cpu.object}"
    read = read_object(bundle.read(cpu.object), where)
    if read.machine != machine:
        raise BundleError(f"{where}: code for {read.machine}, and the manifest states {machine}")
    refuse_other_imports(read, where)
    Layout.of(read, where)
    if missing := {cpu.prepare, *cpu.launches} - set(read.exported):
        raise BundleError(f"{where}: there is no function {sorted(missing)[0]}")


def _check_binary(bundle: Bundle, name: str, architecture: str) -> None:
    """Whether a binary is an ELF file of the vendor's machine; the driver checks the rest when it loads it."""
    where, content = f"{bundle.path.name}: {name}", bundle.read(name)
    machine = MACHINES["sm" if architecture.startswith("sm_") else "gfx"]
    if content[:4] != b"\x7fELF" or int.from_bytes(content[18:20], "little") != machine:
        raise BundleError(f"{where}: this is no binary for {architecture}")
