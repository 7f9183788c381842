"""Check a bundle beyond its hashes: whether each object file and plan can be read, and needs nothing unknown."""

from __future__ import annotations

from vkernels.ir.errors import BundleError
from vkernels.runtime.objects import read_object, refuse_other_imports
from vkernels.runtime.objects.load_object import Layout

from .bundle import Bundle
from .loaded_code import read_plan


def check_contents(bundle: Bundle) -> None:
    """Read every plan and object file of a bundle. Nothing is loaded or run.

    Raises `BundleError` or `FileError` for the first that is not as the manifest states.
    """
    for support in bundle.manifest.support:
        read_object(bundle.read(support.object), f"{bundle.path.name}: {support.object}")
    for kernel in bundle.manifest.kernels:
        for code in (code for variant in kernel.variants for code in variant.codes):
            read_plan(bundle, code)
            where = f"{bundle.path.name}: {code.cpu.object}"
            read = read_object(bundle.read(code.cpu.object), where)
            if read.machine != code.machine:
                raise BundleError(f"{where}: code for {read.machine}, and the manifest states {code.machine}")
            refuse_other_imports(read, where)
            Layout.of(read, where)
            if missing := {code.cpu.prepare, *code.cpu.launches} - set(read.exported):
                raise BundleError(f"{where}: there is no function {sorted(missing)[0]}")
    for entry in bundle.manifest.files:
        bundle.read(entry.name)
