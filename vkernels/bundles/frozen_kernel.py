"""A kernel of a bundle, as the runtime sees kernels: without its author's text."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import getitem
from typing import TYPE_CHECKING, Any, Self

from vkernels.compiler.protocols import Constant, Signature
from vkernels.ir.errors import Error, NotInBundleError

from .manifest import Kernel, Parameter

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from vkernels.ir.limits import Limits
    from vkernels.ir.plan import Plan


@dataclass(frozen=True)
class TunedConstant:
    """A constant whose value is that of the code that a call runs, where the call does not give it."""

    values: tuple[Constant, ...]

    def holds(self, known: Mapping[str, Any]) -> bool:
        """Whether its author's constraint holds: it did when the bundle was built."""
        return True


@dataclass(frozen=True)
class FrozenParameter:
    """A parameter of a kernel in a bundle; see `ParameterLike`."""

    name: str
    kind: str
    dimensions: tuple[str | int, ...]
    dtypes: tuple[str, ...]
    default: Any
    tunable: TunedConstant | None

    @staticmethod
    def of(parameter: Parameter) -> FrozenParameter:
        """The parameter that a manifest describes."""
        default = parameter.default if parameter.has_default else inspect.Parameter.empty
        tunable = TunedConstant((parameter.default,)) if parameter.tuned else None
        return FrozenParameter(
            parameter.name, parameter.kind, parameter.dimensions, parameter.dtypes, default, tunable
        )  # fmt: skip


class FrozenKernel:
    """A kernel whose code is in a bundle. Call it as the kernel that it was built from."""

    pin = budget = None

    def __init__(self, record: Kernel):
        self.record, self.name, self.deterministic = record, record.name, record.deterministic
        self.parameters = tuple(map(FrozenParameter.of, record.parameters))
        self._launcher: Callable[..., None] | None = None
        self._bundle: Any = None

    def use(self, launcher: Callable[..., None], bundle: Any = None) -> None:
        """Let calls go through this launcher. `bundle`: whose kernel of this name this is, by which it is pickled."""
        self._launcher, self._bundle = launcher, bundle

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> Any:
        return getitem, (self._bundle, self.name)

    def __repr__(self) -> str:
        return f"<frozen kernel {self.name}({', '.join(each.name for each in self.parameters)})>"

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Run the kernel on tensors, scalars and constants; it stores results into tensors.

        Raises `NotInBundleError` for calls that the bundle has no code for.
        """
        assert self._launcher is not None, "a loaded bundle gives each kernel its launcher"
        try:
            self._launcher(*args, **kwargs)
        except Error as error:
            raise error.shortened() from error.__cause__

    def build(self, signature: Signature) -> ModuleOp:
        """There is nothing to build it from. Raises `NotInBundleError`."""
        raise NotInBundleError(f"{self.name}: a bundle has no IR of its kernels")

    def plan_for(self, sizes: Mapping[str, int], dtypes: Mapping[str, str], limits: Limits) -> Plan | None:
        """Its plans are in the bundle."""
        return None


def described(shape: Mapping[str, int] | Sequence[tuple[str, object]]) -> str:
    """Names and values for people: `M=64, N=1000`."""
    pairs = shape.items() if isinstance(shape, Mapping) else shape
    return ", ".join(f"{name}={value}" for name, value in pairs)
