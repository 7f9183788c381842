"""`@vk.kernel` and `@vk.function`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, overload

from vkernels.ir.budget import Budget
from vkernels.ir.errors import OptionError
from vkernels.ir.plan import Plan

from .annotations import Parameter, parse_parameters

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from vkernels.ir.limits import Limits
    from vkernels.ir.pin import Pin
    from vkernels.runtime.ahead import Ahead
    from vkernels.runtime.launch import Launcher
    from vkernels.runtime.protocols import Signature

    from .frontend.source import Source

Planner = Callable[[Mapping[str, int], Mapping[str, str], "Limits"], Plan]
"""A hand-written plan: from sizes by name, dtypes by tensor, and the target's limits."""

Drawer = Callable[[Mapping[str, int], Mapping[str, str], Any], Mapping[str, Any]]
"""Makes arguments to tune with: from sizes by name, dtypes by tensor, and a NumPy generator of random numbers."""

F = TypeVar("F", bound=Callable[..., Any])
D = TypeVar("D", bound=Drawer)


@dataclass(frozen=True)
class Options:
    """What `@vk.kernel` can be given.

    `plan`: a plan, a function that makes one, or a `Pin`: parts of one, which hold whatever else is chosen. `budget`:
    what no plan may exceed. `checked`: calls are interpreted, slowly, and report indices that
    are out of range with line and value.
    """

    plan: Plan | Planner | Pin | None = None
    budget: Budget | None = None
    checked: bool = False


