"""Every public function of the library: on drawn arguments of odd sizes and layouts, and some on large ones.

Drawn arguments and references in more than float64 are the differential tester's (tests/differential); the large ones
are compared with torch in float64 on the device.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from gpu_cases import CHECKED, DTYPES, check

from tests.differential.case import Case as Call
from tests.differential.drawing import draw_group
from tests.differential.run import public_functions, run_case
from tests.differential.subjects import SUBJECTS

from .case import Case, WrongResultError
from .gpu import Gpu

FLOATS = ("float32", "float16", "bfloat16")
CALLS = 4
"""Calls of each specialisation, with other values each."""
MOST, FEW = 1 << 22, 400
"""Elements of all arguments, at most, where a GPU runs them, and where it is simulated."""
TRIES = 400


def cases(gpu: Gpu) -> list[Case]:
    return [*_drawn(gpu), *_large(gpu)]


def _drawn(gpu: Gpu) -> list[Case]:
    functions, found = public_functions(), []
    for number, name in enumerate(sorted(SUBJECTS)):
        seen: set[tuple[str, ...]] = set()
        for dtype in FLOATS:
            calls = calls_of(number, dtype, FEW if gpu.is_simulated else MOST)
            if not calls:
                continue
            dtypes = tuple(each.dtype for each in calls[0].arguments)
            if dtypes in seen:  # of integers alone
                continue
            seen.add(dtypes)

            def run(calls: list[Call] = calls, name: str = name) -> dict[str, Any]:
                return run_calls(calls, SUBJECTS[name], functions[name], gpu)

            found.append(Case(f"{name} {dtype}", run, 120.0))
    return found


def calls_of(number: int, dtype: str, most: int) -> list[Call]:
    """Calls of the function of this number, none of whose arguments is empty, of at most so many elements."""
    for turn in range(TRIES):
        calls = draw_group(number + len(SUBJECTS) * turn, SUBJECTS, dtype)
        sizes = [math.prod(each.shape) for each in calls[0].arguments]
        if 0 < sum(sizes) <= most and min(sizes) > 0:
            return calls[:CALLS]
    return []


def run_calls(calls: list[Call], subject: Any, function: Any, gpu: Gpu) -> dict[str, Any]:
    """Make the calls. Raises `WrongResultError` for the first that fails."""
    worst = 0.0
    for call in calls:
        outcome = run_case(call, subject, function, gpu.put)
        if outcome.failed:
            raise WrongResultError(f"{outcome.kind}: {outcome.message}\n{call}")
        worst = max(worst, outcome.worst)
    return {"of_allowed": round(worst, 4), "call": str(calls[0])}


def _large(gpu: Gpu) -> list[Case]:
    found = []
    for kernel, (make, shapes) in CHECKED.items():
        for shape in shapes:
            if gpu.is_simulated and math.prod(shape) > FEW:
                continue
            for dtype in DTYPES:

                def run(make: Any = make, shape: Any = shape, dtype: Any = dtype) -> dict[str, Any]:
                    done = check(make(*shape, dtype))
                    if not done.right:
                        raise WrongResultError(done.problem or f"{done.of_allowed:.2f} of the error allowed")
                    return {"of_allowed": done.of_allowed}

                name = f"{kernel} {'×'.join(map(str, shape))} {str(dtype).removeprefix('torch.')}"
                found.append(Case(name, run, 120.0))
    return found
