"""Parse the options of `vk tune`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vkernels.autotune.drive import Stop
from vkernels.inspect.specialisation import SpecialisationRequest, parse_specialisation
from vkernels.ir.errors import OptionError

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_TIME = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)([smh])")
_COUNT = re.compile(r"[0-9]{1,9}")


def stop_from(budget: str) -> Stop:
    """Parse a time (`60s`, `2m`, `1h`), a number of plans (`200`), or both with a comma. Raises `OptionError`."""
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


def wanted_tasks(shapes: Sequence[str], dtype: str | None, constants: str | None) -> list[SpecialisationRequest]:
    """Return a request for each shape `M=…,N=…`, or one if there is none. Raises `OptionError`."""
    given: list[str | None] = [*shapes] or [None]
    return [parse_specialisation(dtype, shape, constants) for shape in given]


def slice_names(target: str, slices: Sequence[str]) -> list[str]:
    """Return the slices to tune for, as `cpu:cores=1`; the whole device if none are given. Raises `OptionError`."""
    from ..check.targets import specs_in

    if not slices:
        return [target]
    if ":" in target and not target.partition(":")[2].isdigit():
        raise OptionError(f"--slice cuts whole devices; {target} is a slice already")
    specs = [spec for text in slices for spec in specs_in(text)]
    return list(dict.fromkeys(target if spec == "all" else f"{target}:{spec}" for spec in specs))
