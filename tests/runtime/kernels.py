"""Kernels without a front end: parameters and IR text, as the runtime asks for them."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from vkernels.compiler.protocols import Signature
from vkernels.ir.budget import Budget
from vkernels.ir.limits import Limits
from vkernels.ir.pin import Pin
from vkernels.ir.plan import Plan
from vkernels.ir.text import parse_module

FLOATS = ("float64", "float32", "float16", "bfloat16")
INTEGERS = ("int8", "int16", "int32", "int64")


@dataclass(frozen=True)
class Parameter:
    name: str
    kind: str = "tensor"
    dimensions: tuple[str | int, ...] = ()
    dtypes: tuple[str, ...] = FLOATS
    default: Any = field(default_factory=lambda: inspect.Parameter.empty)
    """Made, for Python 3.11.2 takes a default that is `empty` for none."""


@dataclass(eq=False)
class TextKernel:
    """A kernel whose IR is text, in which `FLOAT` is its first tensor's dtype and `SCALAR` its first scalar's kind."""

    name: str
    parameters: tuple[Parameter, ...]
    text: str = ""
    pin: Pin | None = None
    budget: Budget | None = None
    plan: Callable[[Mapping[str, int]], Plan | None] = lambda sizes: None
    deterministic: bool = False
    builds: list[Signature] = field(default_factory=list)

    def build(self, signature: Signature) -> ModuleOp:
        self.builds.append(signature)
        short = {"float64": "f64", "float32": "f32", "int64": "i64", "int32": "i32"}
        text = self.text.replace("FLOAT", short[signature.tensors[0][1]])
        return parse_module(text.replace("SCALAR", signature.scalars[0][1] if signature.scalars else ""))

    def plan_for(self, sizes: Mapping[str, int], dtypes: Mapping[str, str], limits: Limits) -> Plan | None:
        return self.plan(sizes)
