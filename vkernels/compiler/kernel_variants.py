"""The IR and the code of one kernel, by signature and by what the code was specialised for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from vkernels.ir.dialect import KernelOp
from vkernels.ir.transforms.merge_tensors import with_one_for

from .arguments import Same
from .protocols import KernelLike, Signature
from .specialise import kernel_in, written_tensors

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
        self._lock = threading.RLock()
        self._ir: dict[tuple[Signature, Same], KernelIR] = {}
        self._code: dict[Hashable, Code] = {}
        self._compiling: dict[Hashable, Future[None]] = {}

    def ir(self, kernel: KernelLike, signature: Signature, same: Same = ()) -> KernelIR:
        """The kernel's IR. Raises the author's mistakes."""
        with self._lock:
            found = self._ir.get((signature, same))
            if found is None:
                if same:
                    module = with_one_for(self.ir(kernel, signature).module, dict(same))
                else:
                    module = kernel.build(signature)
                while len(self._ir) >= MAX_IR:
                    del self._ir[next(iter(self._ir))]
                found = self._ir[signature, same] = KernelIR(module, written_tensors(kernel_in(module)))
            return found

    def code(self, key: Hashable, compile: Callable[[], Code], anew: bool = False) -> Code:
        """The code of a variant, compiled by one thread where several ask. `anew`: compile it whatever is there."""
        done: Future[None] = Future()
        while not anew:
            with self._lock:
                if key in self._code:
                    return self._code[key]
                other = self._compiling.setdefault(key, done)
            if other is done:
                break
            other.result()  # of another thread, which may have failed
        try:
            code = compile()
            with self._lock:
                while len(self._code) >= MAX_CODE:
                    del self._code[next(iter(self._code))]
                first = self._code.setdefault(key, code)
            return code if anew else first
        finally:
            with self._lock:
                if self._compiling.get(key) is done:
                    del self._compiling[key]
            done.set_result(None)

    def renew_lock(self) -> None:
        """After a fork, in the child: the threads that held the lock or compiled do not exist."""
        self._lock = threading.RLock()
        self._compiling = {}
