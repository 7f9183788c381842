"""`@vk.kernel` and `@vk.function`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, TypeVar, overload

from vkernels.ir.budget import Budget
from vkernels.ir.errors import Error, OptionError, UnsupportedError
from vkernels.ir.optional_packages import not_installed
from vkernels.ir.pin import Pin, checked_plan
from vkernels.ir.plan import Plan

from .declaration import DeclaredKernel, Function, SourceFunction, make_signature, named, with_dtype
from .samples import SampleInputs
from .self_tuning import Tuning

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from vkernels.compiler.ahead import AheadResult
    from vkernels.compiler.protocols import Signature
    from vkernels.ir.limits import Limits
    from vkernels.runtime.dispatch import Launcher

Planner = Callable[[Mapping[str, int], Mapping[str, str], "Limits"], Plan]
"""A hand-written plan: from sizes by name, dtypes by tensor, and the target's limits."""

Drawer = Callable[[Mapping[str, int], Mapping[str, str], Any], Mapping[str, Any]]
"""Makes inputs for tuning from sizes by name, dtypes by tensor, and a NumPy random generator."""

F = TypeVar("F", bound=Callable[..., Any])
D = TypeVar("D", bound=Drawer)


@dataclass(frozen=True)
class Options:
    """Options of `@vk.kernel`, which says what they mean."""

    plan: Plan | Planner | Pin | None = None
    budget: Budget | None = None
    checked: bool = False
    deterministic: bool = False
    approximate: bool | None = None
    tune: Tuning | None = None


