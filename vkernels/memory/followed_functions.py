"""Follow the functions of torch that a program calls between landmarks: others are noticed before they run.

A mode of torch's functions is on the stack where code of the program's own may run, also in backward. It sees what
Python calls, not what these functions call themselves, so that it costs a part of what watching every operation does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import MethodWrapperType
from typing import Any, NamedTuple
from weakref import ref

import torch
from torch._C import _len_torch_function_stack
from torch._C import _pop_torch_function_stack as _pop
from torch._C import _push_on_torch_function_stack as _push
from torch._ops import OpOverload
from torch.overrides import _pop_mode, _push_mode

from .backward_modes import BACKWARD, SeesBackward, run_backward
from .own_modules import RunningModules

WITHOUT_MEMORY = frozenset(
    getattr(torch.Tensor, name)
    for name in (
        "item", "tolist", "size", "dim", "numel", "stride", "is_contiguous", "is_floating_point", "element_size",
        "storage_offset", "data_ptr", "untyped_storage", "detach", "view", "__len__", "__bool__", "__int__",
        "__float__", "__index__", "__format__", "__repr__", "__hash__", "__iter__", "requires_grad_", "backward",
    )
) | {torch.autograd.backward}  # fmt: skip
"""Functions that need no memory of the device, and backward: they may be called at any time."""
UNCOUNTED = frozenset({MethodWrapperType, OpOverload})
"""Types of functions that are not followed: attributes, and operations as modes of operations call them."""
COMPILED, UNCOMPILED = "torch/_dynamo/eval_frame.py", "DisableContext."
"""The file of the function that calls compiled code, which is compiled anew where another mode is on the stack; and in
it, what calls functions that torch never compiles, such as checkpoints and `zero_grad`."""


class Called(NamedTuple):
    """A function that was called. `sizes`: whole numbers that it was given, if no tensors were; None: they differ from
    call to call. `shape`: of the result, if it is one tensor."""

    function: Any
    sizes: tuple[Any, ...] | None
    shape: torch.Size | None


Stretch = tuple[Called, ...] | None
"""What is called from one landmark to the next, without the steps of optimisers; None: not to be followed."""


def sizes_of(args: Any) -> tuple[Any, ...]:
    """The whole numbers among arguments, if none is a tensor."""
    if any(isinstance(each, torch.Tensor) for each in args):
        return ()
    return tuple([each for each in args if _is_whole(each) or (isinstance(each, tuple) and all(map(_is_whole, each)))])


def _is_whole(value: Any) -> bool:
    return isinstance(value, int)


def common_stretches(one: Sequence[Stretch], other: Sequence[Stretch]) -> tuple[Stretch, ...] | None:
    """Return what two calls have in common; None if they call other functions."""
    if len(one) != len(other):
        return None
    found: list[Stretch] = []
    for first, second in zip(one, other, strict=True):
        if first is None or second is None:
            found.append(None)
            continue
        pairs = [*zip(first, second, strict=False)]
        if len(first) != len(second) or any(a.function != b.function for a, b in pairs):
            return None
        found.append(tuple(
            Called(a.function, a.sizes if a.sizes == b.sizes else None, a.shape if a.shape == b.shape else None)
            for a, b in pairs
        ))  # fmt: skip
    return tuple(found)


class FunctionMode(SeesBackward):
    """Is on the stack of modes where `goes_on` says, under the modes that the program has entered since."""

    def __init__(self) -> None:
        super().__init__()
        self._outer = _len_torch_function_stack()
        self._is_on = self._is_inside = False
        """On the stack, though not while it handles a function."""

    def goes_on(self, is_on: bool) -> None:
        """Enter the stack or leave it."""
        if self._is_inside or is_on == self._is_on:  # torch restores the stack after it
            return
        if _len_torch_function_stack() == self._outer + self._is_on:  # nothing is above
            self._is_on = is_on
            _push(self) if is_on else _pop()
            return
        above = [_pop_mode() for _ in range(_len_torch_function_stack() - self._outer)]  # type: ignore[no-untyped-call]
        self._is_on = is_on
        for each in (self, *reversed(above)) if is_on else reversed(above[:-1]):
            _push_mode(each)  # type: ignore[no-untyped-call]

    @contextmanager
    def on_stack(self, is_on: bool = True) -> Iterator[None]:
        """Be on the stack."""
        self.goes_on(is_on)
        try:
            yield
        finally:
            self.goes_on(False)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if type(func) in UNCOUNTED:
            return func(*args, **kwargs) if kwargs else func(*args)
        was_inside, self._is_inside = self._is_inside, True
        try:
            if func in WITHOUT_MEMORY:
                return self.without_memory(func, args, kwargs or {})
            return self.called(func, args, kwargs or {})
        finally:
            self._is_inside = was_inside

    def called(self, func: Any, args: Any, kwargs: Any) -> Any:
        raise NotImplementedError

    def without_memory(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Call a function that needs no memory of the device itself."""
        return run_backward(self, func, args, kwargs) if func in BACKWARD else func(*args, **kwargs)


