"""The IR and the code of one kernel, by signature and by what the code was specialised for."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp

from vkernels.ir.dialect import KernelOp
from vkernels.ir.errors import PlanError
from vkernels.ir.fork_safe import fork_safe_lock
from vkernels.ir.transforms.merge_tensors import with_one_for

from .arguments import Same
from .protocols import KernelLike, Signature
from .size_history import SizeHistory
from .specialise import kernel_in, written_tensors
from .timeline import working

if TYPE_CHECKING:
    from .request import Code

MAX_CODE = 128
"""Compiled variants of a kernel; the oldest goes first. Code that calls, replays and other threads hold lives on."""

MAX_IR = 128
"""Signatures of a kernel whose IR is kept; the oldest goes first."""


@dataclass(frozen=True)
class KernelIR:
    """A kernel's IR for one signature, as written but with one tensor in place of all that are the same, and the names
    of the tensors that it writes."""

    module: ModuleOp
    written: tuple[str, ...]

    @property
    def kernel(self) -> KernelOp:
        """The kernel in the module."""
        return kernel_in(self.module)


class KernelVariants:
    """Builds and compiles each variant of a kernel once. May be used by several threads."""

    def __init__(self) -> None:
        self._lock = fork_safe_lock(threading.RLock)
        self._ir: dict[tuple[Signature, Same], KernelIR] = {}
        self._code: dict[Hashable, Code] = {}
        self._refused: dict[Hashable, PlanError] = {}
        self._compiling: dict[Hashable, Future[None]] = {}
        self._histories: dict[Hashable, SizeHistory] = {}

    def ir(self, kernel: KernelLike, signature: Signature, same: Same = ()) -> KernelIR:
        """The kernel's IR. Raises the author's mistakes."""
        with self._lock:
            found = self._ir.get((signature, same))
            if found is None:
                if same:
                    module = with_one_for(self.ir(kernel, signature).module, dict(same))
                else:
                    with working("build", kernel):
                        module = kernel.build(signature)
                found = KernelIR(module, written_tensors(kernel_in(module)))
                _put(self._ir, (signature, same), found, MAX_IR)
            return found

    def history(self, key: Hashable, on_gpu: bool, exact_shapes: int) -> SizeHistory:
        """The sizes of calls with one signature on one architecture."""
        with self._lock:
            found = self._histories.get(key)
            if found is None:
                found = _put(self._histories, key, SizeHistory(on_gpu, exact_shapes), MAX_IR)
            return found

    def code(self, key: Hashable, compile: Callable[[], Code], again: bool = False) -> Code:
        """The code of a variant; if several threads need it, one compiles it. `again`: compile it in any case.

        Raises what `compile` raises; a `PlanError` is raised again without compiling again.
        """
        done: Future[None] = Future()
        compiling = os.getpid(), key  # a forked child has none of its parent's threads
        while not again:
            with self._lock:
                if (found := self._known(key)) is not None:
                    return found
                other = self._compiling.setdefault(compiling, done)
            if other is done:
                break
            other.result()  # of another thread, which may have failed
        try:
            code = self._compile(key, compile)
            with self._lock:
                return code if again and key in self._code else _put(self._code, key, code, MAX_CODE)
        finally:
            with self._lock:
                if self._compiling.get(compiling) is done:
                    del self._compiling[compiling]
            done.set_result(None)

    def known_code(self, key: Hashable) -> Code | None:
        """The code of a variant, if it is compiled. Raises the `PlanError` of a variant that was refused."""
        with self._lock:
            return self._known(key)

    def _known(self, key: Hashable) -> Code | None:
        refused = self._refused.get(key)
        if refused is not None:
            raise type(refused)(refused.message, refused.place, refused.about, refused.help)
        return self._code.get(key)

    def _compile(self, key: Hashable, compile: Callable[[], Code]) -> Code:
        try:
            return compile()
        except PlanError as error:
            with self._lock:
                _put(self._refused, key, error, MAX_IR)
            raise


def _put(cache: dict[Any, Any], key: Hashable, entry: Any, most: int) -> Any:
    """Store an entry in place of the oldest ones, unless there is one; returns what is stored."""
    while len(cache) >= most:
        del cache[next(iter(cache))]
    return cache.setdefault(key, entry)
