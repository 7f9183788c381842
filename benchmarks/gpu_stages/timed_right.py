"""Each way of each row that is timed runs once, and is compared with float64 on the device."""

from __future__ import annotations

from typing import Any

from vkernels.ir.errors import PlanError

from .case import RIGHT, Case, WrongResultError
from .gpu import Gpu
from .timings import Timed, all_timed

OURS = ("ours", "plan")


def cases(gpu: Gpu) -> list[Case]:
    return [Case(name, lambda make=make: right(make(), gpu), 240.0) for name, make in all_timed(gpu).items()]


def right(timed: Timed, gpu: Gpu) -> dict[str, Any]:
    """What came of each way. Raises `WrongResultError` where code of ours gives other numbers, or none.

    A plan that the kernel cannot have, and what torch or a kernel by hand cannot do here, is only noted.
    """
    exact, found, wrong = timed.exact(), {}, []
    for name, run in {**timed.ways, **timed.hands}.items():
        try:
            result = run()
            gpu.synchronize()
            error = timed.error(result, exact)
        except Exception as problem:
            found[name] = f"{type(problem).__name__}: {problem}"[:300]
            if not gpu.works() or (name in OURS and not (name == "plan" and isinstance(problem, PlanError))):
                raise
            continue
        # torch's and a hand's ways are allowed more: their choices are not ours to judge.
        if error <= timed.tolerance * (1 if name in OURS else 4):
            found[name] = RIGHT
        else:
            found[name] = f"error {error:.3g} of the greatest magnitude, more than {timed.tolerance:.3g}"
            if name in OURS:
                wrong.append(f"{name}: {found[name]}")
    if wrong:
        raise WrongResultError("; ".join(wrong))
    return {"ways": found}
