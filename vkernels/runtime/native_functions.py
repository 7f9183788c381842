"""Functions of Python in native code: built-in functions with positional arguments, which cost less than `ctypes`."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import Any

METH_FASTCALL = 0x80


class _Method(ctypes.Structure):
    """`PyMethodDef` of Python's C interface."""

    _fields_ = (
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p),
    )  # fmt: skip


class NativeFunction:
    """A C function `(PyObject *self, PyObject *const *arguments, Py_ssize_t count)` at an address.

    It must outlive the functions of Python that `bound` makes, as must the memory that their `self` points to.
    """

    def __init__(self, name: bytes, address: int):
        self._method = _Method(name, address, METH_FASTCALL, None)
        self._new: Any = ctypes.pythonapi["PyCFunction_NewEx"]  # not the shared one, whose types others may set
        self._new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
        self._new.restype = ctypes.py_object

    def bound(self, address: int) -> Callable[..., Any]:
        """A function of Python whose `self` is an integer: the address of what the native code reads."""
        function: Callable[..., Any] = self._new(ctypes.addressof(self._method), address, None)
        return function


def address_in_python(name: str) -> int:
    """The address of a function or object of Python's C interface."""
    return ctypes.addressof(ctypes.c_byte.in_dll(ctypes.pythonapi, name))


_objects: dict[str, Callable[[], bytes]] = {}


def native_key(text: str) -> str:
    """The key of LLVM IR's native code: a SHA-256 of its text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def provide_object(key: str, read: Callable[[], bytes]) -> None:
    """Let `linked` take native code that was compiled before, as an object file, for the IR with this `native_key`."""
    _objects.setdefault(key, read)


def can_link(text: str) -> bool:
    """Whether `linked` can make native code of LLVM IR: it was compiled before, or there is a compiler."""
    return native_key(text) in _objects or importlib.util.find_spec("llvmlite") is not None


def compiled_object(text: str, triple: str = "") -> bytes:
    """LLVM IR as an object file that `provide_object` takes. `triple`: of another machine than this one."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(triple) if triple else llvm.Target.from_default_triple()
    machine = target.create_target_machine(opt=2, reloc="pic", codemodel="small", jit=False)
    with llvm.create_context() as context, llvm.parse_assembly(text, context) as module:
        module.triple, module.data_layout = triple or target.triple, str(machine.target_data)
        return bytes(machine.emit_object(module))


def linked(text: str, imported: Mapping[str, int], exported: Sequence[str], name: str) -> Any:
    """The addresses of exported functions of LLVM IR by name, as native code of this machine, which is never freed:
    threads and functions of Python that run it outlive Python's own clearing up.

    `imported`: addresses of what the IR declares; `name`: of the library, one for each text.
    """
    if (read := _objects.get(native_key(text))) is not None:
        from .objects import load_object

        loaded = load_object(read(), name, imported)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(loaded))
        return loaded
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple().create_target_machine(opt=2, jit=True)
    module = llvm.parse_assembly(text)
    module.verify()
    jit = llvm.create_lljit_compiler(target)
    library = llvm.JITLibraryBuilder().add_ir(module)
    for symbol, address in imported.items():
        library.import_symbol(symbol, address)
    for symbol in exported:
        library.export_symbol(symbol)
    found = library.link(jit, name)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object((jit, found)))
    return found