class Kernel:
    """A kernel as its author wrote it: call it with tensors (torch's or NumPy's), scalars and constants.

    `name`, `function`, `parameters`, `options`, `pin`, `budget`: as declared. `source`: its text, read
    when first needed.
    """

    def __init__(self, function: Callable[..., Any], options: Options = Options()):
        functools.update_wrapper(self, function)
        self.name: str = function.__name__
        self.function = function
        self.options = options
        self.parameters: tuple[Parameter, ...] = parse_parameters(function)
        self.pin, self._planner = _pin_and_planner(options.plan)
        self.budget = options.budget
        self._inputs: Drawer | None = None

    def __repr__(self) -> str:
        return f"<vk.kernel {self.name}({', '.join(p.name for p in self.parameters)})>"

    @functools.cached_property
    def source(self) -> Source:
        """The kernel's text. Raises `UnsupportedError` where Python does not have it."""
        from .frontend.source import read_source

        return read_source(self.function)

    @functools.cached_property
    def sizes(self) -> tuple[str, ...]:
        """The names of the sizes that the parameters declare, in order."""
        named = (d for p in self.parameters for d in p.dimensions if isinstance(d, str) and d != "_")
        return tuple(dict.fromkeys(named))

    def signature(self, **given: Any) -> Signature:
        """A signature: a dtype or its name for a tensor, float, int or bool for a scalar, a constant's value."""
        from .signature import make_signature

        return make_signature(self, given)

    def build(self, signature: Signature) -> ModuleOp:
        """A module with one `vk.kernel`, new at each call. Raises the author's mistakes (`SourceError`)."""
        from .frontend.build import build_kernel

        return build_kernel(self, signature)

    def plan(self, planner: F) -> F:
        """Attach a hand-written plan function: `@kernel.plan` above `def plan(sizes, dtypes, limits) -> Plan`."""
        self._planner = planner
        return planner

    def plan_for(self, sizes: Mapping[str, int], dtypes: Mapping[str, str], limits: Limits) -> Plan | None:
        """The plan that the author gives for sizes by name and dtypes by tensor; None where there is none."""
        planner = self._planner
        return planner if planner is None or isinstance(planner, Plan) else planner(sizes, dtypes, limits)

    def inputs(self, drawer: D) -> D:
        """Attach what tuning calls the kernel with: `@kernel.inputs` above `def inputs(sizes, dtypes, random) -> dict`.

        It gives arrays and scalars by name, integer tensors at least: which indices are valid, nobody else knows.
        """
        self._inputs = drawer
        return drawer

    def inputs_for(self, sizes: Mapping[str, int], dtypes: Mapping[str, str], random: Any) -> Mapping[str, Any]:
        """What the author's `inputs` gives; nothing where there is none."""
        return {} if self._inputs is None else self._inputs(sizes, dtypes, random)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Run the kernel on tensors, scalars and constants, positional or by name; results go into its tensors."""
        if self.options.checked:
            self.interpret(*args, **kwargs)
        else:
            self._launcher(*args, **kwargs)

    @functools.cached_property
    def _launcher(self) -> Launcher:
        from vkernels.runtime.launch import launcher_of

        return launcher_of(self)

    def interpret(
        self, *args: Any, on_print: Callable[[str], object] = print, trace: bool = False, **kwargs: Any
    ) -> None:
        """Run the kernel's IR in NumPy, slowly and plainly: with bounds checks, `vk.print` and `vk.device_assert`.

        `on_print` takes each line that `vk.print` shows; `trace` lets Python's debugger stop at the author's lines.
        """
        from vkernels.runtime.launch import interpret

        interpret(self, args, kwargs, on_print=on_print, trace=trace)

    def compile(self, *args: Any, **kwargs: Any) -> Any:
        """Compile without running: for arguments like these, or ahead, for shapes and devices that are not here.

        `compile(x, out)` gives what that call would run, with the text of every stage.
        `compile(shapes={"M": 4096, "N": 1024}, targets=["h100-sxm5-80:1g.10gb", "cpu"], dtype="float16")` gives an
        `Ahead` for each shape on each target: plan, rung, code, what its binaries take. `shapes`: sizes by name, or
        several such; `targets`: as `vk targets` lists them, slices too. Parameters are given as `signature` takes them,
        by name; `dtype` is that of all tensors which can have it, others have what they usually have.
        Raises what calls raise, and `OptionError` for targets and sizes that do not exist.
        """
        names = {parameter.name for parameter in self.parameters}
        if not args and {"shapes", "targets"} <= kwargs.keys() - names:
            return self._compile_ahead(**kwargs)
        from vkernels.runtime.launch import compile as compile_

        return compile_(self, args, kwargs)

    def _compile_ahead(self, shapes: Any, targets: Any, dtype: Any = None, **given: Any) -> tuple[Ahead, ...]:
        from vkernels.runtime.ahead import compile_ahead

        from .signature import with_dtype

        left_open = [parameter.name for parameter in self.parameters if parameter.name not in given]
        return compile_ahead(self, self.signature(**with_dtype(self, dtype, given)), shapes, targets, left_open)


def _pin_and_planner(plan: object) -> tuple[Pin | None, Plan | Planner | None]:
    """What `plan=` gives. Raises `OptionError` for what is none."""
    from vkernels.ir.pin import Pin

    if isinstance(plan, Pin):
        return plan, None
    if plan is None or isinstance(plan, Plan) or callable(plan):
        return None, plan
    raise OptionError(f"vk.kernel: plan: expected a vk.Plan, a vk.Pin or a function that makes a plan, got {plan!r}")


class Function:
    """A helper function: built in place wherever a kernel calls it, with tiles, axes, tensors or constants."""

    def __init__(self, function: Callable[..., Any]):
        functools.update_wrapper(self, function)
        self.name: str = function.__name__
        self.function = function

    @functools.cached_property
    def source(self) -> Source:
        """The helper's text. Raises `UnsupportedError` where Python does not have it."""
        from .frontend.source import read_source

        return read_source(self.function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Only kernels call helpers. Raises `UnsupportedError`."""
        from vkernels.ir.errors import UnsupportedError

        raise UnsupportedError(f"`{self.name}` is a helper function of kernels; only a kernel calls it")


@overload
def kernel(function: Callable[..., Any], /) -> Kernel: ...
@overload
def kernel(
    *,
    plan: Plan | Planner | Pin | None = None,
    budget: Budget | None = None,
    checked: bool = False,
) -> Callable[[Callable[..., Any]], Kernel]: ...
def kernel(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function a kernel: `@vk.kernel`, or `@vk.kernel(plan=…, checked=True)`.

    `Options` says what each option means. Raises `OptionError` for others, and `UnsupportedError` for parameters
    that kernels cannot have.
    """
    unknown = set(options) - set(Options.__dataclass_fields__)
    if unknown:
        known = ", ".join(Options.__dataclass_fields__)
        raise OptionError(f"vk.kernel has no option {', '.join(sorted(unknown))}; it has {known}")
    chosen = Options(**{name: value for name, value in options.items() if value is not None})
    if function is not None:
        return Kernel(function, chosen)
    return lambda function: Kernel(function, chosen)


def function(function: Callable[..., Any], /) -> Function:
    """Make a function a helper that kernels can call: it is built in place, and returns values."""
    return Function(function)
