"""Types of library functions for type checkers: the text of `vkernels/library/__init__.pyi`, made from annotations.

A function takes torch tensors and returns tensors, or takes NumPy arrays and returns these, or takes arrays of other
libraries. Annotations such as `Float[Array, "M N"]` say so only to the checks of a call.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import vkernels.library as library

HEADER = '''"""Types of library functions. Made by `pytest tests/library/test_stub.py --update-goldens`; do not edit."""

from typing import Any, Protocol, TypeAlias, overload

from numpy.typing import NDArray
from torch import Tensor

{imports}

class _SupportsDlpack(Protocol):
    def __dlpack__(self, *, stream: Any = ...) -> Any: ...
    def __dlpack_device__(self) -> tuple[Any, Any]: ...

class _SupportsArrayInterface(Protocol):
    @property
    def __array_interface__(self) -> dict[str, Any]: ...

_NumPy: TypeAlias = NDArray[Any]
_Foreign: TypeAlias = _SupportsDlpack | _SupportsArrayInterface

__all__ = {names}

'''
_TENSOR = re.compile(r"\b[A-Z]\w*\[Array, *(?:\"[^\"]*\"|'[^']*')(?:, *(?:\"[^\"]*\"|'[^']*'))*\]")
FOLDER = Path(library.__file__).parent
_NAME = re.compile(r"\b[A-Z]\w*\b")
KINDS = {"_NumPy": "_NumPy", "Tensor": "Tensor", "_Foreign": "Any"}
"""What a function is given, and what it returns then. NumPy stands first: where torch is not installed, `Tensor` is
anything to type checkers, and the first overload that fits is taken."""


def stub() -> str:
    """The text of the stub file."""
    functions = {name: getattr(library, name) for name in library.__all__}
    bodies = [_overloads(name, function) for name, function in functions.items()]
    names = "[\n" + "".join(f'    "{name}",\n' for name in functions) + "]"
    return HEADER.format(imports=_imports(functions), names=names) + "\n".join(bodies) + "\n"


def _imports(functions: dict[str, Callable[..., Any]]) -> str:
    found: dict[str, set[str]] = {}
    for function in functions.values():
        for parameter in inspect.signature(function).parameters.values():
            for name in _NAME.findall(_TENSOR.sub("", str(parameter.annotation))):
                if name != "None":
                    found.setdefault(_home(name), set()).add(name)
    return "\n".join(f"from .{home} import {', '.join(sorted(names))}" for home, names in sorted(found.items()))


def _home(name: str) -> str:
    """The module of the library that defines a name."""
    (home,) = (file.stem for file in FOLDER.glob("*.py") if re.search(rf"^{name}\b[^=\n]*=", file.read_text(), re.M))
    return home


def _overloads(name: str, function: Callable[..., Any]) -> str:
    return "\n".join(f"@overload\n{_signature(name, function, given, made)}" for given, made in KINDS.items())


def _signature(name: str, function: Callable[..., Any], given: str, made: str) -> str:
    signature = inspect.signature(function)
    parts: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        default = "" if parameter.default is parameter.empty else " = ..."
        parts.append(f"{parameter.name}: {_given(str(parameter.annotation), given)}{default}")
    returned = str(signature.return_annotation).replace("Array", made)
    return f"def {name}(\n" + "".join(f"    {part},\n" for part in parts) + f") -> {returned}: ..."


def _given(annotation: str, given: str) -> str:
    """What a parameter accepts; of several shapes of a tensor, the type once."""
    types = [part.strip() for part in _TENSOR.sub(given, annotation).split(" | ")]
    return " | ".join(dict.fromkeys(types))