class FunctionRecorder(FunctionMode):
    """Records stretches. It stays on the stack, except in modules that must not see it."""

    def __init__(self) -> None:
        super().__init__()
        self._stretches: list[list[Called]] = [[]]
        self._is_open: list[bool] = [True]
        """Whether code of the program's own may run in a stretch, beside that of torch's own modules."""
        self._is_compiled: set[int] = set()
        """Stretches in which compiled code runs."""
        self._is_paused = False
        self._records = True
        self._running = RunningModules()
        self._module: torch.nn.Module | None = None

    def stretches(self) -> tuple[Stretch, ...]:
        """Return those of the call so far, if they are to be followed: where code of the program's own may run, and no
        compiled code does."""
        return tuple(
            tuple(each) if is_open and number not in self._is_compiled else None
            for number, (each, is_open) in enumerate(zip(self._stretches, self._is_open, strict=True))
        )

    @contextmanager
    def recording(self, is_on: bool) -> Iterator[None]:
        """Be on the stack, except where a module must not see it."""
        self._records = is_on
        with self.on_stack(is_on), self._running.following(self._left):
            yield

    def entering(self, module: torch.nn.Module) -> None:
        """Note the module of the next stretch."""
        self._module = module

    def next(self, kind: type) -> None:
        """Begin another stretch, of a module or optimiser; functions of an optimiser's step do not count."""
        self._is_open[-1] = self._is_open[-1] and not self._running.is_between_own
        self._stretches.append([])
        self._is_paused = issubclass(kind, torch.optim.Optimizer)
        if self._module is not None:
            self._running.enter(self._module)
            self._module = None
        self._is_open.append(not self._running.is_sensitive)
        if self._records:
            self.goes_on(not self._running.is_sensitive)

    def resume(self) -> None:
        """After an optimiser's step."""
        self._is_paused = False

    def _left(self) -> None:
        """After a module that must not see the mode."""
        self._is_open[-1] = True
        if self._records:
            self.goes_on(True)

    def called(self, func: Any, args: Any, kwargs: Any) -> Any:
        at = len(self._stretches) - 1
        sizes, is_counted = sizes_of(args), not self._is_paused
        out = self.without_memory(func, args, kwargs)
        if is_counted:
            if _is_compiled():
                self._is_compiled.add(at)
            self._stretches[at].append(Called(func, sizes, out.shape if isinstance(out, torch.Tensor) else None))
        return out


