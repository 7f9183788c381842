"""The part of a GPU that each of several tasks has, as a slice that plans can be tuned for."""

from __future__ import annotations

from vkernels.ir.errors import OptionError

from ..target import Target
from .cuts import PAIRED
from .slice_of import slice_of


def share_of(target: Target, tasks: int) -> Target:
    """An equal part of the multiprocessors: `sms=` as green contexts have them, `cus=` on AMD.

    Raises `OptionError` where there are fewer than a part needs.
    """
    number = target.multiprocessors // tasks
    if target.vendor == "amd":
        return slice_of(target, f"cus={number * (2 if target.architecture.startswith(PAIRED) else 1)}")
    rule = target.green_contexts
    if rule is not None:
        number = number // rule.multiple * rule.multiple
        if number < rule.least:
            raise OptionError(f"{target.key} has no {tasks} parts of {rule.least} multiprocessors")
    return slice_of(target, f"sms={number}")
