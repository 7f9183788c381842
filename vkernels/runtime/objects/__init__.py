"""Load relocatable object files (ELF) as native code of this process, without a compiler or a linker."""

from .elf import ElfObject, read_object
from .imports import ALLOWED, addresses_of, refuse_other_imports
from .load_object import LoadedObject, load_object

__all__ = [
    "ALLOWED", "ElfObject", "LoadedObject", "addresses_of", "load_object", "read_object", "refuse_other_imports",
]  # fmt: skip