class FunctionFollower(FunctionMode):
    """Follows a call's stretches. `differs`: called with a reason, and with what the program holds, before a function
    that was not called there before, or after one whose result has another shape.

    `watched`: calls a function while its operations are watched; None where all that follows is watched, or nothing.
    """

    def __init__(self, differs: Callable[[str, Any], None]):
        super().__init__()
        self.watched: Callable[[Any, Any, Any], Any] | None = None
        self._differs = differs
        self._at, self._part, self._count = 0, -1, -1
        self._expected: tuple[Called, ...] = ()
        self._others: list[Stretch] = []
        self._made: list[ref[torch.Tensor]] = []

    @property
    def is_following(self) -> bool:
        """Whether it is on the stack, or follows when it is again."""
        return self._is_on

    def enter(self, part: int, calls: Sequence[Sequence[Stretch]]) -> None:
        """Follow a stretch of what the call may be from its beginning, or go on with it."""
        if part != self._part:
            self._part, self._at = part, 0
        found = [each[part] if part < len(each) else None for each in calls]
        first, *self._others = found if found and None not in found else (None,)
        self._expected = first or ()
        self._count = -1 if first is None else len(first)
        self.goes_on(self._count >= 0)

    def leave(self) -> None:
        """Follow no longer."""
        self.goes_on(False)
        self._part, self._count = -1, -1

    def made(self) -> list[torch.UntypedStorage]:
        """Return the storages of results that still live: lists that are being made are found by no name."""
        found, self._made = [each() for each in self._made], []
        return [each.untyped_storage() for each in found if each is not None and each.layout is torch.strided]

    def without_memory(self, func: Any, args: Any, kwargs: Any) -> Any:
        out = super().without_memory(func, args, kwargs)
        if isinstance(out, torch.Tensor):  # a view may live longer than what it is of
            self._made.append(ref(out))
        return out

    def called(self, func: Any, args: Any, kwargs: Any) -> Any:
        part, at = self._part, self._at
        if self._count < 0:
            return self.without_memory(func, args, kwargs) if self.watched is None else self.watched(func, args, kwargs)
        self._at = at + 1
        is_next = at < self._count and self._expected[at][0] is func and self._expected[at][1] == ()
        if not is_next and not self._is_expected(at, func, args):
            self._leave_at(func, args, kwargs)
            if self.watched is not None:
                return self.watched(func, args, kwargs)
        out = func(*args, **kwargs) if func not in BACKWARD else run_backward(self, func, args, kwargs)
        is_tensor = isinstance(out, torch.Tensor)
        for each in (out,) if is_tensor else out if isinstance(out, tuple | list) else ():
            if isinstance(each, torch.Tensor):
                self._made.append(ref(each))
        if self._count >= 0 and self._part == part:
            shape = self._expected[at][2]
            if shape is not None and (not is_tensor or out.shape != shape):
                self._leave_at(func, args, out)
        return out

    def _is_expected(self, at: int, func: Any, args: Any) -> bool:
        """Whether a function is the next of a stretch; it is that of another kind of call from here on, if need be."""
        if at < self._count:
            expected, sizes, _ = self._expected[at]
            if (expected is func or expected == func) and (not sizes or sizes == sizes_of(args)):
                return True
        others, before = self._others, self._expected[:at]
        while others:
            other = others.pop(0) or ()
            if other[:at] == before and len(other) > at and other[at].function == func:
                self._expected, self._count = other, len(other)
                return self._is_expected(at, func, args)
        return False

    def _leave_at(self, func: Any, args: Any, more: Any) -> None:
        self._count = -1
        name = getattr(func, "__name__", "a function")
        self._differs(f"{name} was not called there before, or with other sizes", (args, more, _locals()))


def _is_compiled() -> bool:
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_filename.endswith(COMPILED) and not code.co_qualname.startswith(UNCOMPILED):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _locals() -> list[dict[str, Any]]:
    """Names of the functions that are running, down to the call under a limit."""
    frame, found = sys._getframe(2), []
    while frame is not None and frame.f_code.co_name != "_run_unwatched":
        found.append(frame.f_locals)
        frame = frame.f_back  # type: ignore[assignment]
    return found
