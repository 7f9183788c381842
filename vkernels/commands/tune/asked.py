"""What `vk tune` is asked for, from the texts of its options."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vkernels.autotune.drive import Stop
from vkernels.autotune.usual import Wanted
from vkernels.ir.errors import OptionError

from ..check.specialising import wanted_from

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_TIME = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)([smh])")
_COUNT = re.compile(r"[0-9]{1,9}")


def stop_from(budget: str) -> Stop:
    """A time as `60s`, `2m` or `1h`, a number of plans as `200`, or both with a comma between. Raises `OptionError`."""
    found: dict[str, float] = {}
    for part in budget.split(","):
        time, count = _TIME.fullmatch(part.strip()), _COUNT.fullmatch(part.strip())
        if time:
            found["seconds"] = float(time[1]) * _SECONDS[time[2]]
        elif count:
            found["evaluations"] = int(count[0])
        if not (time or count) or not all(found.values()):
            raise OptionError(f"--budget: expected a time as 60s, 2m or 1h, or a number of plans as 200, got {part!r}")
    seconds, evaluations = found.get("seconds"), found.get("evaluations")
    return Stop(evaluations=None if evaluations is None else int(evaluations), seconds=seconds)


def wanted_tasks(shapes: Sequence[str], dtype: str | None, constants: str | None) -> list[Wanted]:
    """One for each of the shapes, which are `M=…,N=…`; one without any. Raises `OptionError`."""
    given: list[str | None] = [*shapes] or [None]
    each = [wanted_from(dtype, shape, constants) for shape in given]
    return [Wanted(dict(one.shape), one.dtype, dict(one.dtypes), dict(one.constants)) for one in each]


def slice_names(target: str, slices: Sequence[str]) -> list[str]:
    """The slices to tune on, the whole device where there are none: `cpu:cores=1`. Raises `OptionError`."""
    from ..check.targets import specs_in

    if not slices:
        return [target]
    if ":" in target and not target.partition(":")[2].isdigit():
        raise OptionError(f"--slice cuts whole devices; {target} is a slice already")
    specs = [spec for text in slices for spec in specs_in(text)]
    return list(dict.fromkeys(target if spec == "all" else f"{target}:{spec}" for spec in specs))