class Kernel(DeclaredKernel):
    """A kernel: call it with tensors (torch's or NumPy's), scalars and constants.

    `name`, `function`, `parameters`, `options`, `pin`, `budget`, `deterministic`, `approximate`: as declared. `source`:
    read on first use. `samples`: typical arguments; assign it next to the kernel.
    """

    def __init__(self, function: Callable[..., Any], options: Options = Options()):
        allowed = options.approximate
        super().__init__(function, None if allowed is None else _flag("approximate", allowed))
        self.options = options
        self.pin, self._planner = _pin_and_planner(options.plan)
        self.budget = options.budget
        self.deterministic = _flag("deterministic", options.deterministic)
        self.tuning = _tuning(options)
        self.samples = SampleInputs()
        self._inputs: Drawer | None = None

    def __repr__(self) -> str:
        return f"<vk.kernel {self.name}({', '.join(self._names())})>"

    def __reduce__(self) -> Any:
        """Other options than those of the kernel of its name are pickled with it, such as a plan."""
        found = named(self.function)
        if isinstance(found, Kernel) and found is not self and found.function is self.function:
            return with_options, (found, self.options)
        return super().__reduce__()

    def signature(self, **given: Any) -> Signature:
        """Make a signature: a dtype or its name for a tensor, float, int or bool for a scalar, a value for a
        constant."""
        return make_signature(self, given)

    def build(self, signature: Signature) -> ModuleOp:
        """Build a new module with one `vk.kernel`. Raises `SourceError` for the author's mistakes."""
        try:
            from .frontend.build import build_kernel

            return build_kernel(self, signature)
        except ModuleNotFoundError as error:
            raise not_installed(error) from None

    def plan(self, planner: F) -> F:
        """Attach a hand-written plan function: `@kernel.plan` above `def plan(sizes, dtypes, limits) -> Plan`."""
        self._planner = planner
        return planner

    def plan_for(self, sizes: Mapping[str, int], dtypes: Mapping[str, str], limits: Limits) -> Plan | None:
        """Return the author's plan for sizes by name and dtypes by tensor; None without one.

        Raises `OptionError` where the author's function gives something else, or what no plan can have.
        """
        planner = self._planner
        if planner is None or isinstance(planner, Plan):
            return planner
        try:
            return checked_plan(planner(sizes, dtypes, limits))
        except OptionError as error:
            raise OptionError(f"{self.name}: the function that plans it: {error}") from error

    def inputs(self, drawer: D) -> D:
        """Attach inputs for tuning: `@kernel.inputs` above `def inputs(sizes, dtypes, random) -> dict`.

        The function returns arrays and scalars by name; it must return all integer tensors, because only the author
        knows which values are valid.
        """
        self._inputs = drawer
        return drawer

    def inputs_for(self, sizes: Mapping[str, int], dtypes: Mapping[str, str], random: Any) -> Mapping[str, Any]:
        """Return the author's inputs; empty without any."""
        return {} if self._inputs is None else self._inputs(sizes, dtypes, random)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Run the kernel on tensors, scalars and constants, positional or by name; it stores results into tensors."""
        if self.options.checked:
            return self.interpret(*args, **kwargs)
        try:
            self._launcher(*args, **kwargs)
        except Error as error:
            raise error.shortened() from error.__cause__
        except ModuleNotFoundError as error:
            raise not_installed(error) from None

    # torch.compile leaves the graph at a call; where it must not (fullgraph=True), its message says this.
    setattr(__call__, "_torchdynamo_disable", True)  # noqa: B010
    setattr(__call__, "_torchdynamo_disable_msg", "a kernel call; vk.torch_op(kernel) makes an operation for graphs")  # noqa: B010

    def __getitem__(self, grid: object) -> NoReturn:
        """Raise `UnsupportedError`: kernels have no grid, which Triton's are indexed with."""
        raise UnsupportedError(
            f"{self.name}[…]: a kernel is called without a grid",
            help=f"The plan decides how many programs there are: `{self.name}({', '.join(self._names())})`.",
        )

    def _names(self) -> list[str]:
        return [parameter.name for parameter in self.parameters]

    @functools.cached_property
    def _launcher(self) -> Launcher:
        from vkernels.runtime.dispatch import launcher_of

        return launcher_of(self)

    def interpret(
        self, *args: Any, on_print: Callable[[str], object] = print, trace: bool = False, **kwargs: Any
    ) -> None:
        """Run the kernel's IR slowly in NumPy, with bounds checks, `vk.print` and `vk.device_assert`.

        `on_print` receives each line of `vk.print`; `trace` lets Python's debugger stop at the author's lines.
        """
        try:
            from vkernels.runtime.interpret import interpret

            interpret(self, args, kwargs, on_print=on_print, trace=trace)
        except Error as error:
            raise error.shortened() from error.__cause__
        except ModuleNotFoundError as error:
            raise not_installed(error) from None

    def compile(self, *args: Any, **kwargs: Any) -> Any:
        """Compile without running: for given arguments, or ahead, for shapes and absent devices.

        `compile(x, out)` returns the code that this call would run, with the text of every stage.
        `compile(shapes={"M": 4096, "N": 1024}, targets=["h100-sxm5-80:1g.10gb", "cpu"], dtype="float16")` returns an
        `AheadResult` for each shape on each target: plan, rung, code, resources. `shapes`: sizes by name, or a list of
        these; `targets`: names from `vk targets`, also slices; `layouts={"q": "B M H D"}`: the order in memory of the
        dimensions of tensors that are not row-major, slowest first. `judge`: how many plans for a GPU are compiled to
        take the best by its binaries, as calls do; 1 takes the model's choice. Parameters are passed as to `signature`;
        `dtype` applies to all tensors that support it, others have their default dtype. Raises as calls do, and
        `OptionError` for unknown targets, sizes and layouts.
        """
        names = {parameter.name for parameter in self.parameters}
        try:
            if not args and {"shapes", "targets"} <= kwargs.keys() - names:
                return self._compile_ahead(**kwargs)
            from vkernels.runtime.dispatch import compile as compile_

            return compile_(self, args, kwargs)
        except ModuleNotFoundError as error:
            raise not_installed(error) from None

    def _compile_ahead(
        self, shapes: Any, targets: Any, dtype: Any = None, layouts: Any = None, judge: int | None = None, **given: Any
    ) -> tuple[AheadResult, ...]:
        from vkernels.compiler.ahead import compile_ahead
        from vkernels.compiler.arguments import CPU
        from vkernels.compiler.default_session import default_session
        from vkernels.runtime.determinism import get_deterministic
        from vkernels.runtime.present_target import present_target

        signature = self.signature(**with_dtype(self, dtype, given))
        left_open = [parameter.name for parameter in self.parameters if parameter.name not in given]
        cpu, session, is_deterministic = present_target(CPU), default_session(), get_deterministic()
        return compile_ahead(
            self, signature, shapes, targets, cpu, session, left_open, is_deterministic, layouts, judge
        )


