"""A program for `test_hostile_entries`: calls a kernel by whatever plans a database has for it, one after another.

Its arguments: a folder, the kernel, and the seconds that a call may take. For each plan of `plans.json` it prints a
line of JSON: whether the call ran by that plan, and what was warned of. A call that takes longer ends the process.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import vkernels as vk
from vkernels.autotune.database import Database, Entry, key_of
from vkernels.compiler.default_session import default_session
from vkernels.compiler.protocols import Signature
from vkernels.compiler.specialise import kernel_in
from vkernels.ir.plan import Plan
from vkernels.ir.plan_json import plan_from_json
from vkernels.library.dense import matmul_bias
from vkernels.library.rows import softmax_rows
from vkernels.runtime.dispatch import Launcher
from vkernels.runtime.present_target import present_target

from .making import DEVICE


def softmax(random: np.random.Generator) -> tuple[Any, dict[str, int], Callable[[Any], None]]:
    x = random.standard_normal((2048, 1000), np.float32)
    wide = np.exp(x.astype(np.float64))
    expected = wide / wide.sum(1, keepdims=True)

    def check(launcher: Any) -> None:
        out = np.full_like(x, np.nan)
        launcher(x, out)
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-9)

    return softmax_rows, {"M": 2048, "N": 1000}, check


def matmul(random: np.random.Generator) -> tuple[Any, dict[str, int], Callable[[Any], None]]:
    a, b = (random.standard_normal((300, 300), np.float32) for _ in "ab")
    bias = random.standard_normal(300, np.float32)
    expected = a.astype(np.float64) @ b + bias

    def check(launcher: Any) -> None:
        out = np.full_like(a, np.nan)
        launcher(a, b, bias, out)
        np.testing.assert_allclose(out, expected, rtol=1e-3, atol=1e-3)

    return matmul_bias, {"M": 300, "N": 300, "K": 300}, check


CASES = {"softmax": softmax, "matmul": matmul}


def asked(kernel: Any, sizes: dict[str, int]) -> tuple[Any, dict[str, str], Plan]:
    """The kernel's IR, dtypes, and the plan that is chosen."""
    dtypes = {each.name: "float32" for each in kernel.parameters if each.kind == "tensor"}
    built = kernel_in(kernel.build(Signature(tuple(dtypes.items()))))
    plans = default_session().plans_for(kernel, built, sizes, dtypes, present_target("cpu").limits)
    return built, dtypes, plans.fallback(lambda plan: plan).chosen.plan


def main(folder: Path, name: str, seconds: float) -> None:
    vk.use_database(None)
    kernel, sizes, check = CASES[name](np.random.default_rng())
    built, dtypes, chosen = asked(kernel, sizes)
    limits = present_target("cpu").limits
    said: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("vkernels").addHandler(handler)
    for number, changed in enumerate(json.loads((folder / "plans.json").read_text())):
        plan = replace(chosen, **{each: getattr(plan_from_json(changed), each) for each in changed})
        path = str(folder / f"{number}.sqlite")
        with Database.open(path) as database:
            database.add(Entry(key_of(built, sizes, dtypes, limits), name, sizes, limits, plan, DEVICE,
                               seconds=1e-9, low=1e-9, high=1e-9))  # fmt: skip
        vk.use_database(path)
        said.clear()
        ran: list[Any] = []
        signal.setitimer(signal.ITIMER_REAL, seconds)  # whose signal ends the process, native code or not
        with vk.on_launch(ran.append):
            launcher = Launcher(kernel)
            check(launcher)
            check(launcher)
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(json.dumps({"number": number, "taken": ran[-1].plan == plan, "said": said}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
