"""Tune kernels that are declared so, at their first call with new sizes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

from vkernels.compiler.arguments import CPU
from vkernels.inspect.cases import is_executing
from vkernels.ir.errors import Error, KernelWarning, warn_caller
from vkernels.language.kernel import Kernel
from vkernels.runtime.threads import get_threads

from .asked_task import AskedTask
from .database.launches import database_in_use
from .python_interface import tune
from .tuned import Tuned, Tunings

_log = logging.getLogger(__name__)
_begun: set[tuple[object, str]] = set()
_lock = threading.Lock()


def tune_first_use(kernel: Kernel, inputs: Mapping[str, Any]) -> None:
    """Tune a kernel for these inputs within its budget, once in this process; other threads go on meanwhile, untuned.

    If that is impossible, it warns. Raises `KeyboardInterrupt` after an interrupt, which ends tuning.
    """
    tuning = kernel.tuning
    if tuning is None or is_executing():
        return
    try:
        asked = AskedTask.of(kernel, (), inputs)
        slice = f"{CPU}:cores={get_threads()}" if asked.device == CPU else asked.device
        if not _begins(asked, slice):
            return
        if not database_in_use()[0]:
            raise Error("there is no tuning database to keep its plan in (vk.use_database)")
        _log.info("%s tunes itself on %s for %g s", asked.task, slice, tuning.budget)
        result = tune(kernel, dict(inputs), budget=float(tuning.budget), caches=tuning.caches, slices=[slice])
    except Error as error:
        warn_caller(KernelWarning(f"{kernel.name} could not tune itself: {error}"))
        return
    several = [result] if isinstance(result, Tuned) else [*result.values()] if isinstance(result, Tunings) else []
    if any(each.stopped == "interrupted" for each in several):
        raise KeyboardInterrupt


def _begins(asked: AskedTask, slice: str) -> bool:
    """Whether nobody has tuned this in this process."""
    with _lock:
        is_new = (asked.task, slice) not in _begun
        _begun.add((asked.task, slice))
        return is_new