def with_options(kernel: Kernel, options: Options) -> Kernel:
    """The same kernel with other options."""
    return type(kernel)(kernel.function, options)


def _pin_and_planner(plan: object) -> tuple[Pin | None, Plan | Planner | None]:
    """Split the `plan` option into pin and planner. Raises `OptionError` for anything else."""
    if isinstance(plan, Pin):
        return plan, None
    if isinstance(plan, Plan):
        return None, checked_plan(plan)
    if plan is None or callable(plan):
        return None, plan
    raise OptionError(f"vk.kernel: plan: expected a vk.Plan, a vk.Pin or a function that makes a plan, got {plan!r}")


def _tuning(options: Options) -> Tuning | None:
    """The `tune` option. Raises `OptionError` for something else, and beside what leaves nothing to tune."""
    tune = options.tune
    if tune is None:
        return None
    if not isinstance(tune, Tuning):
        raise OptionError(f"vk.kernel: tune: expected vk.Tuning(budget=…), got {tune!r}")
    if options.deterministic:
        raise OptionError("vk.kernel: tune: a deterministic kernel takes no tuned plans")
    if options.plan is not None and not isinstance(options.plan, Pin):
        raise OptionError(
            "vk.kernel: tune: a kernel with a plan of its author has nothing to tune; a vk.Pin may be beside"
        )
    return tune


def _flag(name: str, value: object) -> bool:
    """A value that must be a bool. Raises `OptionError`."""
    if not isinstance(value, bool):
        raise OptionError(f"vk.kernel: {name}: expected True or False, got {value!r}")
    return value


if TYPE_CHECKING:
    P = ParamSpec("P")

    class TypedKernel(Kernel, Generic[P]):
        """A kernel whose calls type checkers compare with its parameters."""

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None: ...


@overload
def kernel(function: Callable[P, Any], /) -> TypedKernel[P]: ...
@overload
def kernel(
    *,
    plan: Plan | Planner | Pin | None = None,
    budget: Budget | None = None,
    checked: bool = False,
    deterministic: bool = False,
    approximate: bool | None = None,
    tune: Tuning | None = None,
) -> Callable[[Callable[P, Any]], TypedKernel[P]]: ...
def kernel(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function a kernel: `@vk.kernel`, or `@vk.kernel(plan=…, checked=True)`.

    `plan`: a plan, a function that makes one, or a `Pin`: fixed parts of a plan. `budget`: upper bounds for every plan.
    `checked`: interpret calls, slowly, and report indices out of range with line and value. `deterministic`: calls
    give the same bits in every run. `approximate`: exponentials and divisions may be a GPU's own, which are less
    accurate; unless said, those whose results are rounded to 16 bits or fewer. `tune`: the first call with new sizes
    tunes the kernel. Raises `OptionError` for unknown options, and `UnsupportedError` for unsupported parameters.
    """
    unknown = set(options) - set(Options.__dataclass_fields__)
    if unknown:
        known = ", ".join(Options.__dataclass_fields__)
        raise OptionError(f"vk.kernel has no option {', '.join(sorted(unknown))}; it has {known}")
    chosen = Options(**{name: value for name, value in options.items() if value is not None})
    if function is not None:
        return _declared(function, chosen)
    return lambda function: _declared(function, chosen)


def _declared(function: Callable[..., Any], options: Options) -> Kernel:
    is_function = not isinstance(function, SourceFunction) and inspect.isfunction(inspect.unwrap(function))
    if not is_function or function.__name__ == "<lambda>":
        raise UnsupportedError(f"vk.kernel: expected a function, got {function!r}", help="Write a kernel with `def`.")
    try:
        return Kernel(function, options)
    except Error as error:
        raise error.shortened() from error.__cause__


def function(function: Callable[..., Any], /) -> Function:
    """Make a function a helper that kernels can call: it is inlined, and returns values."""
    return Function(function)
